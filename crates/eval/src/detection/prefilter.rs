//! `custody eval prefilter`: PIPE's prefilter on rows and on sources it was not trained on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::bootstrap::{RESAMPLES, intervals};
use super::detector::{Detector, Failure, Recipe};
use super::metrics::{Scored, percentile, reliability};
use super::pictures::Picture;
use super::sets::Labelled;
use super::sets::parts::{hash, normal_form};
use super::sets::rows::read;
use super::suite::{Outcome, Size};
use super::unit::{Measured, Unit};
use crate::data::Row;
use crate::error::EvalError;
use crate::plot::roc;
use crate::recipe::sources::corpus_sources;
use crate::report::{DataFile, Figure, Report, Shows, Table, TableColumn, TableRow, wilson};
use crate::run_folder::RunFolder;

const CORPUS: &str = "prefilter_corpus.jsonl.gz";
const OUTSIDE: &str = "eval_only/qualifire_benchmark.jsonl";

/// Sources that are held back together. Each group holds injections and ordinary texts, else there is no
/// area to measure; sources that one project made stand in one group.
const SOURCE_GROUPS: [(&str, &[&str]); 3] = [
    ("safe_guard", &["safe-guard-train", "safe-guard-test"]),
    ("neuralchemy", &["neuralchemy"]),
    (
        "in_the_wild",
        &["in-the-wild-jailbreak", "gpteacher-roleplay", "wildguard-benign", "self-instruct-seed"],
    ),
];

const SHIPPED_ROWS: &str = "shipped weights, rows held back of other sources";
const SHIPPED_OUTSIDE: &str = "shipped weights, Qualifire benchmark (outside)";

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder of the benchmark data.
    pub data: PathBuf,
    /// What every random draw comes from.
    pub seed: u64,
    /// `Smoke` takes one row in sixteen.
    pub size: Size,
    /// Where finished units are kept.
    pub run: Option<PathBuf>,
}

/// Training rows, test rows, and the name of the figures.
struct Held {
    id: String,
    title: String,
    train: Vec<Labelled>,
    test: Vec<Labelled>,
}

/// Every text that [`run`] reads, for whoever wants to prepare something for them.
///
/// # Errors
/// As [`run`].
pub fn texts(options: &Options) -> Result<Vec<String>, EvalError> {
    let (rows, _) = corpus(&options.data, options.size)?;
    let (outside, _) = read(&options.data, OUTSIDE)?;
    let inside = rows.into_iter().map(|(_, row)| row.text);
    Ok(inside.chain(outside.into_iter().map(|row| row.text)).collect())
}

/// Trains `recipe` without what is held back and measures it there: one row in five, each group of sources,
/// and the outside set by the detector of the first. Beside it stands `shipped`, on the rows held back that
/// are of no source it was trained on, and on the outside set.
///
/// # Errors
/// When the data is not there or not as documented, or the recipe fails.
pub fn run(
    options: &Options,
    recipe: &dyn Recipe,
    shipped: Option<&dyn Detector>,
    progress: &mut dyn FnMut(&str, usize, usize),
) -> Result<Outcome, EvalError> {
    let folder = RunFolder::open(options.run.as_deref())?;
    let (rows, files) = corpus(&options.data, options.size)?;
    let (outside, outside_file) = read(&options.data, OUTSIDE)?;
    let outside: Vec<Labelled> = outside.into_iter().filter_map(Labelled::of).collect();
    let mut splits = vec![by_row(&rows)];
    splits.extend(SOURCE_GROUPS.iter().map(|group| by_source(&rows, group)));
    let mut shown = Shown { seed: options.seed, figures: Vec::new(), curves: Vec::new() };
    for (done, held) in splits.iter().enumerate() {
        progress(&held.title, done, splits.len());
        // The detector of the split by row meets the outside set in the same unit: one training for both.
        let beside = if done == 0 { outside.as_slice() } else { &[] };
        let measured = measure(options, recipe, held, beside, &folder)?;
        let (inside, rest) = measured.scores.split_at(held.test.len());
        shown.add(
            &held.id,
            &held.title,
            &held.test,
            &Measured { scores: inside.to_vec(), ..measured.clone() },
        )?;
        if done == 0 {
            let measured = Measured { scores: rest.to_vec(), ..measured };
            shown.add(
                "prefilter.qualifire",
                "Qualifire benchmark (outside)",
                &outside,
                &measured,
            )?;
        }
    }
    shown.worst_source();
    if let (Some(detector), Some(by_row)) = (shipped, splits.first()) {
        progress("shipped weights", splits.len(), splits.len());
        let unseen = unseen_by_shipped(&by_row.test);
        shown.add_shipped("prefilter.shipped", SHIPPED_ROWS, &unseen, detector)?;
        shown.add_shipped("prefilter.qualifire.shipped", SHIPPED_OUTSIDE, &outside, detector)?;
    }
    progress("done", splits.len(), splits.len());
    let mut report = Report::of("prefilter", options.seed, shown.figures);
    report.data = vec![files, outside_file];
    report.tables = vec![table(&splits, shipped.is_some())];
    report.notes = notes(options.size);
    report.command = Some(format!("custody eval prefilter --size {}", options.size.id()));
    let svg = roc::picture("Prefilter: rows and sources it was not trained on", &shown.curves);
    let pictures = vec![Picture { file: "prefilter-roc.svg".to_owned(), svg }];
    Ok(Outcome { report, pictures })
}

/// Trains on one side of a split and scores the other, and `beside` after it.
fn measure(
    options: &Options,
    recipe: &dyn Recipe,
    held: &Held,
    beside: &[Labelled],
    folder: &RunFolder,
) -> Result<Measured, EvalError> {
    let test: Vec<Labelled> = held.test.iter().chain(beside).cloned().collect();
    let unit = Unit {
        suite: "prefilter",
        recipe,
        data_set: "corpus",
        part: &held.id.replace('.', "-"),
        seed: options.seed,
        held: &crate::recipe::corpus::Held::default(),
        train: &held.train,
        test: &test,
        timed_calls: if beside.is_empty() { 0 } else { 100 },
        calls_by_length: 0,
    };
    match unit.finished(folder) {
        Some(measured) => Ok(measured),
        None => unit.measure(folder),
    }
}

/// What the report shows so far.
struct Shown {
    seed: u64,
    figures: Vec<Figure>,
    curves: Vec<roc::Curve>,
}

impl Shown {
    fn add(
        &mut self,
        id: &str,
        title: &str,
        rows: &[Labelled],
        measured: &Measured,
    ) -> Result<(), EvalError> {
        let (figures, curve) = split_figures(id, title, rows, measured, self.seed)
            .map_err(|cause| failed("prefilter", id, cause))?;
        self.figures.extend(figures);
        self.curves.extend(curve);
        Ok(())
    }

    fn add_shipped(
        &mut self,
        id: &str,
        title: &str,
        rows: &[Labelled],
        detector: &dyn Detector,
    ) -> Result<(), EvalError> {
        let texts: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
        let scores = detector.scores(&texts).map_err(|cause| failed("shipped", id, cause))?;
        let threshold = detector.threshold();
        self.add(id, title, rows, &Measured { scores, threshold, ..Measured::default() })
    }

    /// The smallest area among the groups of sources.
    fn worst_source(&mut self) {
        let is_area = |figure: &&Figure| {
            figure.id.starts_with("prefilter.by_source.") && figure.id.ends_with(".auroc")
        };
        let areas = self.figures.iter().filter(is_area).filter_map(|figure| figure.value);
        let id = "prefilter.by_source.worst_auroc";
        let figure = match areas.reduce(f64::min) {
            Some(worst) => Figure::real(id, worst, "rate"),
            None => Figure::unmeasured(id, "rate", "no group has both classes"),
        };
        self.figures.push(figure);
    }
}

fn failed(method: &str, data_set: &str, cause: Failure) -> EvalError {
    EvalError::Detector { method: method.to_owned(), data_set: data_set.to_owned(), cause }
}

/// The corpus with the source of each row.
fn corpus(data: &Path, size: Size) -> Result<(Vec<(String, Labelled)>, DataFile), EvalError> {
    let (rows, used) = read(data, CORPUS)?;
    let taken = |row: &Row| match size {
        // By the text and not by the place, so that a row stays when others come.
        Size::Smoke => (hash(&row.text) >> 32).is_multiple_of(16),
        Size::Full => true,
    };
    let with_source = |row: Row| {
        let source = row.field("source").unwrap_or_default().to_owned();
        Some((source, Labelled::of(row)?))
    };
    Ok((rows.into_iter().filter(taken).filter_map(with_source).collect(), used))
}

/// One text in five is held back, by its hash: the same text is never on both sides.
fn by_row(rows: &[(String, Labelled)]) -> Held {
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for (_, row) in rows {
        let side = if hash(&row.text).is_multiple_of(5) { &mut test } else { &mut train };
        side.push(row.clone());
    }
    let title = "rows held back".to_owned();
    Held { id: "prefilter".to_owned(), title, train, test }
}

/// A group of sources is held back; texts of it that stand elsewhere too are not trained on either.
fn by_source(rows: &[(String, Labelled)], (name, sources): &(&str, &[&str])) -> Held {
    let is_held = |source: &String| sources.contains(&source.as_str());
    let mut held: BTreeMap<String, ()> = BTreeMap::new();
    for (_, row) in rows.iter().filter(|(source, _)| is_held(source)) {
        held.insert(normal_form(&row.text), ());
    }
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for (source, row) in rows {
        if is_held(source) {
            test.push(row.clone());
        } else if !held.contains_key(&normal_form(&row.text)) {
            train.push(row.clone());
        }
    }
    let title = format!("sources held back: {}", sources.join(", "));
    Held { id: format!("prefilter.by_source.{name}"), title, train, test }
}

/// Rows of sources that the shipped recipe takes nothing from; a row's id begins with its source.
fn unseen_by_shipped(rows: &[Labelled]) -> Vec<Labelled> {
    let seen = |row: &&Labelled| corpus_sources().any(|source| row.id.starts_with(source));
    rows.iter().filter(|row| !seen(row)).cloned().collect()
}

fn split_figures(
    id: &str,
    title: &str,
    rows: &[Labelled],
    measured: &Measured,
    seed: u64,
) -> Result<(Vec<Figure>, Option<roc::Curve>), Failure> {
    let labels: Vec<bool> = rows.iter().map(|row| row.label).collect();
    let scored = Scored::new(&measured.scores, &labels, measured.threshold)?;
    let found = scored.measures();
    let counts = found.confusion;
    let name = |figure: &str| format!("{id}.{figure}");
    let mut area = match found.auroc {
        Some(area) => Figure::real(&name("auroc"), area, "rate"),
        None => Figure::unmeasured(&name("auroc"), "rate", "the rows are of one class"),
    };
    // Thousands of rows: a quarter of the resamples gives the interval its three digits.
    let between = intervals(std::slice::from_ref(&scored), RESAMPLES / 4, seed);
    area.ci95 = between.and_then(|between| between.auroc);
    if id == "prefilter" {
        area = area.published(0.97, "PIPE, the bar of its prefilter");
    }
    let mut figures = vec![
        area,
        Figure::rate(&name("fpr"), counts.false_positives, counts.negatives()),
        Figure::rate(&name("recall"), counts.true_positives, counts.positives()),
        Figure::real(&name("precision"), counts.precision(), "rate"),
        Figure::real(&name("f1"), counts.f1(), "rate"),
        Figure::real(&name("threshold"), measured.threshold, "score"),
        Figure::count(&name("rows"), rows.len() as u64, "rows"),
        Figure::count(&name("positive_rows"), counts.positives(), "rows"),
    ];
    if measured.training_seconds > 0.0 {
        figures.push(Figure::real(&name("training_seconds"), measured.training_seconds, "s"));
    }
    if id == "prefilter"
        && let Some(time) = percentile(&measured.latencies_us, 50.0)
    {
        figures.push(Figure::real(&name("latency_us_p50"), time, "us"));
    }
    if let Some(found) = reliability(&measured.scores, &labels, 10) {
        let error = found.expected_calibration_error;
        figures.push(Figure::real(&name("calibration_error"), error, "rate"));
    }
    let curve = scored.roc().map(|points| roc::Curve {
        name: title.to_owned(),
        note: format!("AUROC {:.3}", found.auroc.unwrap_or_default()),
        points: points.iter().map(|point| [point.false_positive_rate, point.recall]).collect(),
        operating_point: Some(roc::OperatingPoint {
            false_positive_rate: counts.false_positive_rate(),
            false_positive_rate_ci95: wilson(counts.false_positives, counts.negatives()),
            recall: counts.recall(),
            recall_ci95: wilson(counts.true_positives, counts.positives()),
        }),
    });
    Ok((figures, curve))
}

fn table(splits: &[Held], has_shipped: bool) -> Table {
    let row =
        |name: &str, prefix: &str| TableRow { name: name.to_owned(), prefix: prefix.to_owned() };
    let mut rows: Vec<TableRow> = splits.iter().map(|held| row(&held.title, &held.id)).collect();
    rows.insert(1, row("Qualifire benchmark (outside)", "prefilter.qualifire"));
    if has_shipped {
        rows.push(row(SHIPPED_ROWS, "prefilter.shipped"));
        rows.push(row(SHIPPED_OUTSIDE, "prefilter.qualifire.shipped"));
    }
    let columns = [
        ("AUROC", "auroc"),
        ("false positives", "fpr"),
        ("recall", "recall"),
        ("precision", "precision"),
        ("rows", "rows"),
        ("injections", "positive_rows"),
        ("training s", "training_seconds"),
    ];
    let column = |(title, suffix): (&str, &str)| TableColumn {
        title: title.to_owned(),
        suffix: suffix.to_owned(),
        shows: Shows::Measured,
    };
    Table {
        title: "Held back from training".to_owned(),
        note: "The threshold is the detector's own, chosen on training rows.".to_owned(),
        rows_are: "texts".to_owned(),
        rows,
        columns: columns.map(column).to_vec(),
    }
}

fn notes(size: Size) -> Vec<String> {
    let share = match size {
        Size::Smoke => "One row in sixteen of the corpus was used.",
        Size::Full => "The whole corpus was used.",
    };
    vec![
        format!(
            "{share} By row: one text in five is held back by its hash, so that no text is on both sides. By \
             source: all rows of a group of sources are held back, the harder and more honest question."
        ),
        "The Qualifire benchmark was never trained on and sets no threshold; its licence allows evaluation \
         only."
            .to_owned(),
        "The weights trained here are thrown away: the corpus holds rows under CC BY-NC and without a stated \
         licence. The shipped weights learned from other rows, whose licences allow it; they are measured on \
         those of the rows held back that are of no source they learned from."
            .to_owned(),
    ]
}
