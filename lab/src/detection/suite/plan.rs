//! The units of a run: which there are, and what of them is finished.

use std::collections::BTreeMap;

use super::{DATA_SETS, DetectionOptions, Progress};
use crate::detection::detector::{Method, Recipe, Varies};
use crate::detection::unit::{MeasuredUnit, Unit};
use crate::error::EvalError;
use crate::recipe::corpus::Held;
use crate::run_folder::RunFolder;
use crate::sets::parts::stratified_folds;
use crate::sets::{Labelled, Split};

/// The part of a unit on the fixed split.
pub(super) const FIXED: &str = "fixed";

/// One unit to come, with the rows it needs.
pub(super) struct Planned<'a> {
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
pub(super) type Key = (String, String, String, u64);

/// All seeds of a method on the fixed split of a data set, or all its folds: data set, method, whether the split is
/// fixed. A mean over some of them would pass for a mean over all.
pub(super) type Series = (String, String, bool);

/// The units of all series that are whole, with the labels of their test rows.
pub(super) struct Finished {
    pub(super) units: BTreeMap<Key, (MeasuredUnit, Vec<bool>)>,
    /// The other series: how many of their units are finished, and how many there are.
    pub(super) left_out: BTreeMap<Series, (usize, usize)>,
}

/// Method by method on the fixed splits, then the folds, which take longest and are needed last.
pub(super) fn plan<'a>(
    options: &DetectionOptions,
    methods: &'a [Method<'a>],
    splits: &'a [Split],
) -> Vec<Planned<'a>> {
    let (mut fixed, mut crossed) = (Vec::new(), Vec::new());
    for method in methods {
        let Method::Recipe(recipe) = method else { continue };
        let pooled = pooled(methods, *recipe);
        for split in splits {
            fixed.extend(on_fixed_split(options, *recipe, split, pooled));
            crossed.extend(across_folds(options, *recipe, split, pooled));
        }
    }
    fixed.extend(crossed);
    fixed
}

/// One unit a seed.
fn on_fixed_split<'a>(
    options: &DetectionOptions,
    recipe: &'a dyn Recipe,
    split: &'a Split,
    pooled: u64,
) -> Vec<Planned<'a>> {
    let seeds = match recipe.varies() {
        Varies::No | Varies::WithData => 1,
        Varies::WithDataAndSeed => options.size.seeds().max(pooled),
    };
    (0..seeds)
        .map(|offset| Planned {
            recipe,
            data_set: &split.name,
            part: FIXED.to_owned(),
            seed: options.seed.wrapping_add(offset),
            train: split.train.iter().collect(),
            test: split.test.iter().collect(),
            by_length: split.name == DATA_SETS[0] && offset < pooled,
        })
        .collect()
}

/// For each fold of all rows as many units as a pool takes; none for what learned before, as nothing could be
/// held back from it.
fn across_folds<'a>(
    options: &DetectionOptions,
    recipe: &'a dyn Recipe,
    split: &'a Split,
    pooled: u64,
) -> Vec<Planned<'a>> {
    let folds = if recipe.has_learned().is_empty() { options.size.folds() } else { 0 };
    let rows: Vec<&Labelled> = split.train.iter().chain(&split.test).collect();
    let owned: Vec<Labelled> = rows.iter().map(|row| (*row).clone()).collect();
    let fold_of = stratified_folds(&owned, folds, options.seed);
    let pick = |fold: usize, inside: bool| -> Vec<&'a Labelled> {
        let chosen = rows.iter().zip(&fold_of).filter(|(_, of)| (**of == fold) == inside);
        chosen.map(|(row, _)| *row).collect()
    };
    (0..folds)
        .flat_map(|fold| (0..pooled).map(move |offset| (fold, offset)))
        .map(|(fold, offset)| Planned {
            recipe,
            data_set: &split.name,
            part: format!("fold-{}", fold + 1),
            seed: options.seed.wrapping_add(offset),
            train: pick(fold, false),
            test: pick(fold, true),
            by_length: false,
        })
        .collect()
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

/// Finishes the units of `plan`, or finds which are finished.
pub(super) fn measure_all(
    options: &DetectionOptions,
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
    options: &DetectionOptions,
    planned: &Planned<'_>,
    folder: &RunFolder,
) -> Result<Option<(MeasuredUnit, Vec<bool>)>, EvalError> {
    let [train, test]: [Vec<Labelled>; 2] =
        [&planned.train, &planned.test].map(|rows| rows.iter().map(|row| (*row).clone()).collect());
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
    Some(
        left.iter()
            .map(|planned: &Planned<'_>| {
                let own = seconds.get(planned.recipe.id());
                own.map_or(sum / count as f64, |(sum, count)| sum / *count as f64)
            })
            .sum(),
    )
}
