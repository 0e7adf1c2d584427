//! Units of work: one method measured on one part of one data set with one seed.

use custody_log::Digest;
use serde::{Deserialize, Serialize};

use super::detector::{Detector, Failure, Recipe, Task};
use crate::error::EvalError;
use crate::metrics::percentile;
use crate::recipe::corpus::Held;
use crate::run_folder::{RunFolder, UnitId};
use crate::sets::Labelled;
use crate::stopwatch::{Stopwatch, timed};

/// Changes when units of an older program must not be taken up.
const FORMAT: u32 = 1;

/// Lengths for the picture of latency, in characters.
const LENGTHS: [usize; 6] = [30, 100, 240, 1_000, 3_000, 10_000];

/// What a unit measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredUnit {
    /// The operating point.
    pub threshold: f64,
    /// One score a test row, in order.
    pub scores: Vec<f64>,
    /// Training alone.
    pub training_seconds: f64,
    /// The whole unit, for estimates.
    pub unit_seconds: f64,
    /// Microseconds of single calls, one a text, for the first rows of the test part.
    pub latencies_us: Vec<f64>,
    /// Single calls by length of text, when that was asked for.
    pub by_length: Vec<LengthTime>,
}

/// How long texts of one length take.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthTime {
    /// Their length.
    pub characters: u64,
    /// The median in microseconds.
    pub median_us: f64,
    /// The 95th percentile in microseconds.
    pub p95_us: f64,
}

/// One unit to measure.
pub(super) struct Unit<'a> {
    pub(super) suite: &'a str,
    pub(super) recipe: &'a dyn Recipe,
    pub(super) data_set: &'a str,
    /// `fixed`, `fold-3` …
    pub(super) part: &'a str,
    pub(super) seed: u64,
    pub(super) held: &'a Held,
    pub(super) train: &'a [Labelled],
    pub(super) test: &'a [Labelled],
    /// How many single calls are timed, after three that are not.
    pub(super) timed_calls: usize,
    /// How many calls are timed for each length; 0 for none.
    pub(super) calls_by_length: usize,
}

impl Unit<'_> {
    /// What `folder` holds of it, if that is whole.
    pub(super) fn finished(&self, folder: &RunFolder) -> Option<MeasuredUnit> {
        let measured: MeasuredUnit = folder.finished(&self.id())?;
        (measured.scores.len() == self.test.len()).then_some(measured)
    }

    /// Everything the unit's scores depend on, and what is timed.
    fn id(&self) -> UnitId {
        let [train, test] = [self.train, self.test].map(|rows| {
            let rows: Vec<_> = rows.iter().map(|row| (&row.id, &row.text, row.label)).collect();
            let json = serde_json::to_vec(&rows).expect("rows hold text and labels only");
            Digest::of(&json).to_string()
        });
        let all = serde_json::json!({
            "format": FORMAT,
            "version": env!("CARGO_PKG_VERSION"),
            "suite": self.suite,
            "method": self.recipe.id(),
            "fingerprint": self.recipe.fingerprint(),
            "data_set": self.data_set,
            "part": self.part,
            "seed": self.seed,
            "train": train,
            "test": test,
            "held": [&self.held.instructions, &self.held.categories],
            "timed": [self.timed_calls, self.calls_by_length],
        });
        let (method, seed) = (self.recipe.id(), self.seed);
        let name = format!("{}.{}.{method}.{}.{seed}", self.suite, self.data_set, self.part);
        UnitId::new(name, &all)
    }

    /// Trains, scores and times, and keeps the result in `folder`.
    ///
    /// # Errors
    /// [`EvalError::Detector`] when the method fails or gives scores that are none, [`EvalError::File`] when
    /// the unit cannot be kept.
    pub(super) fn measure(&self, folder: &RunFolder) -> Result<MeasuredUnit, EvalError> {
        let watch = Stopwatch::start();
        let failed = |cause: Failure| EvalError::Detector {
            method: self.recipe.id().to_owned(),
            data_set: self.data_set.to_owned(),
            cause,
        };
        let task =
            Task { data_set: self.data_set, train: self.train, held: self.held, seed: self.seed };
        let (detector, training_seconds) = timed(|| self.recipe.train(task));
        let detector = detector.map_err(failed)?;
        let texts: Vec<&str> = self.test.iter().map(|row| row.text.as_str()).collect();
        let scores = detector.scores(&texts).map_err(failed)?;
        check(&scores, texts.len(), detector.threshold()).map_err(|why| failed(why.into()))?;
        let calls: Vec<&str> = texts.iter().copied().take(self.timed_calls).collect();
        let measured = MeasuredUnit {
            threshold: detector.threshold(),
            training_seconds,
            latencies_us: single_calls(detector.as_ref(), &calls).map_err(failed)?,
            by_length: by_length(detector.as_ref(), &texts, self.calls_by_length)
                .map_err(failed)?,
            scores,
            unit_seconds: watch.seconds(),
        };
        folder.keep(&self.id(), &measured)?;
        Ok(measured)
    }
}

fn check(scores: &[f64], rows: usize, threshold: f64) -> Result<(), String> {
    if !threshold.is_finite() {
        return Err("its threshold is no finite number".to_owned());
    }
    if scores.len() != rows {
        return Err(format!("it gave {} scores for {rows} texts", scores.len()));
    }
    match scores.iter().position(|score| !score.is_finite()) {
        Some(row) => Err(format!("its score of row {row} is no finite number")),
        None => Ok(()),
    }
}

/// Microseconds of one call for each text, after three calls that warm up.
fn single_calls(detector: &dyn Detector, texts: &[&str]) -> Result<Vec<f64>, Failure> {
    for text in texts.iter().take(3) {
        detector.scores(&[text])?;
    }
    texts
        .iter()
        .map(|text: &&str| {
            let (answer, seconds) = timed(|| detector.scores(&[text]));
            answer.map(|_| seconds * 1e6)
        })
        .collect()
}

/// Times texts cut from the rows one after another, `calls` of each length.
fn by_length(
    detector: &dyn Detector,
    texts: &[&str],
    calls: usize,
) -> Result<Vec<LengthTime>, Failure> {
    let all: Vec<char> = texts.iter().flat_map(|text| text.chars().chain([' '])).collect();
    let mut found = Vec::new();
    if calls == 0 || all.is_empty() {
        return Ok(found);
    }
    for length in LENGTHS {
        let cuts: Vec<String> = (0..calls)
            .map(|call: usize| -> String {
                all.iter().cycle().skip(call * length % all.len()).take(length).collect()
            })
            .collect();
        let cuts: Vec<&str> = cuts.iter().map(String::as_str).collect();
        let times = single_calls(detector, &cuts)?;
        if let (Some(median_us), Some(p95_us)) =
            (percentile(&times, 50.0), percentile(&times, 95.0))
        {
            found.push(LengthTime { characters: length as u64, median_us, p95_us });
        }
    }
    Ok(found)
}
