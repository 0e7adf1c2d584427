//! Reliability diagrams: how often a score was right, and how many rows have it.

use super::frame::{Axis, Entry, Frame, Mark, count, legend};
use super::svg::{Anchor, Svg};
use crate::metrics::Reliability;

/// One detector's bins.
#[derive(Debug, Clone, PartialEq)]
pub struct ReliabilitySeries {
    /// The name of the detector.
    pub name: String,
    /// What was found.
    pub found: Reliability,
}

/// The picture: the rate of injections by score, and below it the rows in each bin.
pub fn picture(title: &str, series: &[ReliabilitySeries]) -> String {
    let mut svg = Svg::new(title, 760.0, 620.0);
    let score = "score";
    let diagram = Frame {
        x: Axis::rates("", 0.0, 1.0),
        y: Axis::rates("injections, % of rows", 0.0, 1.0),
        corner: [96.0, 64.0],
        size: [420.0, 300.0],
    };
    let bins = series.iter().flat_map(|series| &series.found.bins);
    let most = bins.map(|bin| bin.rows).max().unwrap_or(1);
    let counts = Frame {
        x: Axis::rates(score, 0.0, 1.0),
        y: Axis::powers("rows", &[1.0, (most as f64).max(10.0)], count),
        corner: [96.0, 412.0],
        size: [420.0, 130.0],
    };
    diagram.draw(&mut svg);
    counts.draw(&mut svg);
    svg.line("guide", diagram.at(0.0, 0.0), diagram.at(1.0, 1.0));
    for (at, one) in series.iter().enumerate() {
        let filled = one.found.bins.iter().filter(|bin| bin.rows > 0);
        let points: Vec<[f64; 2]> =
            filled.map(|bin| diagram.at(bin.mean_score, bin.positive_rate)).collect();
        svg.path(at, &points);
        for point in points {
            svg.dot(at, point, 4.5);
        }
        for bin in one.found.bins.iter().filter(|bin| bin.rows > 0) {
            // Bars of one bin stand side by side and leave a tenth of it free at either end.
            let width = (bin.high - bin.low) * 0.8 / series.len() as f64;
            let left = bin.low + (bin.high - bin.low) * 0.1 + width * at as f64;
            let [x, top] = counts.at(left, bin.rows as f64);
            let [end, bottom] = counts.at(left + width, 1.0);
            // One row lies on the axis of powers; two pixels keep it in sight.
            let top = top.min(bottom - 2.0);
            svg.block(at, [x, top], [end - x, bottom - top]);
        }
    }
    let entries: Vec<Entry> = series
        .iter()
        .map(|one: &ReliabilitySeries| Entry {
            name: one.name.clone(),
            note: format!("calibration error {:.3}", one.found.expected_calibration_error),
        })
        .collect();
    let below = legend(&mut svg, [544.0, 76.0], Mark::Line, &entries);
    svg.text("note", [544.0, below], Anchor::Start, "dashed: a score that is a");
    svg.text("note", [544.0, below + 16.0], Anchor::Start, "probability");
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::reliability;

    #[test]
    fn every_filled_bin_has_a_point_and_a_bar() {
        let scores = [0.05, 0.06, 0.95];
        let found = reliability(&scores, &[false, false, true], 10).unwrap();
        let file = picture("deepset", &[ReliabilitySeries { name: "d2".to_owned(), found }]);
        assert_eq!(file.matches("<circle").count(), 3, "two bins and the legend");
        assert_eq!(file.matches("fill=\"#0072B2\"/>").count(), 2, "two bars");
        assert!(file.contains("calibration error 0.053"), "{file}");
    }
}
