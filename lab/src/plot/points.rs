//! Security against utility: one numbered point for each of several ways, the numbers in a list beside them.

use super::frame::{Axis, Frame, per_cent, short};
use super::svg::{Anchor, Svg};

/// Points nearer to one another than this share one label, in pixels.
const NEAR: f64 = 15.0;
/// From a point to its label, in pixels.
const GAP: f64 = 12.0;
/// Room for labels to the right of the panel and above it, in pixels.
const MARGIN: [f64; 2] = [46.0, 16.0];
/// A digit or comma of a label is about so wide, in pixels.
const CHARACTER: f64 = 7.0;
/// A line of the list, in pixels.
const ROW: f64 = 24.0;
/// The longest name in the list, in characters.
const LONGEST_NAME: usize = 28;

/// One way of doing it.
#[derive(Debug, Clone, PartialEq)]
pub struct ScatterPoint {
    /// The name of the method.
    pub name: String,
    /// What kind of mark it gets.
    pub mark: PointMark,
    /// Where it lies to the right, a rate in [0, 1].
    pub x: f64,
    /// How high, a rate in [0, 1]; what is known of one axis alone is a line.
    pub y: Option<f64>,
}

/// How a point is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointMark {
    /// Measured here.
    Measured,
    /// Measured here, and what the picture is about.
    Subject,
    /// What a source says: hollow.
    Published,
}

impl PointMark {
    const fn series(self) -> usize {
        match self {
            Self::Measured => 0,
            Self::Subject => 1,
            Self::Published => 2,
        }
    }

    fn draw(self, svg: &mut Svg, at: [f64; 2]) {
        match self {
            Self::Measured | Self::Subject => svg.dot(self.series(), at, 5.5),
            // Larger, so that it is seen around a point that lies on it.
            Self::Published => svg.ring(self.series(), at, 7.5),
        }
    }
}

/// What the axes are called: in full, and in short above the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axes {
    /// To the right.
    pub x: [&'static str; 2],
    /// Upwards.
    pub y: [&'static str; 2],
}

/// The picture. Both axes run from 0 to 100 %; the best corner is the upper right.
pub fn picture(title: &str, note: &str, axes: Axes, points: &[ScatterPoint]) -> String {
    let listed = 76.0 + ROW * points.len() as f64;
    let mut svg = Svg::new(title, 960.0, (listed + 40.0).max(560.0));
    let frame = Frame {
        x: Axis::rates(axes.x[0], 0.0, 1.0),
        y: Axis::rates(axes.y[0], 0.0, 1.0),
        corner: [92.0, 84.0],
        size: [390.0, 390.0],
    };
    frame.draw(&mut svg);
    svg.text("note", [24.0, 54.0], Anchor::Start, note);
    for point in points.iter().filter(|point| point.y.is_none()) {
        svg.line("guide", frame.at(point.x, 0.0), frame.at(point.x, 1.0));
    }
    // What is published lies below, so that it hides nothing.
    let (published, measured): (Vec<&ScatterPoint>, Vec<&ScatterPoint>) =
        points.iter().partition(|point| point.mark == PointMark::Published);
    for point in published.into_iter().chain(measured) {
        if let Some(y) = point.y {
            point.mark.draw(&mut svg, frame.at(point.x, y));
        }
    }
    // A line is labelled in its middle.
    let places: Vec<[f64; 2]> =
        points.iter().map(|point| frame.at(point.x, point.y.unwrap_or(0.5))).collect();
    for label in labels(&frame, &places) {
        svg.text("strong", [label.at[0], label.at[1] + 4.5], Anchor::Middle, &label.text);
    }
    list(&mut svg, axes, points);
    svg.finish()
}

/// The numbers, names and rates beside the panel.
fn list(svg: &mut Svg, axes: Axes, points: &[ScatterPoint]) {
    let [left, first, second] = [530.0, 842.0, 932.0];
    svg.text("note", [first, 84.0], Anchor::End, axes.x[1]);
    svg.text("note", [second, 84.0], Anchor::End, axes.y[1]);
    for (at, point) in points.iter().enumerate() {
        let y = 108.0 + ROW * at as f64;
        svg.text("strong", [left + 16.0, y], Anchor::End, &format!("{}", at + 1));
        match point.y {
            Some(_) => point.mark.draw(svg, [left + 32.0, y - 4.5]),
            None => svg.line("guide", [left + 32.0, y - 13.0], [left + 32.0, y + 4.0]),
        }
        let name = short(&point.name, LONGEST_NAME);
        svg.text("", [left + 50.0, y], Anchor::Start, &name);
        svg.text("note", [first, y], Anchor::End, &rounded(point.x));
        let high = point.y.map_or_else(|| "unknown".to_owned(), rounded);
        svg.text("note", [second, y], Anchor::End, &high);
    }
}

/// A rate in per cent, with one decimal.
fn rounded(rate: f64) -> String {
    per_cent((rate * 1e3).round() / 1e3)
}

/// The numbers of the points at one place.
#[derive(Debug, Clone, PartialEq)]
struct Label {
    text: String,
    /// Its middle.
    at: [f64; 2],
}

impl Label {
    fn half(&self) -> [f64; 2] {
        [self.text.chars().count() as f64 * CHARACTER / 2.0, 8.0]
    }

    fn overlaps(&self, middle: [f64; 2], half: [f64; 2]) -> bool {
        let own = self.half();
        (0..2).all(|axis| (self.at[axis] - middle[axis]).abs() < own[axis] + half[axis])
    }
}

/// One label for each group of points that lie together: on no point, on no other label, on nothing beside the panel.
fn labels(frame: &Frame, places: &[[f64; 2]]) -> Vec<Label> {
    let mut labels: Vec<Label> = Vec::new();
    for group in groups(places) {
        let text = numbered(&group);
        let around = group.iter().filter_map(|at| places.get(*at).copied());
        let candidates = around.flat_map(|place| candidates(frame, place, &text));
        let mut candidates = candidates.peekable();
        let first = candidates.peek().cloned();
        // Where no place is free, a label that is hard to read is still one.
        labels.extend(
            candidates
                .find(|label: &Label| {
                    !places.iter().any(|place| label.overlaps(*place, [7.5, 7.5]))
                        && !labels.iter().any(|other| label.overlaps(other.at, other.half()))
                })
                .or(first),
        );
    }
    labels
}

/// The numbers of points in rising order, three and more in a row as a span: `1, 3–5`.
fn numbered(group: &[usize]) -> String {
    let runs = group.chunk_by(|one, next| one + 1 == *next);
    let written = runs.flat_map(|run| match run {
        [first, _, .., last] => vec![format!("{}–{}", first + 1, last + 1)],
        _ => run.iter().map(|at| (at + 1).to_string()).collect(),
    });
    written.collect::<Vec<_>>().join(", ")
}

/// Where a label of `place` can stand: beside it, above, below, then farther away.
fn candidates(frame: &Frame, place: [f64; 2], text: &str) -> Vec<Label> {
    let half = text.chars().count() as f64 * CHARACTER / 2.0;
    let ([left, top], [width, height]) = (frame.corner, frame.size);
    // Ticks stand to the left and below; above and to the right there is room.
    let columns = left + half..=left + width + MARGIN[0] - half;
    let rows = top - MARGIN[1]..=top + height - 8.0;
    let places = [GAP, GAP * 2.0, GAP * 3.5]
        .into_iter()
        .flat_map(|gap: f64| {
            let (far, up) = (half + gap, gap + 6.0);
            [
                [far, 0.0],
                [-far, 0.0],
                [0.0, up],
                [0.0, -up],
                [far, up],
                [-far, up],
                [far, -up],
                [-far, -up],
            ]
        })
        .map(|[x, y]: [f64; 2]| [place[0] + x, place[1] + y]);
    let free = places.filter(|[x, y]| columns.contains(x) && rows.contains(y));
    free.map(|at| Label { text: text.to_owned(), at }).collect()
}

/// Points that lie together, in order; each point is in one group.
fn groups(places: &[[f64; 2]]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (at, place) in places.iter().enumerate() {
        let (near, mut apart): (Vec<_>, Vec<_>) = groups.into_iter().partition(|group| {
            group.iter().any(|other: &usize| {
                places
                    .get(*other)
                    .is_some_and(|other| (other[0] - place[0]).hypot(other[1] - place[1]) < NEAR)
            })
        });
        let mut joined: Vec<usize> = near.into_iter().flatten().chain([at]).collect();
        joined.sort_unstable();
        apart.push(joined);
        groups = apart;
    }
    groups.sort_unstable();
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(name: &str, mark: PointMark, x: f64, y: f64) -> ScatterPoint {
        ScatterPoint { name: name.to_owned(), mark, x, y: Some(y) }
    }

    const AXES: Axes = Axes { x: ["attacks that fail, %", "fail"], y: ["tasks done, %", "done"] };

    #[test]
    fn points_at_one_place_share_a_label_and_no_label_lies_on_another() {
        let mut points = vec![
            point("a", PointMark::Measured, 0.0, 1.0),
            point("b", PointMark::Measured, 0.0, 1.0),
            point("c", PointMark::Subject, 1.0, 1.0),
            point("d", PointMark::Published, 1.0, 0.99),
        ];
        points.extend(
            (0..8).map(|n| point("e", PointMark::Measured, 0.9, 0.3 + 0.05 * f64::from(n))),
        );
        let frame = Frame {
            x: Axis::rates("", 0.0, 1.0),
            y: Axis::rates("", 0.0, 1.0),
            corner: [0.0, 0.0],
            size: [400.0, 400.0],
        };
        let places: Vec<[f64; 2]> =
            points.iter().map(|point| frame.at(point.x, point.y.unwrap())).collect();
        let labels = labels(&frame, &places);
        let texts: Vec<&str> = labels.iter().map(|label| label.text.as_str()).collect();
        assert_eq!(texts[..2], ["1, 2", "3, 4"]);
        assert_eq!(numbered(&[0, 2, 3, 4, 8, 9]), "1, 3–5, 9, 10");
        assert_eq!(labels.len(), 10);
        for (at, label) in labels.iter().enumerate() {
            assert!(!places.iter().any(|place| label.overlaps(*place, [5.0, 5.0])), "{label:?}");
            let others = labels.iter().skip(at + 1);
            assert!(
                !others.clone().any(|other| label.overlaps(other.at, other.half())),
                "{label:?}"
            );
        }
    }

    #[test]
    fn what_is_published_is_hollow_and_what_is_half_known_is_a_line() {
        let points = [
            point("ours", PointMark::Subject, 1.0, 0.5),
            point("theirs & others", PointMark::Published, 0.4, 0.5),
            ScatterPoint { y: None, ..point("half", PointMark::Published, 0.844, 0.0) },
        ];
        let file = picture("title", "note", AXES, &points);
        assert_eq!(file, picture("title", "note", AXES, &points));
        // Each in the panel and in the list.
        assert_eq!(file.matches("fill=\"none\" stroke=").count(), 2);
        assert_eq!(file.matches("class=\"guide\"").count(), 2);
        for text in [">theirs &amp; others<", ">84.4 %<", ">unknown<", ">3<"] {
            assert!(file.contains(text), "{text} in {file}");
        }
    }
}
