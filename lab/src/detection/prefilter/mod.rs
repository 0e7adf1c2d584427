//! `custody eval prefilter`: PIPE's prefilter on rows and on sources it was not trained on.

use std::path::PathBuf;

use self::shown::{OUTSIDE, SHIPPED_OUTSIDE, SHIPPED_ROWS, Shown, table};
use self::splits::{Held, SOURCE_GROUPS, by_row, by_source, corpus, unseen_by_shipped};
use super::detector::{Detector, Recipe};
use super::pictures::Picture;
use super::suite::IllustratedReport;
use super::unit::{MeasuredUnit, Unit};
use crate::error::EvalError;
use crate::plot::roc;
use crate::report::EvalReport;
use crate::run_folder::RunFolder;
use crate::sets::Labelled;
use crate::sets::rows::read;
use crate::size::Size;

mod shown;
mod splits;

const OUTSIDE_FILE: &str = "eval_only/qualifire_benchmark.jsonl";

/// What to measure.
#[derive(Debug, Clone)]
pub struct PrefilterEvalOptions {
    /// The folder of the benchmark data.
    pub data: PathBuf,
    /// What every random draw comes from.
    pub seed: u64,
    /// `Smoke` takes one row in sixteen.
    pub size: Size,
    /// Where finished units are kept.
    pub run: Option<PathBuf>,
}

/// Every text that [`run`] reads, for whoever wants to prepare something for them.
///
/// # Errors
/// As [`run`].
pub fn texts(options: &PrefilterEvalOptions) -> Result<Vec<String>, EvalError> {
    let (rows, _) = corpus(&options.data, options.size)?;
    let (outside, _) = read(&options.data, OUTSIDE_FILE)?;
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
    options: &PrefilterEvalOptions,
    recipe: &dyn Recipe,
    shipped: Option<&dyn Detector>,
    progress: &mut dyn FnMut(&str, usize, usize),
) -> Result<IllustratedReport, EvalError> {
    let folder = RunFolder::open(options.run.as_deref())?;
    let (rows, files) = corpus(&options.data, options.size)?;
    let (outside, outside_file) = read(&options.data, OUTSIDE_FILE)?;
    let outside: Vec<Labelled> = outside.into_iter().filter_map(Labelled::of).collect();
    let mut splits = vec![by_row(&rows)];
    splits.extend(SOURCE_GROUPS.iter().map(|group| by_source(&rows, group)));
    let mut shown = Shown::new(options.seed);
    for (done, held) in splits.iter().enumerate() {
        progress(&held.title, done, splits.len());
        // The detector of the split by row meets the outside set in the same unit: one training for both.
        let beside = if done == 0 { outside.as_slice() } else { &[] };
        let measured = measure(options, recipe, held, beside, &folder)?;
        let (inside, rest) = measured.scores.split_at(held.test.len());
        let [inside, rest] = [inside, rest]
            .map(|scores| MeasuredUnit { scores: scores.to_vec(), ..measured.clone() });
        shown.add(held.name(), &held.test, &inside)?;
        if done == 0 {
            shown.add(OUTSIDE, &outside, &rest)?;
        }
    }
    shown.worst_source();
    if let (Some(detector), Some(by_row)) = (shipped, splits.first()) {
        progress("shipped weights", splits.len(), splits.len());
        let unseen = unseen_by_shipped(&by_row.test);
        shown.add_shipped(SHIPPED_ROWS, &unseen, detector)?;
        shown.add_shipped(SHIPPED_OUTSIDE, &outside, detector)?;
    }
    progress("done", splits.len(), splits.len());
    let mut report = EvalReport::of("prefilter", options.seed, shown.figures);
    report.data = vec![files, outside_file];
    report.tables = vec![table(&splits, shipped.is_some())];
    report.notes = notes(options.size);
    report.command = Some(format!("custody eval prefilter --size {}", options.size.id()));
    let svg = roc::picture("Prefilter: rows and sources it was not trained on", &shown.curves);
    let pictures = vec![Picture { file: "prefilter-roc.svg".to_owned(), svg }];
    Ok(IllustratedReport { report, pictures })
}

/// Trains on one side of a split and scores the other, and `beside` after it.
fn measure(
    options: &PrefilterEvalOptions,
    recipe: &dyn Recipe,
    held: &Held,
    beside: &[Labelled],
    folder: &RunFolder,
) -> Result<MeasuredUnit, EvalError> {
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
