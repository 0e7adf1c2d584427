//! Time a text takes by its length, both by powers of ten.

use super::frame::{Axis, Entry, Frame, Mark, count, legend};
use super::svg::{Anchor, Svg};

/// One detector's times.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencySeries {
    /// The name of the detector.
    pub name: String,
    /// By length, rising.
    pub points: Vec<LatencyPoint>,
}

/// The time of texts of one length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyPoint {
    /// Their length.
    pub characters: f64,
    /// The median, in microseconds.
    pub median_us: f64,
    /// The 95th percentile, in microseconds.
    pub p95_us: f64,
}

/// The picture: medians as lines, and a band up to the 95th percentile.
pub fn picture(title: &str, series: &[LatencySeries]) -> String {
    let mut svg = Svg::new(title, 800.0, 470.0);
    let all = series.iter().flat_map(|series| &series.points);
    let lengths: Vec<f64> = all.clone().map(|point| point.characters).collect();
    let times: Vec<f64> = all.flat_map(|point| [point.median_us, point.p95_us]).collect();
    let frame = Frame {
        x: Axis::powers("length of the text, characters", &lengths, count),
        y: Axis::powers("time for one text", &times, duration),
        corner: [100.0, 64.0],
        size: [470.0, 340.0],
    };
    frame.draw(&mut svg);
    for (at, one) in series.iter().enumerate() {
        let medians = one.points.iter().map(|point| frame.at(point.characters, point.median_us));
        let high = one.points.iter().rev().map(|point| frame.at(point.characters, point.p95_us));
        svg.area(at, &medians.clone().chain(high).collect::<Vec<_>>());
        let medians: Vec<[f64; 2]> = medians.collect();
        svg.path(at, &medians);
        for point in medians {
            svg.dot(at, point, 4.0);
        }
    }
    legend(
        &mut svg,
        [596.0, 76.0],
        Mark::Line,
        &series
            .iter()
            .map(|one: &LatencySeries| Entry {
                name: one.name.clone(),
                note: one.points.last().map_or(String::new(), longest),
            })
            .collect::<Vec<_>>(),
    );
    svg.text("note", [596.0, 380.0], Anchor::Start, "line: median, band: up to");
    svg.text("note", [596.0, 396.0], Anchor::Start, "the 95th percentile");
    svg.finish()
}

fn longest(point: &LatencyPoint) -> String {
    format!("{} at {}", duration(point.median_us), count(point.characters))
}

/// A time in the unit that keeps it short.
fn duration(us: f64) -> String {
    let (value, unit) = if us >= 999_500.0 {
        (us / 1e6, "s")
    } else if us >= 999.5 {
        (us / 1e3, "ms")
    } else if us >= 0.9995 {
        (us, "µs")
    } else {
        (us * 1e3, "ns")
    };
    // Three digits that mean something.
    if value >= 99.95 || value.fract() == 0.0 {
        format!("{value:.0} {unit}")
    } else {
        format!("{value:.1} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_the_unit_that_keeps_them_short() {
        let cases = [
            (0.25, "250 ns"),
            (1.0, "1 µs"),
            (12.34, "12.3 µs"),
            (1_500.0, "1.5 ms"),
            (2e6, "2 s"),
        ];
        for (us, expected) in cases {
            assert_eq!(duration(us), expected);
        }
    }

    #[test]
    fn every_point_is_drawn() {
        let point =
            |characters, median_us| LatencyPoint { characters, median_us, p95_us: median_us * 2.0 };
        let points = vec![point(100.0, 10.0), point(1_000.0, 90.0), point(10_000.0, 950.0)];
        let file = picture("latency", &[LatencySeries { name: "d2".to_owned(), points }]);
        assert_eq!(file.matches("<circle").count(), 4);
        assert!(file.contains(">950 µs at 10,000<") && file.contains(">10 ms<"), "{file}");
    }
}
