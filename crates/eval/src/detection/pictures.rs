//! The pictures of the detection report. Methods with several seeds show the first.

use super::detector::Method;
use super::figures::{DataSet, scored};
use super::metrics::reliability;
use super::unit::Measured;
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

/// ROC and reliability of every data set, and latency by length.
pub(super) fn pictures(sets: &[DataSet], methods: &[Method<'_>]) -> Vec<Picture> {
    let mut pictures = Vec::new();
    for set in sets {
        let units = || {
            let unit = |method: &Method<'_>| {
                let unit = set.runs.get(method.id())?.fixed.first()?.clone();
                Some((method.title().to_owned(), unit))
            };
            methods.iter().filter_map(unit).collect::<Vec<(String, Measured)>>()
        };
        let (rows, positives) =
            (set.labels.len(), set.labels.iter().filter(|label| **label).count());
        let title =
            |what: &str| format!("{}: {what} ({rows} rows, {positives} injections)", set.name);
        let curves: Vec<roc::Curve> =
            units().iter().filter_map(|(name, unit)| curve(name, unit, &set.labels)).collect();
        pictures.push(Picture {
            file: format!("detection-{}-roc.svg", set.name),
            svg: roc::picture(&title("what is found"), &curves),
        });
        // A detector with fewer distinct scores than bins gives no probabilities, only clutter.
        let series: Vec<reliability_plot::Series> = units()
            .into_iter()
            .filter_map(|(name, unit)| {
                let distinct = scored(&unit, &set.labels)?.roc()?.len() - 1;
                let found = reliability(&unit.scores, &set.labels, BINS)?;
                (distinct > BINS).then_some(reliability_plot::Series { name, found })
            })
            .collect();
        pictures.push(Picture {
            file: format!("detection-{}-reliability.svg", set.name),
            svg: reliability_plot::picture(&title("scores as probabilities"), &series),
        });
        let times: Vec<latency::Series> = units().into_iter().filter_map(times).collect();
        if !times.is_empty() {
            pictures.push(Picture {
                file: "detection-latency.svg".to_owned(),
                svg: latency::picture("Time for one text, by its length", &times),
            });
        }
    }
    pictures
}

fn curve(name: &str, unit: &Measured, labels: &[bool]) -> Option<roc::Curve> {
    let scored = scored(unit, labels)?;
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

fn times((name, unit): (String, Measured)) -> Option<latency::Series> {
    let point = |time: &super::unit::LengthTime| latency::Point {
        characters: time.characters as f64,
        median_us: time.median_us,
        p95_us: time.p95_us,
    };
    let points: Vec<latency::Point> = unit.by_length.iter().map(point).collect();
    (!points.is_empty()).then_some(latency::Series { name, points })
}
