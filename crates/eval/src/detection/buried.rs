//! `custody eval buried`: attacks inside what tools bring back, found at 1 % false positives.
//!
//! In each of five folds the recipes are trained without the attacker instructions of InjecAgent and the
//! categories of BIPIA that are measured in it, and without the documents that thresholds come from or that
//! are measured. The threshold is the lowest that flags at most 1 % of the clean calibration documents; the
//! clean test documents then say what it really flags.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::bootstrap::{RESAMPLES, intervals};
use super::detector::{Detector, Failure, Recipe};
use super::metrics::{Scored, threshold_at_false_positive_rate};
use super::overdefence::{Shipped, id_part};
use super::pictures::Picture;
use super::sets::buried::{Case, Position, bipia, clean_documents, injecagent};
use super::sets::parts::named_folds;
use super::sets::{Labelled, Part};
use super::suite::{Outcome, Size};
use super::unit::{RunFolder, Unit};
use crate::error::EvalError;
use crate::plot::{bars, roc};
use crate::report::{DataFile, Figure, Report, Shows, Table, TableColumn, TableRow, wilson};

/// The false positives that the threshold may cost on the calibration documents.
const RATE: f64 = 0.01;
const FOLDS: usize = 5;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder of the benchmark data.
    pub data: PathBuf,
    /// What every random draw comes from.
    pub seed: u64,
    /// `Smoke` inserts each attack into one context of each kind and position, `Full` into two.
    pub size: Size,
    /// Where finished units are kept.
    pub run: Option<PathBuf>,
}

/// One benchmark: its cases, and the fold of each group of attacks.
struct Benchmark {
    id: &'static str,
    title: &'static str,
    cases: Vec<Case>,
    fold_of: BTreeMap<String, usize>,
}

/// Scores of one benchmark, with one threshold for each fold.
struct Scores {
    /// Attacks that are measured: case, score, fold.
    attacks: Vec<(usize, f64, usize)>,
    /// Clean test documents: score, fold. Every fold has all of them.
    clean: Vec<(f64, usize)>,
    /// By fold.
    thresholds: Vec<f64>,
}

/// Measures `recipes` across the folds, and `shipped` detectors, which have seen attacks of these kinds, marked
/// `seen` beside them. A recipe adds to the rows it is given what else it learns from, without these attacks.
///
/// # Errors
/// When the data is not there or not as documented, or a method fails.
pub fn run(
    options: &Options,
    recipes: &[&dyn Recipe],
    shipped: &[Shipped<'_>],
    progress: &mut dyn FnMut(&str, usize, usize),
) -> Result<Outcome, EvalError> {
    let folder = RunFolder::open(options.run.as_deref())?;
    let (benchmarks, files) = read(options)?;
    let total = recipes.len() * FOLDS + shipped.len();
    let (mut done, mut rows) = (0, Vec::new());
    for recipe in recipes {
        let mut folds = Vec::new();
        for fold in 0..FOLDS {
            progress(&format!("{} fold {}", recipe.id(), fold + 1), done, total);
            folds.push(measure_fold(*recipe, options, &benchmarks, fold, &folder)?);
            done += 1;
        }
        let scores = benchmarks.iter().enumerate().map(|(at, benchmark)| {
            let all = folds.iter().map(|fold| fold.get(at).map_or(&[][..], Vec::as_slice));
            gather(benchmark, &all.collect::<Vec<_>>())
        });
        rows.push((recipe.id().to_owned(), recipe.title().to_owned(), Ok(scores.collect())));
    }
    for one in shipped {
        progress(&format!("{} as shipped", one.id), done, total);
        done += 1;
        let found: Result<Vec<Scores>, String> = match &one.detector {
            Ok(detector) => Ok(measure_shipped(*detector, &benchmarks).map_err(|cause| {
                let (method, data_set) = (one.id.to_owned(), "buried attacks".to_owned());
                EvalError::Detector { method, data_set, cause }
            })?),
            Err(why) => Err(why.clone()),
        };
        rows.push((format!("{}.seen", one.id), format!("{} (seen)", one.title), found));
    }
    progress("done", total, total);
    let mut figures = Vec::new();
    for (at, benchmark) in benchmarks.iter().enumerate() {
        figures.extend(benchmark_counts(benchmark));
        for (id, _, found) in &rows {
            let found = found.as_ref().map(|scores: &Vec<Scores>| &scores[at]);
            figures.extend(benchmark_figures(benchmark, id, found, options));
        }
    }
    let pictures = pictures(&benchmarks, &rows);
    let mut report = Report::of("buried", options.seed, figures);
    report.data = files;
    report.tables = tables(&benchmarks, &rows);
    report.notes = notes();
    report.command =
        Some(format!("custody eval buried --size {} --seed {}", options.size.id(), options.seed));
    Ok(Outcome { report, pictures })
}

fn read(options: &Options) -> Result<(Vec<Benchmark>, Vec<DataFile>), EvalError> {
    let contexts = match options.size {
        Size::Smoke => 1,
        Size::Full => 2,
    };
    let (in_tools, tool_file) = injecagent(&options.data)?;
    let (in_contexts, mut files) = bipia(&options.data, contexts)?;
    files.insert(0, tool_file);
    let benchmark = |id, title, cases: Vec<Case>| {
        let groups = cases.iter().filter(|case| case.label).map(|case| case.group.as_str());
        let fold_of = named_folds(groups, FOLDS, options.seed);
        Benchmark { id, title, cases, fold_of }
    };
    let benchmarks = vec![
        benchmark("injecagent", "InjecAgent", in_tools),
        benchmark("bipia", "BIPIA", in_contexts),
    ];
    Ok((benchmarks, files))
}

impl Benchmark {
    /// What may be learned from in a fold: attacks of other folds and clean documents, of the train part.
    fn train(&self, fold: usize) -> impl Iterator<Item = &Case> {
        let of_train = |case: &&Case| case.part.is_none_or(|part| part == Part::Train);
        let other = move |case: &&Case| !case.label || self.fold_of.get(&case.group) != Some(&fold);
        self.cases.iter().filter(of_train).filter(other)
    }

    /// Places of the cases that a fold scores: its attacks, and every clean document that is not for training.
    fn scored(&self, fold: usize) -> Vec<usize> {
        let picked = |case: &Case| match (case.label, case.part) {
            (true, part) => {
                part.is_none_or(|part| part == Part::Test)
                    && self.fold_of.get(&case.group) == Some(&fold)
            }
            (false, part) => part != Some(Part::Train),
        };
        (0..self.cases.len()).filter(|at| picked(&self.cases[*at])).collect()
    }

    /// Divides the scores of `places` into attacks and clean documents, with the threshold between them.
    fn divide(&self, fold: usize, places: &[usize], scores: &[f64]) -> Scores {
        let mut found = Scores { attacks: vec![], clean: vec![], thresholds: vec![] };
        let mut calibration = Vec::new();
        for (place, score) in places.iter().zip(scores) {
            let case = &self.cases[*place];
            match (case.label, case.part) {
                (true, _) => found.attacks.push((*place, *score, fold)),
                (false, Some(Part::Calibration)) => calibration.push(*score),
                (false, _) => found.clean.push((*score, fold)),
            }
        }
        // Without a clean document to go by nothing may be flagged.
        let threshold = threshold_at_false_positive_rate(&calibration, RATE);
        found.thresholds = vec![threshold.unwrap_or(f64::INFINITY)];
        found
    }
}

fn labelled(case: &Case) -> Labelled {
    Labelled { id: case.id.clone(), text: case.text.clone(), label: case.label }
}

/// Trains once for both benchmarks and scores the fold's part of each.
fn measure_fold(
    recipe: &dyn Recipe,
    options: &Options,
    benchmarks: &[Benchmark],
    fold: usize,
    folder: &RunFolder,
) -> Result<Vec<Vec<f64>>, EvalError> {
    let train: Vec<Labelled> =
        benchmarks.iter().flat_map(|benchmark| benchmark.train(fold).map(labelled)).collect();
    let places: Vec<Vec<usize>> =
        benchmarks.iter().map(|benchmark| benchmark.scored(fold)).collect();
    let test: Vec<Labelled> = benchmarks
        .iter()
        .zip(&places)
        .flat_map(|(benchmark, places)| places.iter().map(|at| labelled(&benchmark.cases[*at])))
        .collect();
    let unit = Unit {
        suite: "buried",
        recipe,
        data_set: "both",
        part: &format!("fold-{}", fold + 1),
        seed: options.seed,
        train: &train,
        test: &test,
        timed_calls: 0,
        calls_by_length: 0,
    };
    let measured = match folder.finished(&unit) {
        Some(measured) => measured,
        None => unit.measure(folder)?,
    };
    let mut scores = measured.scores.into_iter();
    Ok(places.iter().map(|places| scores.by_ref().take(places.len()).collect()).collect())
}

/// The scores of one benchmark over all folds.
fn gather(benchmark: &Benchmark, folds: &[&[f64]]) -> Scores {
    let mut all = Scores { attacks: vec![], clean: vec![], thresholds: vec![] };
    for (fold, scores) in folds.iter().enumerate() {
        let found = benchmark.divide(fold, &benchmark.scored(fold), scores);
        all.attacks.extend(found.attacks);
        all.clean.extend(found.clean);
        all.thresholds.extend(found.thresholds);
    }
    all
}

/// One threshold for all folds: the detector is one.
fn measure_shipped(
    detector: &dyn Detector,
    benchmarks: &[Benchmark],
) -> Result<Vec<Scores>, Failure> {
    let measure = |benchmark: &Benchmark| {
        let mut places: Vec<usize> = (0..FOLDS).flat_map(|fold| benchmark.scored(fold)).collect();
        places.sort_unstable();
        places.dedup();
        let texts: Vec<&str> = places.iter().map(|at| benchmark.cases[*at].text.as_str()).collect();
        let scores = detector.scores(&texts)?;
        if scores.len() != texts.len() || scores.iter().any(|score| score.is_nan()) {
            return Err(Failure::from("it did not give one number a text"));
        }
        Ok(benchmark.divide(0, &places, &scores))
    };
    benchmarks.iter().map(measure).collect()
}

fn benchmark_counts(benchmark: &Benchmark) -> Vec<Figure> {
    let name = |figure: &str| format!("{}.{figure}", benchmark.id);
    let measured = |case: &&Case| case.label && case.part.is_none_or(|part| part == Part::Test);
    let attacks = benchmark.cases.iter().filter(measured).count();
    let documents = |part| clean_documents(&benchmark.cases, part) as u64;
    vec![
        Figure::count(&name("cases"), attacks as u64, "cases"),
        Figure::count(&name("groups"), benchmark.fold_of.len() as u64, "groups"),
        Figure::count(&name("calibration.documents"), documents(Part::Calibration), "documents"),
        Figure::count(&name("test.documents"), documents(Part::Test), "documents"),
    ]
}

impl Scores {
    /// The threshold of a fold; of the only one where all folds share it.
    fn threshold(&self, fold: usize) -> f64 {
        self.thresholds
            .get(fold)
            .or_else(|| self.thresholds.first())
            .copied()
            .unwrap_or(f64::INFINITY)
    }

    /// How far above its fold's threshold, as one order for all folds: flagged from 0 on.
    fn margin(&self, score: f64, fold: usize) -> f64 {
        let threshold = self.threshold(fold);
        if threshold.is_finite() { score - threshold } else { -1.0 }
    }

    /// The rate over all folds, with an interval that counts every clean document once.
    fn false_positives(&self) -> (f64, [f64; 2]) {
        let wrong = self.clean.iter().filter(|(score, fold)| self.margin(*score, *fold) >= 0.0);
        let (wrong, all) = (wrong.count() as u64, self.clean.len() as u64);
        let folds = self.thresholds.len().max(1) as u64;
        (wrong as f64 / all.max(1) as f64, wilson(wrong.div_ceil(folds), (all / folds).max(1)))
    }

    /// Hits and cases of what `counts` picks.
    fn recall(&self, benchmark: &Benchmark, counts: impl Fn(&Case) -> bool) -> (u64, u64) {
        let picked = self.attacks.iter().filter(|(at, ..)| counts(&benchmark.cases[*at]));
        picked.fold((0, 0), |(hits, cases), (_, score, fold)| {
            (hits + u64::from(self.margin(*score, *fold) >= 0.0), cases + 1)
        })
    }
}

/// Attacks that are counted by themselves.
struct Subset {
    /// In ids of figures.
    part: String,
    /// For people.
    name: String,
    counts: Box<dyn Fn(&Case) -> bool>,
}

/// The positions of the attacks, where there are several, and their categories.
fn subsets(benchmark: &Benchmark) -> Vec<Subset> {
    let attacks = || benchmark.cases.iter().filter(|case| case.label);
    let positions: BTreeSet<Position> = attacks().map(|case| case.position).collect();
    let categories: BTreeSet<&String> = attacks().map(|case| &case.category).collect();
    let mut found: Vec<Subset> = Vec::new();
    if positions.len() > 1 {
        found.extend(positions.into_iter().map(|position| Subset {
            part: position.id().to_owned(),
            name: format!("at {}", position.id()),
            counts: Box::new(move |case| case.position == position),
        }));
    }
    for category in categories {
        let wanted = category.clone();
        found.push(Subset {
            part: id_part(category),
            name: category.clone(),
            counts: Box::new(move |case| case.category == wanted),
        });
    }
    found
}

fn benchmark_figures(
    benchmark: &Benchmark,
    method: &str,
    found: Result<&Scores, &String>,
    options: &Options,
) -> Vec<Figure> {
    let name = |figure: &str| format!("{}.{method}.{figure}", benchmark.id);
    let mut figures = Vec::new();
    let scores = match found {
        Ok(scores) => scores,
        Err(why) => {
            for (figure, unit) in
                [("recall_at_1pct_fpr", "rate"), ("fpr", "rate"), ("auroc", "rate")]
            {
                figures.push(Figure::unmeasured(&name(figure), unit, why));
            }
            return figures;
        }
    };
    let (hits, cases) = scores.recall(benchmark, |_| true);
    figures.push(Figure::rate(&name("recall_at_1pct_fpr"), hits, cases));
    let (rate, ci95) = scores.false_positives();
    figures.push(Figure { ci95: Some(ci95), ..Figure::real(&name("fpr"), rate, "rate") });
    figures.push(area(&name("auroc"), scores, options.seed));
    for Subset { part, counts, .. } in subsets(benchmark) {
        let (hits, cases) = scores.recall(benchmark, counts);
        let id = format!("{}.{part}.{method}.recall_at_1pct_fpr", benchmark.id);
        figures.push(Figure::rate(&id, hits, cases));
    }
    figures
}

/// All folds in one order, by the distance to their own thresholds.
fn in_one_order(scores: &Scores) -> (Vec<f64>, Vec<bool>) {
    let attacks =
        scores.attacks.iter().map(|(_, score, fold)| (scores.margin(*score, *fold), true));
    let clean = scores.clean.iter().map(|(score, fold)| (scores.margin(*score, *fold), false));
    attacks.chain(clean).unzip()
}

fn area(id: &str, scores: &Scores, seed: u64) -> Figure {
    let (margins, labels) = in_one_order(scores);
    let Ok(scored) = Scored::new(&margins, &labels, 0.0) else {
        return Figure::unmeasured(id, "rate", "there is nothing to measure");
    };
    let Some(auroc) = scored.measures().auroc else {
        return Figure::unmeasured(id, "rate", "the cases are of one class");
    };
    let between = intervals(&[scored], RESAMPLES / 4, seed);
    Figure { ci95: between.and_then(|between| between.auroc), ..Figure::real(id, auroc, "rate") }
}

/// Id, title and scores of one row of the tables.
type Method = (String, String, Result<Vec<Scores>, String>);

fn tables(benchmarks: &[Benchmark], methods: &[Method]) -> Vec<Table> {
    let table = |benchmark: &Benchmark| {
        let row = |name: &str, prefix: String| TableRow { name: name.to_owned(), prefix };
        let mut rows = vec![row("all attacks", benchmark.id.to_owned())];
        for Subset { part, name, .. } in subsets(benchmark) {
            rows.push(row(&name, format!("{}.{part}", benchmark.id)));
        }
        let column =
            |title: String, suffix: String| TableColumn { title, suffix, shows: Shows::Measured };
        let mut columns: Vec<TableColumn> = methods
            .iter()
            .map(|(id, title, _)| column(title.clone(), format!("{id}.recall_at_1pct_fpr")))
            .collect();
        for (id, title, _) in methods {
            columns.push(column(format!("{title}: false positives"), format!("{id}.fpr")));
        }
        Table {
            title: benchmark.title.to_owned(),
            note: "Recall at a threshold that flags at most 1 % of the clean calibration documents; the \
                   false positives are those on clean test documents."
                .to_owned(),
            rows_are: "attacks".to_owned(),
            rows,
            columns,
        }
    };
    benchmarks.iter().map(table).collect()
}

fn pictures(benchmarks: &[Benchmark], methods: &[Method]) -> Vec<Picture> {
    let mut pictures = Vec::new();
    for (at, benchmark) in benchmarks.iter().enumerate() {
        let of = |scores: &Result<Vec<Scores>, String>| -> Option<roc::Curve> {
            let scores = scores.as_ref().ok()?.get(at)?;
            let (margins, labels) = in_one_order(scores);
            let scored = Scored::new(&margins, &labels, 0.0).ok()?;
            let measures = scored.measures();
            let counts = measures.confusion;
            Some(roc::Curve {
                name: String::new(),
                note: format!("AUROC {:.3}", measures.auroc?),
                points: scored
                    .roc()?
                    .iter()
                    .map(|point| [point.false_positive_rate, point.recall])
                    .collect(),
                operating_point: Some(roc::OperatingPoint {
                    false_positive_rate: counts.false_positive_rate(),
                    false_positive_rate_ci95: scores.false_positives().1,
                    recall: counts.recall(),
                    recall_ci95: wilson(counts.true_positives, counts.positives()),
                }),
            })
        };
        let curves: Vec<roc::Curve> = methods
            .iter()
            .filter_map(|(_, title, scores)| {
                Some(roc::Curve { name: title.clone(), ..of(scores)? })
            })
            .collect();
        pictures.push(Picture {
            file: format!("buried-{}-roc.svg", benchmark.id),
            svg: roc::picture(&format!("{}: attacks in tool output", benchmark.title), &curves),
        });
        let group = |subset: &Subset| {
            let bar = |(_, _, scores): &Method| {
                let (hits, cases) =
                    scores.as_ref().ok()?.get(at)?.recall(benchmark, &subset.counts);
                let figure = Figure::rate("bar", hits, cases);
                Some(bars::Bar { rate: figure.value?, ci95: figure.ci95? })
            };
            bars::Group {
                label: subset.name.clone(),
                bars: methods.iter().map(bar).collect(),
                limit: None,
            }
        };
        let groups: Vec<bars::Group> = subsets(benchmark).iter().map(group).collect();
        let series: Vec<String> = methods.iter().map(|(_, title, _)| title.clone()).collect();
        let title = format!("{}: found at 1 % false positives", benchmark.title);
        pictures.push(Picture {
            file: format!("buried-{}-recall.svg", benchmark.id),
            svg: bars::picture(&title, "recall, % of attacks", &series, &groups),
        });
    }
    pictures
}

fn notes() -> Vec<String> {
    vec![
        "No detector is measured on an attack of a kind it was trained on: five folds by InjecAgent's \
         attacker instruction and by BIPIA's category, both left out together. Rows marked *seen* are the \
         shipped weights, which learned from all of them; they stand beside for comparison only."
            .to_owned(),
        "Clean documents are parted by the hash of their text: 40 of 100 for training, 30 for thresholds, 30 \
         to measure false positives. InjecAgent's clean twins are its own tool answers with texts written for \
         this project in the field where the attack stands, requests and imperatives among them. They share \
         the answer around the field with the attacks, so only the field can tell them apart."
            .to_owned(),
        "A false-positive rate is the mean over the folds; its interval counts each clean test document once. \
         The areas and curves put all folds in one order by the distance to their own threshold."
            .to_owned(),
    ]
}
