//! `custody eval detection`: every method on every data set, on the fixed split and across folds.

use std::collections::BTreeMap;
use std::path::PathBuf;

use self::notes::notes;
use self::plan::{FIXED, Finished, Key, measure_all, plan};
use super::detector::Method;
use super::figures::{DataSet, Fold, Runs, figures, tables};
use super::mixture::{MixturePart, mixed};
use super::pictures::{Picture, pictures};
use super::unit::MeasuredUnit;
use crate::error::EvalError;
use crate::report::EvalReport;
use crate::run_folder::RunFolder;
use crate::sets::parts::{Leaks, leaks};
use crate::sets::rows::split;
use crate::sets::{Labelled, Split};
use crate::size::Size;

mod notes;
mod plan;

/// The data sets, in the order of the report.
pub const DATA_SETS: [&str; 3] = ["deepset", "jackhhao", "combined"];

impl Size {
    const fn seeds(self) -> u64 {
        match self {
            Self::Smoke => 1,
            Self::Full => 5,
        }
    }

    const fn folds(self) -> usize {
        match self {
            Self::Smoke => 0,
            Self::Full => 5,
        }
    }

    const fn timed_calls(self) -> usize {
        match self {
            Self::Smoke => 20,
            Self::Full => 200,
        }
    }

    const fn calls_by_length(self) -> usize {
        match self {
            Self::Smoke => 3,
            Self::Full => 15,
        }
    }

    const fn resamples(self) -> usize {
        match self {
            Self::Smoke => 200,
            Self::Full => super::bootstrap::RESAMPLES,
        }
    }
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct DetectionOptions {
    /// The folder of the benchmark data.
    pub data: PathBuf,
    /// The first seed; the others follow it.
    pub seed: u64,
    /// How much.
    pub size: Size,
    /// Where finished units are kept and taken up again.
    pub run: Option<PathBuf>,
    /// Measure no more units: report those that are in `run`.
    pub finished: bool,
}

/// How far a suite is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// What is being measured: `deepset d4 fold-2`.
    pub part: String,
    /// Units that are finished.
    pub done: usize,
    /// Units in all.
    pub total: usize,
    /// An estimate from the units of the same method that are finished; `None` before the first one.
    pub remaining_seconds: Option<f64>,
}

/// A report with its pictures.
#[derive(Debug, Clone, PartialEq)]
pub struct IllustratedReport {
    /// The figures.
    pub report: EvalReport,
    /// The pictures.
    pub pictures: Vec<Picture>,
}

/// Measures every method. `progress` is called before every unit and at the end.
///
/// # Errors
/// When the data is not there or not as documented, a method fails, or a unit cannot be kept. What was
/// finished before stays in the run's folder.
pub fn run(
    options: &DetectionOptions,
    methods: &[Method<'_>],
    progress: &mut dyn FnMut(&Progress),
) -> Result<IllustratedReport, EvalError> {
    check(methods)?;
    let folder = run_folder(options)?;
    let splits: Result<Vec<Split>, EvalError> =
        DATA_SETS.iter().map(|name| split(&options.data, name)).collect();
    let splits = splits?;
    let plan = plan(options, methods, &splits);
    let Finished { units, left_out } = measure_all(options, &plan, &folder, progress)?;
    let sets: Vec<DataSet> =
        splits.iter().map(|split| data_set(split, &splits, methods, &units)).collect();
    let mut report = EvalReport::of(
        "detection",
        options.seed,
        figures(&sets, methods, options.size.resamples(), options.seed),
    );
    report.tables = tables(&sets, methods);
    report.notes = notes(options, &sets, methods, &left_out);
    report.command = Some(command(options));
    for file in splits.into_iter().flat_map(|split| split.files) {
        if !report.data.contains(&file) {
            report.data.push(file);
        }
    }
    Ok(IllustratedReport { pictures: pictures(&sets, methods), report })
}

/// What a reader types to get the same report. Where units are kept matters only if no others are measured.
fn command(options: &DetectionOptions) -> String {
    let measured =
        format!("custody eval detection --size {} --seed {}", options.size.id(), options.seed);
    match &options.run {
        Some(folder) if options.finished => {
            format!("{measured} --run {} --finished", folder.display())
        }
        _ => measured,
    }
}

/// Where units are kept. What is finished can only be in a folder that is there.
fn run_folder(options: &DetectionOptions) -> Result<RunFolder, EvalError> {
    match &options.run {
        Some(folder) if options.finished && !folder.is_dir() => {
            Err(EvalError::Setup(format!("there is no folder `{}`", folder.display())))
        }
        None if options.finished => {
            Err(EvalError::Setup("what is finished is in no folder without `--run`".to_owned()))
        }
        folder => RunFolder::open(folder.as_deref()),
    }
}

/// Refuses two methods of one id, and mixtures of what is not measured before them or not at all.
fn check(methods: &[Method<'_>]) -> Result<(), EvalError> {
    let mut before: Vec<&str> = Vec::new();
    for method in methods {
        let id = method.id();
        if before.contains(&id) {
            return Err(EvalError::Setup(format!("two methods are called `{id}`")));
        }
        if let Method::Mixture(mixture) = method {
            for MixturePart { id: part, trainings, .. } in &mixture.parts {
                let why = match trainings {
                    _ if !before.contains(&part.as_str()) => "which is not before it",
                    0 => "but none of its trainings",
                    _ => continue,
                };
                return Err(EvalError::Setup(format!("`{id}` mixes `{part}`, {why}")));
            }
        }
        before.push(id);
    }
    Ok(())
}

/// All that was measured on one data set, mixtures included.
fn data_set(
    split: &Split,
    all: &[Split],
    methods: &[Method<'_>],
    measured: &BTreeMap<Key, (MeasuredUnit, Vec<bool>)>,
) -> DataSet {
    let mut runs: BTreeMap<String, Runs> = BTreeMap::new();
    for method in methods {
        let found = match method {
            Method::Absent { .. } => continue,
            Method::Mixture(mixture) => mixed(mixture, &runs),
            Method::Recipe(recipe) => {
                let own = measured
                    .iter()
                    .filter(|((set, id, ..), _)| *set == split.name && id == recipe.id());
                let (mut fixed, mut folds) = (Vec::new(), BTreeMap::<&str, Fold>::new());
                for ((_, _, part, _), (unit, labels)) in own {
                    if part == FIXED {
                        fixed.push(unit.clone());
                        continue;
                    }
                    folds
                        .entry(part)
                        .or_insert_with(|| Fold { labels: labels.clone(), trainings: Vec::new() })
                        .trainings
                        .push(unit.clone());
                }
                let folds = folds.into_values().collect();
                (!fixed.is_empty()).then_some(Runs { fixed, folds })
            }
        };
        if let Some(found) = found {
            runs.insert(method.id().to_owned(), found);
        }
    }
    let seen = seen(split, all, methods);
    let leaks = leaks(&split.train, &split.test);
    let labels = split.test.iter().map(|row| row.label).collect();
    DataSet { name: split.name.clone(), labels, leaks, seen, runs }
}

/// The test rows that a method which learned earlier has seen, by the method's id.
fn seen(split: &Split, all: &[Split], methods: &[Method<'_>]) -> BTreeMap<String, Leaks> {
    let mut found = BTreeMap::new();
    for method in methods {
        let Method::Recipe(recipe) = method else { continue };
        if recipe.has_learned().is_empty() {
            continue;
        }
        let learned = all.iter().filter(|other| recipe.has_learned().contains(&&*other.name));
        let rows: Vec<Labelled> = learned.flat_map(|other| other.train.iter().cloned()).collect();
        found.insert(recipe.id().to_owned(), leaks(&rows, &split.test));
    }
    found
}
