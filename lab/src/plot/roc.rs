//! ROC curves of several detectors, whole and in the corner that counts.

use super::frame::{Axis, Entry, Frame, Mark, legend};
use super::svg::{Anchor, Svg};

/// One detector's curve. All values are rates in [0, 1].
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The name of the detector.
    pub name: String,
    /// What the legend adds: `AUROC 0.997`.
    pub note: String,
    /// (false-positive rate, recall), rising.
    pub points: Vec<[f64; 2]>,
    /// Where it operates.
    pub operating_point: Option<OperatingPoint>,
}

/// A point of a curve with its 95 % intervals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OperatingPoint {
    /// Flagged among the ordinary rows.
    pub false_positive_rate: f64,
    /// Its interval.
    pub false_positive_rate_ci95: [f64; 2],
    /// Flagged among the injections.
    pub recall: f64,
    /// Its interval.
    pub recall_ci95: [f64; 2],
}

/// The picture: every curve from 0 to 1, and beside it the corner of few false positives.
pub fn picture(title: &str, curves: &[Curve]) -> String {
    let mut svg = Svg::new(title, 1072.0, 470.0);
    let side = [330.0, 330.0];
    let false_positives = "false positives, % of ordinary texts";
    let recall = "recall, % of injections";
    let panels = [
        (Frame {
            x: Axis::rates(false_positives, 0.0, 1.0),
            y: Axis::rates(recall, 0.0, 1.0),
            corner: [84.0, 70.0],
            size: side,
        }),
        (Frame {
            x: Axis::rates(false_positives, 0.0, 0.1),
            y: Axis::rates(recall, 0.5, 1.0),
            corner: [494.0, 70.0],
            size: side,
        }),
    ];
    for (panel, name) in panels.iter().zip(["the whole curve", "up to 10 % false positives"]) {
        panel.draw(&mut svg);
        svg.text("note", [panel.corner[0], panel.corner[1] - 10.0], Anchor::Start, name);
    }
    let [whole, corner] = &panels;
    svg.line("guide", whole.at(0.0, 0.0), whole.at(1.0, 1.0));
    for (series, curve) in curves.iter().enumerate() {
        let drawn: Vec<[f64; 2]> = curve.points.iter().map(|[x, y]| whole.at(*x, *y)).collect();
        svg.path(series, &without_repeats(&drawn));
        let inside = in_the_corner(&curve.points, 0.1, 0.5);
        let drawn: Vec<[f64; 2]> = inside.iter().map(|[x, y]| corner.at(*x, *y)).collect();
        if drawn.len() > 1 {
            svg.path(series, &without_repeats(&drawn));
        }
    }
    // Over the curves, so that none hides a point.
    for (series, curve) in curves.iter().enumerate() {
        let Some(point) = curve.operating_point else { continue };
        operating_point(&mut svg, whole, series, point);
        if point.false_positive_rate <= 0.1 && point.recall >= 0.5 {
            operating_point(&mut svg, corner, series, point);
        }
    }
    let entries: Vec<Entry> = curves
        .iter()
        .map(|curve: &Curve| Entry { name: curve.name.clone(), note: curve.note.clone() })
        .collect();
    let below = legend(&mut svg, [848.0, 78.0], Mark::Line, &entries);
    svg.text("note", [848.0, below], Anchor::Start, "dots: operating points,");
    svg.text("note", [848.0, below + 16.0], Anchor::Start, "bars: 95 % intervals");
    svg.finish()
}

fn operating_point(svg: &mut Svg, frame: &Frame, series: usize, point: OperatingPoint) {
    let OperatingPoint { false_positive_rate: x, recall: y, .. } = point;
    let ([x_low, x_high], [y_low, y_high]) = (point.false_positive_rate_ci95, point.recall_ci95);
    svg.stroke(series, 1.6, frame.at(x_low, y), frame.at(x_high, y));
    svg.stroke(series, 1.6, frame.at(x, y_low), frame.at(x, y_high));
    svg.dot(series, frame.at(x, y), 5.0);
}

/// The part of a curve with at most `most` false positives and at least `least` recall, cut where it leaves.
fn in_the_corner(points: &[[f64; 2]], most: f64, least: f64) -> Vec<[f64; 2]> {
    let mut inside: Vec<[f64; 2]> = Vec::new();
    for pair in points.windows(2) {
        let ([x1, y1], [x2, y2]) = (pair[0], pair[1]);
        if x1 > most || y2 < least {
            continue;
        }
        let enters = if y1 < least { (least - y1) / (y2 - y1) } else { 0.0 };
        let leaves = if x2 > most { (most - x1) / (x2 - x1) } else { 1.0 };
        if enters <= leaves {
            let ends = [enters, leaves];
            inside.extend(ends.map(|share| [x1 + (x2 - x1) * share, y1 + (y2 - y1) * share]));
        }
    }
    inside
}

/// Without points that lie where the one before does, or on a straight line between their neighbours.
fn without_repeats(points: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let mut kept: Vec<[f64; 2]> = Vec::new();
    for point in points {
        if kept.last() == Some(point) {
            continue;
        }
        if let [.., [x1, y1], [x2, y2]] = kept.as_slice() {
            let turn = (x2 - x1) * (point[1] - y2) - (y2 - y1) * (point[0] - x2);
            if turn.abs() < 1e-9 {
                kept.pop();
            }
        }
        kept.push(*point);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corner_is_cut_where_the_curve_leaves_it() {
        let curve = [[0.0, 0.0], [0.0, 0.6], [0.2, 0.8], [1.0, 1.0]];
        let found = in_the_corner(&curve, 0.1, 0.5);
        let expected = [[0.0, 0.5], [0.0, 0.6], [0.0, 0.6], [0.1, 0.7]];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        assert!(in_the_corner(&[[0.0, 0.0], [1.0, 1.0]], 0.1, 0.5).is_empty());
        let straight = [[0.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 2.0], [1.0, 2.0]];
        assert_eq!(without_repeats(&straight), [[0.0, 0.0], [0.0, 2.0], [1.0, 2.0]]);
    }

    #[test]
    fn the_same_curves_give_the_same_bytes_and_each_is_named() {
        let curve = |name: &str| Curve {
            name: name.to_owned(),
            note: "AUROC 0.9".to_owned(),
            points: vec![[0.0, 0.0], [0.05, 0.9], [1.0, 1.0]],
            operating_point: Some(OperatingPoint {
                false_positive_rate: 0.05,
                false_positive_rate_ci95: [0.0, 0.1],
                recall: 0.9,
                recall_ci95: [0.8, 0.95],
            }),
        };
        let curves = [curve("rules"), curve("n-grams & more")];
        let file = picture("deepset", &curves);
        assert_eq!(file, picture("deepset", &curves));
        assert!(file.contains(">rules</text>") && file.contains(">n-grams &amp; more</text>"));
        // One point in each panel and one in the legend, for each of two curves.
        assert_eq!(file.matches("<circle").count(), 6);
    }
}
