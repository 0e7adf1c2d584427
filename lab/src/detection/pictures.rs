//! The pictures of the detection report. Methods with several seeds show the first.

use super::detector::Method;
use super::figures::{DataSet, scored};
use super::unit::MeasuredUnit;
use crate::metrics::{Scored, reliability};
use crate::plot::{latency, reliability as reliability_plot, roc};
use crate::report::wilson;

const BINS: usize = 10;

/// A picture with the name of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Without folder: `detection-deepset-roc.svg`.
    pub file: String,
    /// SVG.
    pub svg: String,
}

/// A method's title and what it measured.
type Unit<'a> = (&'a str, &'a MeasuredUnit);

/// ROC and reliability of every data set, and latency by length.
pub(super) fn pictures(sets: &[DataSet], methods: &[Method<'_>]) -> Vec<Picture> {
    sets.iter().flat_map(|set| pictures_of(set, methods)).collect()
}

fn pictures_of(set: &DataSet, methods: &[Method<'_>]) -> Vec<Picture> {
    let units: Vec<Unit<'_>> = methods
        .iter()
        .filter_map(|method| Some((method.title(), set.runs.get(method.id())?.fixed.first()?)))
        .collect();
    let (rows, positives) = (set.labels.len(), set.labels.iter().filter(|label| **label).count());
    let [found, probabilities_of] = ["what is found", "scores as probabilities"]
        .map(|what| format!("{}: {what} ({rows} rows, {positives} injections)", set.name));
    let curves = units.iter().filter_map(|(name, unit)| curve(name, &scored(unit, &set.labels)?));
    let series = units.iter().filter_map(|unit| probabilities(*unit, &set.labels));
    let times: Vec<latency::LatencySeries> = units.iter().copied().filter_map(times).collect();
    let mut pictures = vec![
        Picture {
            file: format!("detection-{}-roc.svg", set.name),
            svg: roc::picture(&found, &curves.collect::<Vec<_>>()),
        },
        Picture {
            file: format!("detection-{}-reliability.svg", set.name),
            svg: reliability_plot::picture(&probabilities_of, &series.collect::<Vec<_>>()),
        },
    ];
    if !times.is_empty() {
        pictures.push(Picture {
            file: "detection-latency.svg".to_owned(),
            svg: latency::picture("Time for one text, by its length", &times),
        });
    }
    pictures
}

/// A detector with fewer distinct scores than bins gives no probabilities, only clutter.
fn probabilities(
    (name, unit): Unit<'_>,
    labels: &[bool],
) -> Option<reliability_plot::ReliabilitySeries> {
    let distinct = scored(unit, labels)?.roc()?.len() - 1;
    let found = reliability(&unit.scores, labels, BINS)?;
    (distinct > BINS).then(|| reliability_plot::ReliabilitySeries { name: name.to_owned(), found })
}

/// The curve of `scored` with its operating point; `None` with one class only.
pub(super) fn curve(name: &str, scored: &Scored<'_>) -> Option<roc::Curve> {
    let measures = scored.measures();
    let counts = measures.confusion;
    let points = scored.roc()?;
    Some(roc::Curve {
        name: name.to_owned(),
        note: format!("AUROC {:.3}", measures.auroc?),
        points: points.iter().map(|point| [point.false_positive_rate, point.recall]).collect(),
        operating_point: Some(roc::OperatingPoint {
            false_positive_rate: counts.false_positive_rate(),
            false_positive_rate_ci95: wilson(counts.false_positives, counts.negatives()),
            recall: counts.recall(),
            recall_ci95: wilson(counts.true_positives, counts.positives()),
        }),
    })
}

fn times((name, unit): Unit<'_>) -> Option<latency::LatencySeries> {
    let points: Vec<latency::LatencyPoint> = unit
        .by_length
        .iter()
        .map(|time: &super::unit::LengthTime| latency::LatencyPoint {
            characters: time.characters as f64,
            median_us: time.median_us,
            p95_us: time.p95_us,
        })
        .collect();
    (!points.is_empty()).then(|| latency::LatencySeries { name: name.to_owned(), points })
}
