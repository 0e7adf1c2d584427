//! `custody eval detection`: every method on every data set, on the fixed split and across folds.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::detector::{Method, Recipe, Varies};
use super::figures::{DataSet, Fold, Runs, figures, tables};
use super::mixture::{Mixture, Part, mixed};
use super::pictures::{Picture, pictures};
use super::sets::parts::{Leaks, leaks, stratified_folds};
use super::sets::rows::split;
use super::sets::{Labelled, Split};
use super::unit::{Measured, Unit};
use crate::error::EvalError;
use crate::recipe::corpus::Held;
use crate::report::Report;
use crate::run_folder::RunFolder;

/// The data sets, in the order of the report.
pub const DATA_SETS: [&str; 3] = ["deepset", "jackhhao", "combined"];

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// For every change: one seed, the fixed split.
    Smoke,
    /// For a release: five seeds, and five folds beside the fixed split.
    Full,
}

impl Size {
    /// Its name on the command line.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Full => "full",
        }
    }

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
pub struct Options {
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
pub struct Outcome {
    /// The figures.
    pub report: Report,
    /// The pictures.
    pub pictures: Vec<Picture>,
}

/// Measures every method. `progress` hears of every unit before it begins, and of the end.
///
/// # Errors
/// When the data is not there or not as documented, a method fails, or a unit cannot be kept. What was
/// finished before stays in the run's folder.
pub fn run(
    options: &Options,
    methods: &[Method<'_>],
    progress: &mut dyn FnMut(&Progress),
) -> Result<Outcome, EvalError> {
    check(methods)?;
    let folder = run_folder(options)?;
    let splits: Result<Vec<Split>, EvalError> =
        DATA_SETS.iter().map(|name| split(&options.data, name)).collect();
    let splits = splits?;
    let plan = plan(options, methods, &splits);
    let Finished { units, left_out } = measure_all(options, &plan, &folder, progress)?;
    let sets: Vec<DataSet> =
        splits.iter().map(|split| data_set(split, &splits, methods, &units)).collect();
    let mut report = Report::of(
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
    Ok(Outcome { pictures: pictures(&sets, methods), report })
}

/// What a reader types to get the same report. Where units are kept matters only if no others are measured.
fn command(options: &Options) -> String {
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
fn run_folder(options: &Options) -> Result<RunFolder, EvalError> {
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
            for Part { id: part, trainings, .. } in &mixture.parts {
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

/// The part of a unit on the fixed split.
const FIXED: &str = "fixed";

/// One unit to come, with the rows it needs.
struct Planned<'a> {
    recipe: &'a dyn Recipe,
    data_set: &'a str,
    part: String,
    seed: u64,
    train: Vec<&'a Labelled>,
    test: Vec<&'a Labelled>,
    by_length: bool,
}

impl Planned<'_> {
    fn is_fixed(&self) -> bool {
        self.part == FIXED
    }

    fn key(&self) -> Key {
        let (set, method) = (self.data_set.to_owned(), self.recipe.id().to_owned());
        (set, method, self.part.clone(), self.seed)
    }

    fn series(&self) -> Series {
        (self.data_set.to_owned(), self.recipe.id().to_owned(), self.is_fixed())
    }
}

/// What a unit is found by: data set, method, part, seed.
type Key = (String, String, String, u64);

/// All seeds of a method on the fixed split of a data set, or all its folds: data set, method, whether the split is
/// fixed. A mean over some of them would pass for a mean over all.
type Series = (String, String, bool);

/// The units of all series that are whole, with the labels of their test rows.
struct Finished {
    units: BTreeMap<Key, (Measured, Vec<bool>)>,
    /// The other series: how many of their units are finished, and how many there are.
    left_out: BTreeMap<Series, (usize, usize)>,
}

/// Method by method on the fixed splits, then the folds, which take longest and are needed last.
fn plan<'a>(options: &Options, methods: &'a [Method<'a>], splits: &'a [Split]) -> Vec<Planned<'a>> {
    let mut fixed = Vec::new();
    let mut crossed = Vec::new();
    for method in methods {
        let Method::Recipe(recipe) = method else { continue };
        let recipe: &dyn Recipe = *recipe;
        let pooled = pooled(methods, recipe);
        let seeds = match recipe.varies() {
            Varies::No | Varies::WithData => 1,
            Varies::WithDataAndSeed => options.size.seeds().max(pooled),
        };
        for split in splits {
            for offset in 0..seeds {
                fixed.push(Planned {
                    recipe,
                    data_set: &split.name,
                    part: FIXED.to_owned(),
                    seed: options.seed.wrapping_add(offset),
                    train: split.train.iter().collect(),
                    test: split.test.iter().collect(),
                    by_length: split.name == DATA_SETS[0] && offset < pooled,
                });
            }
            let rows: Vec<&Labelled> = split.train.iter().chain(&split.test).collect();
            let owned: Vec<Labelled> = rows.iter().map(|row| (*row).clone()).collect();
            // What was learned before the task holds rows of every fold: nothing would be held back.
            let folds = if recipe.has_learned().is_empty() { options.size.folds() } else { 0 };
            let fold_of = stratified_folds(&owned, folds, options.seed);
            for (fold, offset) in (0..folds).flat_map(|fold| (0..pooled).map(move |at| (fold, at)))
            {
                let pick = |inside: bool| -> Vec<&Labelled> {
                    let chosen =
                        rows.iter().zip(&fold_of).filter(|(_, of)| (**of == fold) == inside);
                    chosen.map(|(row, _)| *row).collect()
                };
                crossed.push(Planned {
                    recipe,
                    data_set: &split.name,
                    part: format!("fold-{}", fold + 1),
                    seed: options.seed.wrapping_add(offset),
                    train: pick(false),
                    test: pick(true),
                    by_length: false,
                });
            }
        }
    }
    fixed.extend(crossed);
    fixed
}

/// How many trainings of `recipe` the largest pool takes.
fn pooled(methods: &[Method<'_>], recipe: &dyn Recipe) -> u64 {
    let parts = methods.iter().filter_map(|method| match method {
        Method::Mixture(mixture) => Some(&mixture.parts),
        Method::Recipe(_) | Method::Absent { .. } => None,
    });
    let own = parts.flatten().filter(|part| part.id == recipe.id());
    own.map(|part| part.trainings as u64).max().unwrap_or(1)
}

fn measure_all(
    options: &Options,
    plan: &[Planned<'_>],
    folder: &RunFolder,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Finished, EvalError> {
    let mut units = BTreeMap::new();
    let mut series: BTreeMap<Series, (usize, usize)> = BTreeMap::new();
    let mut seconds: BTreeMap<&str, (f64, usize)> = BTreeMap::new();
    for (done, planned) in plan.iter().enumerate() {
        let part = format!("{} {} {}", planned.data_set, planned.recipe.id(), planned.part);
        let remaining_seconds = estimate(&seconds, plan.get(done..).unwrap_or_default());
        progress(&Progress { part, done, total: plan.len(), remaining_seconds });
        let (finished, all) = series.entry(planned.series()).or_default();
        *all += 1;
        let Some((measured, labels)) = measure(options, planned, folder)? else { continue };
        *finished += 1;
        let (sum, count) = seconds.entry(planned.recipe.id()).or_default();
        *sum += measured.unit_seconds;
        *count += 1;
        units.insert(planned.key(), (measured, labels));
    }
    let (part, done, total) = ("done".to_owned(), plan.len(), plan.len());
    progress(&Progress { part, done, total, remaining_seconds: Some(0.0) });
    let left_out: BTreeMap<Series, (usize, usize)> =
        series.into_iter().filter(|(_, (finished, all))| finished < all).collect();
    units.retain(|(set, method, part, _), _| {
        !left_out.contains_key(&(set.clone(), method.clone(), part == FIXED))
    });
    Ok(Finished { units, left_out })
}

/// A unit from the folder, or measured unless only finished ones are wanted, with the labels of its test rows.
fn measure(
    options: &Options,
    planned: &Planned<'_>,
    folder: &RunFolder,
) -> Result<Option<(Measured, Vec<bool>)>, EvalError> {
    let own =
        |rows: &[&Labelled]| -> Vec<Labelled> { rows.iter().map(|row| (*row).clone()).collect() };
    let (train, test) = (own(&planned.train), own(&planned.test));
    let size = options.size;
    let unit = Unit {
        suite: "detection",
        recipe: planned.recipe,
        data_set: planned.data_set,
        part: &planned.part,
        seed: planned.seed,
        held: &Held::default(),
        train: &train,
        test: &test,
        timed_calls: if planned.is_fixed() { size.timed_calls() } else { 0 },
        calls_by_length: if planned.by_length { size.calls_by_length() } else { 0 },
    };
    let measured = match unit.finished(folder) {
        Some(measured) => measured,
        None if options.finished => return Ok(None),
        None => unit.measure(folder)?,
    };
    Ok(Some((measured, test.iter().map(|row| row.label).collect())))
}

/// Seconds for `left`: each unit as long as those of its method on average, or as all when it has none yet.
fn estimate(seconds: &BTreeMap<&str, (f64, usize)>, left: &[Planned<'_>]) -> Option<f64> {
    let (sum, count) =
        seconds.values().fold((0.0, 0), |(sum, count), (more, units)| (sum + more, count + units));
    if count == 0 {
        return None;
    }
    let of = |planned: &Planned<'_>| {
        let own = seconds.get(planned.recipe.id());
        own.map_or(sum / count as f64, |(sum, count)| sum / *count as f64)
    };
    Some(left.iter().map(of).sum())
}

/// All that was measured on one data set, mixtures included.
fn data_set(
    split: &Split,
    all: &[Split],
    methods: &[Method<'_>],
    measured: &BTreeMap<Key, (Measured, Vec<bool>)>,
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
                    let new = || Fold { labels: labels.clone(), trainings: Vec::new() };
                    folds.entry(part).or_insert_with(new).trainings.push(unit.clone());
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

/// How many test rows of each set the shipped detectors have seen.
fn seen_rows(sets: &[DataSet]) -> String {
    let of = |set: &DataSet| {
        let most = set.seen.values().map(|leaks| leaks.rows.len()).max();
        most.map(|rows| format!("{} {rows} of {}", set.name, set.labels.len()))
    };
    let found: Vec<String> = sets.iter().filter_map(of).collect();
    if found.is_empty() { "not measured here".to_owned() } else { found.join(", ") }
}

fn notes(
    options: &Options,
    sets: &[DataSet],
    methods: &[Method<'_>],
    left_out: &BTreeMap<Series, (usize, usize)>,
) -> Vec<String> {
    let leaked = sets.iter().map(|set| {
        let (name, found) = (&set.name, &set.leaks);
        format!("{name} {} of {}", found.rows.len(), set.labels.len())
    });
    let leaked: Vec<String> = leaked.collect();
    let runs = sets.iter().flat_map(|set| set.runs.values());
    let mut notes = vec![
        format!(
            "Leaks: test rows that also stand in training, compared without case and punctuation: {}. \
             Columns that say so leave them out.",
            leaked.join(", ")
        ),
        format!(
            "The operating points are the detectors' own; none was chosen by a look at the test rows. The \
             rows `default` and `full` are the shipped detectors, trained on the training parts of deepset \
             and jackhhao among others. The combined corpus parts the same rows anew, so they have seen many \
             of its test rows ({}); their F1 without leaks leaves those out, and says more than the other.",
            seen_rows(sets)
        ),
        format!(
            "{} seed(s) from {}: methods that depend on a seed show the mean of their seeds. Intervals are \
             bootstrap 95 % intervals of {} resamples within each class, on the test rows of the fixed split. \
             Cross-validation has {} folds over training and test rows together, stratified, with repeated \
             texts in one fold; the shipped detectors have none, for they have learned from rows of each.",
            runs.map(|runs| runs.fixed.len()).max().unwrap_or_default(),
            options.seed,
            options.size.resamples(),
            options.size.folds()
        ),
        "Latency is the median of single calls, one text each, after three that warm up. That of a mixture \
         is the sum of its parts'."
            .to_owned(),
    ];
    notes.extend(methods.iter().filter_map(pools));
    notes.extend(unfinished(left_out));
    notes
}

/// What the runs of a mixture have in common that pools several trainings of a part.
fn pools(method: &Method<'_>) -> Option<String> {
    let Method::Mixture(Mixture { id, parts, .. }) = method else { return None };
    let part = parts.iter().find(|part| part.trainings > 1)?;
    Some(format!(
        "`{id}` pools {} trainings of `{}`, of neighbouring seeds. Each training is in as many pools, so that \
         their spread is smaller than that of pools which share none.",
        part.trainings, part.id
    ))
}

/// Which figures are left out, because not all units they are means of are finished.
fn unfinished(left_out: &BTreeMap<Series, (usize, usize)>) -> Option<String> {
    let one = |((set, method, is_fixed), (finished, all)): (&Series, &(usize, usize))| {
        let over = if *is_fixed { "on the fixed split" } else { "across folds" };
        format!("{set} {method} {over} ({finished} of {all} trainings finished)")
    };
    let all: Vec<String> = left_out.iter().map(one).collect();
    (!all.is_empty()).then(|| {
        format!("Not finished and therefore left out, with what is made of it: {}.", all.join(", "))
    })
}
