//! `custody eval buried`: attacks inside what tools bring back, found at 1 % false positives.
//!
//! In each of three folds the recipes are trained without the attacker instructions of InjecAgent and the
//! categories of BIPIA that are measured in it, and without the documents that thresholds come from or that
//! are measured. The threshold is the lowest that flags at most 1 % of the clean calibration documents; the
//! clean test documents then say what it really flags.

mod shown;

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::detection::clusters::Clusters;
use crate::detection::detector::{Detector, Failure, Recipe};
use crate::detection::overdefence::Shipped;
use crate::detection::suite::IllustratedReport;
use crate::detection::unit::Unit;
use crate::error::EvalError;
use crate::metrics::threshold_at_false_positive_rate;
use crate::recipe::corpus::Held;
use crate::report::{DataFile, EvalReport, Figure, wilson};
use crate::run_folder::RunFolder;
use crate::sets::buried::{BuriedCase, bipia, clean_documents, injecagent};
use crate::sets::parts::named_folds;
use crate::sets::{Labelled, SetPart};
use crate::size::Size;

/// The false positives that the threshold may cost on the calibration documents.
const RATE: f64 = 0.01;
/// Each needs a training of its own, and of the full detector that takes half an hour.
const FOLDS: usize = 3;

const INJECAGENT: &str = "injecagent";
const BIPIA: &str = "bipia";

/// What to measure.
#[derive(Debug, Clone)]
pub struct BuriedOptions {
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
    cases: Vec<BuriedCase>,
    fold_of: BTreeMap<String, usize>,
}

/// Scores of one benchmark, with one threshold for each fold.
struct Scores {
    /// Attacks that are measured: case, score, fold.
    attacks: Vec<(usize, f64, usize)>,
    /// Clean test cases: score, fold. Every fold has all of them.
    clean: Vec<(f64, usize)>,
    /// How many distinct documents these hold.
    documents: u64,
    /// By fold.
    thresholds: Vec<f64>,
}

/// What one recipe or shipped detector gave, a row of the tables.
struct Method {
    /// In ids of figures.
    id: String,
    /// For people.
    title: String,
    /// One a benchmark; the reason when it cannot be measured here.
    scores: Result<Vec<Scores>, String>,
}

/// Measures `recipes` across the folds, and `shipped` detectors, which have seen attacks of these kinds, marked
/// `seen` beside them. A recipe adds to the rows it is given what else it learns from, without these attacks.
///
/// # Errors
/// When the data is not there or not as documented, or a method fails.
pub fn run(
    options: &BuriedOptions,
    recipes: &[&dyn Recipe],
    shipped: &[Shipped<'_>],
    progress: &mut dyn FnMut(&str, usize, usize),
) -> Result<IllustratedReport, EvalError> {
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
        let (id, title) = (recipe.id().to_owned(), recipe.title().to_owned());
        rows.push(Method { id, title, scores: Ok(scores.collect()) });
    }
    for one in shipped {
        progress(&format!("{} as shipped", one.id), done, total);
        done += 1;
        let found: Result<Vec<Scores>, String> = match &one.detector {
            Ok(detector) => {
                Ok(measure_shipped(detector.documents, &benchmarks).map_err(|cause| {
                    let (method, data_set) = (one.id.to_owned(), "buried attacks".to_owned());
                    EvalError::Detector { method, data_set, cause }
                })?)
            }
            Err(why) => Err(why.clone()),
        };
        let (id, title) = (format!("{}.seen", one.id), format!("{} (seen)", one.title));
        rows.push(Method { id, title, scores: found });
    }
    progress("done", total, total);
    let figures = shown::figures(&benchmarks, &rows, options.seed);
    let pictures = shown::pictures(&benchmarks, &rows);
    let mut report = EvalReport::of("buried", options.seed, figures);
    report.data = files;
    report.tables = shown::tables(&benchmarks, &rows);
    report.notes = shown::notes();
    report.command =
        Some(format!("custody eval buried --size {} --seed {}", options.size.id(), options.seed));
    Ok(IllustratedReport { report, pictures })
}

fn read(options: &BuriedOptions) -> Result<(Vec<Benchmark>, Vec<DataFile>), EvalError> {
    let contexts = match options.size {
        Size::Smoke => 1,
        Size::Full => 2,
    };
    let (in_tools, tool_file) = injecagent(&options.data)?;
    let (in_contexts, mut files) = bipia(&options.data, contexts)?;
    files.insert(0, tool_file);
    let benchmarks = vec![
        Benchmark::new(INJECAGENT, "InjecAgent", in_tools, options.seed),
        Benchmark::new(BIPIA, "BIPIA", in_contexts, options.seed),
    ];
    Ok((benchmarks, files))
}

impl Benchmark {
    fn new(id: &'static str, title: &'static str, cases: Vec<BuriedCase>, seed: u64) -> Self {
        let groups = cases.iter().filter(|case| case.label).map(|case| case.group.as_str());
        let fold_of = named_folds(groups, FOLDS, seed);
        Self { id, title, cases, fold_of }
    }

    /// What may be learned from in a fold: attacks of other folds and clean documents, of the train part.
    fn train(&self, fold: usize) -> impl Iterator<Item = &BuriedCase> {
        self.cases
            .iter()
            .filter(|case: &&BuriedCase| case.part.is_none_or(|part| part == SetPart::Train))
            .filter(move |case: &&BuriedCase| {
                !case.label || self.fold_of.get(&case.group) != Some(&fold)
            })
    }

    /// Places of the cases that a fold scores: its attacks, and every clean document that is not for training.
    fn scored(&self, fold: usize) -> Vec<usize> {
        (0..self.cases.len()).filter(|at| self.is_scored(fold, &self.cases[*at])).collect()
    }

    fn is_scored(&self, fold: usize, case: &BuriedCase) -> bool {
        match (case.label, case.part) {
            (true, part) => {
                part.is_none_or(|part| part == SetPart::Test)
                    && self.fold_of.get(&case.group) == Some(&fold)
            }
            (false, part) => part != Some(SetPart::Train),
        }
    }

    /// Divides the scores of `places` into attacks and clean documents, with the threshold between them.
    fn divide(&self, fold: usize, places: &[usize], scores: &[f64]) -> Scores {
        let mut found = Scores::of(self);
        let mut calibration = Vec::new();
        for (place, score) in places.iter().zip(scores) {
            let case = &self.cases[*place];
            match (case.label, case.part) {
                (true, _) => found.attacks.push((*place, *score, fold)),
                (false, Some(SetPart::Calibration)) => calibration.push(*score),
                (false, _) => found.clean.push((*score, fold)),
            }
        }
        // Without a clean document to go by nothing may be flagged.
        let threshold = threshold_at_false_positive_rate(&calibration, RATE);
        found.thresholds = vec![threshold.unwrap_or(f64::INFINITY)];
        found
    }
}

fn labelled(case: &BuriedCase) -> Labelled {
    Labelled { id: case.id.clone(), text: case.text.clone(), label: case.label }
}

/// The attacks of a fold, by the names that the shipped recipes know them under.
fn held(benchmarks: &[Benchmark], fold: usize) -> Held {
    let [instructions, categories] = [INJECAGENT, BIPIA].map(|id| {
        let benchmark = benchmarks.iter().filter(|benchmark| benchmark.id == id);
        let groups = benchmark.flat_map(|benchmark| &benchmark.fold_of);
        groups.filter(|(_, of)| **of == fold).map(|(name, _)| name.clone()).collect()
    });
    Held { instructions, categories }
}

/// Trains once for both benchmarks and scores the fold's part of each.
fn measure_fold(
    recipe: &dyn Recipe,
    options: &BuriedOptions,
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
        held: &held(benchmarks, fold),
        train: &train,
        test: &test,
        timed_calls: 0,
        calls_by_length: 0,
    };
    let measured = match unit.finished(folder) {
        Some(measured) => measured,
        None => unit.measure(folder)?,
    };
    let mut scores = measured.scores.into_iter();
    Ok(places.iter().map(|places| scores.by_ref().take(places.len()).collect()).collect())
}

/// The scores of one benchmark over all folds.
fn gather(benchmark: &Benchmark, folds: &[&[f64]]) -> Scores {
    let mut all = Scores::of(benchmark);
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
    benchmarks
        .iter()
        .map(|benchmark: &Benchmark| {
            let mut places: Vec<usize> =
                (0..FOLDS).flat_map(|fold| benchmark.scored(fold)).collect();
            places.sort_unstable();
            places.dedup();
            let texts: Vec<&str> =
                places.iter().map(|at| benchmark.cases[*at].text.as_str()).collect();
            let scores = detector.scores(&texts)?;
            if scores.len() != texts.len() || scores.iter().any(|score| score.is_nan()) {
                return Err(Failure::from("it did not give one number a text"));
            }
            Ok(benchmark.divide(0, &places, &scores))
        })
        .collect()
}

impl Scores {
    /// None yet.
    fn of(benchmark: &Benchmark) -> Self {
        let documents = clean_documents(&benchmark.cases, SetPart::Test) as u64;
        Self { attacks: vec![], clean: vec![], documents, thresholds: vec![] }
    }

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

    /// The rate over all folds, with the interval of that rate over distinct documents: more cases of one document, in
    /// other folds or in the answers of other tools, tell no more.
    fn false_positives(&self) -> (f64, [f64; 2]) {
        let wrong = self.clean.iter().filter(|(score, fold)| self.margin(*score, *fold) >= 0.0);
        let (wrong, all) = (wrong.count() as u64, (self.clean.len() as u64).max(1));
        let documents = self.documents.max(1);
        (wrong as f64 / all as f64, wilson((wrong * documents).div_ceil(all), documents))
    }

    /// How many of the cases that `counts` picks were found; how alike those of one attack fare is taken from
    /// all cases.
    fn recall(
        &self,
        benchmark: &Benchmark,
        id: &str,
        counts: impl Fn(&BuriedCase) -> bool,
    ) -> Figure {
        let correlation = self.found(benchmark, |_| true).correlation();
        self.found(benchmark, counts).figure(id, correlation)
    }

    /// What was found of the cases that `counts` picks, by attack.
    fn found<'a>(
        &self,
        benchmark: &'a Benchmark,
        counts: impl Fn(&BuriedCase) -> bool,
    ) -> Clusters<'a> {
        let mut found = Clusters::default();
        for (at, score, fold) in &self.attacks {
            let case = &benchmark.cases[*at];
            if counts(case) {
                found.add(&case.attack, self.margin(*score, *fold) >= 0.0);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_cases_of_a_document_make_no_narrower_interval() {
        let scores = |clean: Vec<(f64, usize)>| Scores {
            attacks: vec![],
            clean,
            documents: 4,
            thresholds: vec![0.5; 2],
        };
        let once = vec![(0.9, 0), (0.1, 0), (0.1, 0), (0.1, 0)];
        let again: Vec<(f64, usize)> =
            (0..6).flat_map(|fold| once.iter().map(move |(score, _)| (*score, fold % 2))).collect();
        let (rate, between) = scores(once).false_positives();
        assert_eq!((rate, between), (0.25, wilson(1, 4)));
        assert_eq!(scores(again).false_positives(), (rate, between));
    }
}
