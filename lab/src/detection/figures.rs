//! From measured units to the figures and tables of the detection report.

use std::collections::BTreeMap;

use super::bootstrap::{Intervals, intervals};
use super::detector::Method;
use super::published::published;
use super::unit::MeasuredUnit;
use crate::metrics::{Measures, Scored, mean_and_deviation, percentile, reliability};
use crate::report::{Figure, FigureIds, Shows, Table, TableColumn, TableRow};
use crate::sets::parts::Leaks;

/// What was measured on one data set.
#[derive(Debug, Clone)]
pub(super) struct DataSet {
    pub(super) name: String,
    /// Of the test rows of the fixed split.
    pub(super) labels: Vec<bool>,
    pub(super) leaks: Leaks,
    /// Of methods that learned before the task: the test rows that they have seen, by the method's id.
    pub(super) seen: BTreeMap<String, Leaks>,
    /// By the method's id; methods that are absent have none.
    pub(super) runs: BTreeMap<String, Runs>,
}

/// The units of one method on one data set.
#[derive(Debug, Clone)]
pub(super) struct Runs {
    /// On the fixed split, one a seed.
    pub(super) fixed: Vec<MeasuredUnit>,
    /// Across folds.
    pub(super) folds: Vec<Fold>,
}

/// One fold of a cross-validation.
#[derive(Debug, Clone)]
pub(super) struct Fold {
    /// Of its test rows.
    pub(super) labels: Vec<bool>,
    /// One a seed.
    pub(super) trainings: Vec<MeasuredUnit>,
}

/// The figures that every method has, with their units.
const FIGURES: [(&str, &str); 12] = [
    ("tp", "rows"),
    ("tn", "rows"),
    ("fp", "rows"),
    ("fn", "rows"),
    ("accuracy", "rate"),
    ("precision", "rate"),
    ("recall", "rate"),
    ("f1", "rate"),
    ("auroc", "rate"),
    ("f1_without_leaked_rows", "rate"),
    ("training_seconds", "s"),
    ("latency_us_p50", "us"),
];

/// All figures, data set by data set, in the order of the methods.
pub(super) fn figures(
    sets: &[DataSet],
    methods: &[Method<'_>],
    resamples: usize,
    seed: u64,
) -> Vec<Figure> {
    let mut all = Vec::new();
    for set in sets {
        let ids = FigureIds::new(&set.name);
        all.push(Figure::count(&ids.id("rows"), set.labels.len() as u64, "rows"));
        all.push(Figure::count(&ids.id("leaked_rows"), set.leaks.rows.len() as u64, "rows"));
        all.push(Figure::count(&ids.id("leaked_contradicted"), set.leaks.contradicted, "rows"));
        for method in methods {
            all.extend(method_figures(set, method, resamples, seed));
        }
    }
    all
}

fn method_figures(set: &DataSet, method: &Method<'_>, resamples: usize, seed: u64) -> Vec<Figure> {
    let ids = FigureIds::new(format!("{}.{}", set.name, method.id()));
    let Some(runs) = set.runs.get(method.id()) else {
        let why = match method {
            Method::Absent { why, .. } => why.as_str(),
            Method::Recipe(_) => "not all of its seeds are finished",
            Method::Mixture(_) => "a method it is made of was not measured",
        };
        return FIGURES
            .into_iter()
            .map(|(name, unit): (&str, &str)| Figure::unmeasured(&ids.id(name), unit, why))
            .collect();
    };
    let scored: Vec<Scored<'_>> =
        runs.fixed.iter().filter_map(|unit| scored(unit, &set.labels)).collect();
    let measures: Vec<Measures> = scored.iter().map(Scored::measures).collect();
    let between = intervals(&scored, resamples, seed);
    let mut found = Vec::new();
    for (name, unit) in FIGURES {
        let values = match name {
            "f1_without_leaked_rows" => without_leaks(set, method.id(), runs),
            "training_seconds" => runs.fixed.iter().map(|unit| unit.training_seconds).collect(),
            "latency_us_p50" => latencies(runs),
            _ => measures.iter().filter_map(|measures| value(measures, name)).collect(),
        };
        let mut figure = mean_figure(&ids.id(name), &values, unit);
        figure.ci95 = between.as_ref().and_then(|between| interval(between, name));
        if let Some((value, source)) = published(&set.name, method.id(), name) {
            figure = figure.published(value, source);
        }
        found.push(figure);
        if runs.fixed.len() > 1 && matches!(name, "f1" | "auroc" | "accuracy") {
            found.extend(spread(&ids.id(name), &values));
        }
    }
    if let Some(seen) = set.seen.get(method.id()) {
        found.push(Figure::count(&ids.id("seen_rows"), seen.rows.len() as u64, "rows"));
    }
    let errors: Vec<f64> = runs.fixed.iter().filter_map(|unit| calibration(unit, set)).collect();
    if !errors.is_empty() {
        found.push(mean_figure(&ids.id("calibration_error"), &errors, "rate"));
    }
    if runs.fixed.len() > 1 {
        found.push(Figure::count(&ids.id("seeds"), runs.fixed.len() as u64, "seeds"));
    }
    found.extend(across_folds(runs, &ids.id("cv")));
    found
}

/// The unit's scores beside labels. Units are checked when they are measured and when they are read.
pub(super) fn scored<'a>(unit: &MeasuredUnit, labels: &'a [bool]) -> Option<Scored<'a>> {
    Scored::new(&unit.scores, labels, unit.threshold).ok()
}

fn value(measures: &Measures, name: &str) -> Option<f64> {
    let counts = &measures.confusion;
    match name {
        "tp" => Some(counts.true_positives as f64),
        "tn" => Some(counts.true_negatives as f64),
        "fp" => Some(counts.false_positives as f64),
        "fn" => Some(counts.false_negatives as f64),
        "accuracy" => Some(counts.accuracy()),
        "precision" => Some(counts.precision()),
        "recall" => Some(counts.recall()),
        "f1" => Some(counts.f1()),
        "auroc" => measures.auroc,
        _ => None,
    }
}

fn interval(between: &Intervals, name: &str) -> Option<[f64; 2]> {
    match name {
        "accuracy" => Some(between.accuracy),
        "precision" => Some(between.precision),
        "recall" => Some(between.recall),
        "f1" => Some(between.f1),
        "auroc" => between.auroc,
        _ => None,
    }
}

fn mean_figure(id: &str, values: &[f64], unit: &str) -> Figure {
    match mean_and_deviation(values) {
        Some((mean, _)) => Figure::real(id, mean, unit),
        None => Figure::unmeasured(id, unit, "no run gave this figure"),
    }
}

/// Standard deviation, least and most over the seeds.
fn spread(id: &str, values: &[f64]) -> Vec<Figure> {
    let Some((_, deviation)) = mean_and_deviation(values) else { return Vec::new() };
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let parts = [("sd", deviation), ("min", least), ("max", most)];
    parts.map(|(name, value)| Figure::real(&format!("{id}_{name}"), value, "rate")).to_vec()
}

fn without_leaks(set: &DataSet, method: &str, runs: &Runs) -> Vec<f64> {
    let leaks = set.seen.get(method).unwrap_or(&set.leaks);
    let times: Vec<u32> =
        (0..set.labels.len()).map(|row| u32::from(!leaks.rows.contains(&row))).collect();
    runs.fixed
        .iter()
        .filter_map(|unit: &MeasuredUnit| {
            let found = scored(unit, &set.labels)?.weighted(&times);
            Some(found.confusion.f1())
        })
        .collect()
}

fn latencies(runs: &Runs) -> Vec<f64> {
    runs.fixed.iter().filter_map(|unit| percentile(&unit.latencies_us, 50.0)).collect()
}

fn calibration(unit: &MeasuredUnit, set: &DataSet) -> Option<f64> {
    Some(reliability(&unit.scores, &set.labels, 10)?.expected_calibration_error)
}

/// Mean and standard deviation over the folds and their trainings.
fn across_folds(runs: &Runs, id: &str) -> Vec<Figure> {
    let measures: Vec<Measures> = runs
        .folds
        .iter()
        .flat_map(|fold: &Fold| -> Vec<Measures> {
            let units = fold.trainings.iter().filter_map(|unit| scored(unit, &fold.labels));
            units.map(|scored| scored.measures()).collect()
        })
        .collect();
    let mut found = Vec::new();
    for name in ["accuracy", "f1", "auroc"] {
        let values: Vec<f64> =
            measures.iter().filter_map(|measures| value(measures, name)).collect();
        if let Some((mean, deviation)) = mean_and_deviation(&values) {
            found.push(Figure::real(&format!("{id}.{name}"), mean, "rate"));
            found.push(Figure::real(&format!("{id}.{name}_sd"), deviation, "rate"));
        }
    }
    found
}

/// One table a data set, methods as rows, then those of the seeds and of the folds where there are any.
pub(super) fn tables(sets: &[DataSet], methods: &[Method<'_>]) -> Vec<Table> {
    let fixed = sets.iter().map(|set| of_fixed_split(set, methods));
    let seeds = sets.iter().map(|set| of_seeds(set, methods));
    let folds = sets.iter().map(|set| of_folds(set, methods));
    let all = fixed.chain(seeds).chain(folds);
    all.filter(|table| !table.rows.is_empty()).collect()
}

fn of_fixed_split(set: &DataSet, methods: &[Method<'_>]) -> Table {
    let positives = set.labels.iter().filter(|label| **label).count();
    Table {
        title: set.name.clone(),
        note: format!(
            "{} test rows, {positives} injections; {} of the rows also stand in training, {} of them \
             with the other label only.",
            set.labels.len(),
            set.leaks.rows.len(),
            set.leaks.contradicted
        ),
        rows_are: "detector".to_owned(),
        rows: rows(set, methods, |_| true),
        columns: vec![
            ours("TP", "tp"),
            ours("TN", "tn"),
            ours("FP", "fp"),
            ours("FN", "fn"),
            ours("precision", "precision"),
            ours("recall", "recall"),
            ours("F1", "f1"),
            theirs("F1 published", "f1"),
            ours("F1 without leaks", "f1_without_leaked_rows"),
            ours("AUROC", "auroc"),
            theirs("AUROC published", "auroc"),
            ours("median µs", "latency_us_p50"),
            theirs("µs published", "latency_us_p50"),
            ours("training s", "training_seconds"),
        ],
    }
}

fn of_seeds(set: &DataSet, methods: &[Method<'_>]) -> Table {
    Table {
        title: format!("{}: spread over seeds", set.name),
        note: "Only methods that depend on a seed.".to_owned(),
        rows_are: "detector".to_owned(),
        rows: rows(set, methods, |runs| runs.is_some_and(|runs| runs.fixed.len() > 1)),
        columns: vec![
            ours("seeds", "seeds"),
            ours("F1 mean", "f1"),
            ours("sd", "f1_sd"),
            ours("least", "f1_min"),
            ours("most", "f1_max"),
            ours("AUROC mean", "auroc"),
            ours("sd", "auroc_sd"),
            ours("least", "auroc_min"),
            ours("most", "auroc_max"),
        ],
    }
}

fn of_folds(set: &DataSet, methods: &[Method<'_>]) -> Table {
    Table {
        title: format!("{}: across folds", set.name),
        note: "Mean and standard deviation.".to_owned(),
        rows_are: "detector".to_owned(),
        rows: rows(set, methods, |runs| runs.is_some_and(|runs| !runs.folds.is_empty())),
        columns: vec![
            ours("F1", "cv.f1"),
            ours("sd", "cv.f1_sd"),
            ours("AUROC", "cv.auroc"),
            ours("sd", "cv.auroc_sd"),
            ours("accuracy", "cv.accuracy"),
            ours("sd", "cv.accuracy_sd"),
        ],
    }
}

/// The methods of which `is_shown` says so, told what was run of them on `set`.
fn rows(
    set: &DataSet,
    methods: &[Method<'_>],
    is_shown: fn(Option<&Runs>) -> bool,
) -> Vec<TableRow> {
    let shown = methods.iter().filter(|method| is_shown(set.runs.get(method.id())));
    shown
        .map(|method: &Method<'_>| TableRow {
            name: method.title().to_owned(),
            prefix: format!("{}.{}", set.name, method.id()),
        })
        .collect()
}

fn ours(title: &str, suffix: &str) -> TableColumn {
    column(title, suffix, Shows::Measured)
}

fn theirs(title: &str, suffix: &str) -> TableColumn {
    column(title, suffix, Shows::Published)
}

fn column(title: &str, suffix: &str, shows: Shows) -> TableColumn {
    TableColumn { title: title.to_owned(), suffix: suffix.to_owned(), shows }
}
