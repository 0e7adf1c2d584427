//! Elements of a picture, written one after another.

use std::fmt::Write as _;

/// Okabe and Ito's colours without black and yellow, which vanish on one of the two backgrounds.
const COLOURS: [&str; 7] =
    ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C"];
const DASHES: [&str; 7] = ["", "7 4", "2 3", "9 3 2 3", "12 4", "5 2", "1 4"];

const STYLE: &str = "\
text{font-family:'Helvetica Neue',Helvetica,Arial,'Liberation Sans',sans-serif;font-size:13px;fill:#1f2328}\
.title{font-size:17px;font-weight:600}.note{font-size:12px;fill:#59636e}.strong{font-weight:600}\
.paper{fill:#ffffff}.panel{fill:#f6f8fa}.grid{stroke:#dfe3e8;stroke-width:1}.axis{stroke:#59636e;stroke-width:1.2}\
.guide{stroke:#818b98;stroke-width:1.2;stroke-dasharray:4 4}.ring{stroke:#ffffff}.whisker{stroke:#1f2328;stroke-width:1.4}\
.node{fill:#59636e}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.note{fill:#9198a1}.paper{fill:#0d1117}.panel{fill:#151b23}\
.grid{stroke:#2b323b}.axis{stroke:#9198a1}.guide{stroke:#656c76}.ring{stroke:#0d1117}.whisker{stroke:#e6edf3}\
.node{fill:#9198a1}}";

/// Where a text stands to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture in the making. Lengths are in pixels, from the top left corner.
#[derive(Debug)]
pub(super) struct Svg {
    body: String,
    title: String,
    width: f64,
    height: f64,
}

impl Svg {
    /// An empty picture. `title` is shown at the top and read out by screen readers.
    pub(super) fn new(title: &str, width: f64, height: f64) -> Self {
        let mut svg = Self { body: String::new(), title: title.to_owned(), width, height };
        svg.rect("paper", [0.0, 0.0], [width, height]);
        svg.text("title", [24.0, 32.0], Anchor::Start, title);
        svg
    }

    pub(super) fn rect(&mut self, class: &str, [x, y]: [f64; 2], [width, height]: [f64; 2]) {
        let [x, y, width, height] = [x, y, width, height].map(number);
        let _ = writeln!(
            self.body,
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}"/>"#
        );
    }

    /// A rectangle in the colour of `series`.
    pub(super) fn block(&mut self, series: usize, [x, y]: [f64; 2], [width, height]: [f64; 2]) {
        let [x, y, width, height] = [x, y, width, height].map(number);
        let _ = writeln!(
            self.body,
            r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{}"/>"#,
            colour(series)
        );
    }

    pub(super) fn line(&mut self, class: &str, from: [f64; 2], to: [f64; 2]) {
        let [[x1, y1], [x2, y2]] = [from, to].map(|point| point.map(number));
        let _ = writeln!(
            self.body,
            r#"<line class="{class}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>"#
        );
    }

    /// A line in the colour of `series`, `width` wide.
    pub(super) fn stroke(&mut self, series: usize, width: f64, from: [f64; 2], to: [f64; 2]) {
        let [[x1, y1], [x2, y2]] = [from, to].map(|point| point.map(number));
        let _ = writeln!(
            self.body,
            r#"<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{}" stroke-width="{}"/>"#,
            colour(series),
            number(width)
        );
    }

    /// A line through `points` in the colour and dash of `series`.
    pub(super) fn path(&mut self, series: usize, points: &[[f64; 2]]) {
        let mut data = String::new();
        for [x, y] in points {
            let word = if data.is_empty() { "M" } else { "L" };
            let _ = write!(data, "{word}{} {}", number(*x), number(*y));
        }
        let _ = writeln!(
            self.body,
            r#"<path d="{data}" fill="none" stroke="{}" stroke-width="2.2" stroke-linejoin="round"{}/>"#,
            colour(series),
            dash(series)
        );
    }

    /// The surface inside `points` in the colour of `series`, mostly transparent.
    pub(super) fn area(&mut self, series: usize, points: &[[f64; 2]]) {
        let corners: Vec<String> =
            points.iter().map(|[x, y]| format!("{},{}", number(*x), number(*y))).collect();
        let _ = writeln!(
            self.body,
            r#"<polygon points="{}" fill="{}" fill-opacity="0.15"/>"#,
            corners.join(" "),
            colour(series)
        );
    }

    /// A ribbon in the colour of `series`, `thick` high, whose upper edge runs smoothly from point to point.
    pub(super) fn ribbon(&mut self, series: usize, thick: f64, edge: &[[f64; 2]]) {
        let lower: Vec<[f64; 2]> = edge.iter().rev().map(|[x, y]| [*x, y + thick]).collect();
        let mut data = String::new();
        for side in [edge, &lower] {
            let word = if data.is_empty() { 'M' } else { 'L' };
            for (at, [x, y]) in side.iter().enumerate() {
                let Some([before, height]) = at.checked_sub(1).and_then(|at| side.get(at)) else {
                    let _ = write!(data, "{word}{} {}", number(*x), number(*y));
                    continue;
                };
                let [middle, height, x, y] = [(before + x) / 2.0, *height, *x, *y].map(number);
                let _ = write!(data, "C{middle} {height} {middle} {y} {x} {y}");
            }
        }
        let fill = colour(series);
        let _ = writeln!(self.body, r#"<path d="{data}Z" fill="{fill}" fill-opacity="0.55"/>"#);
    }

    pub(super) fn dot(&mut self, series: usize, [x, y]: [f64; 2], radius: f64) {
        let [x, y, radius] = [x, y, radius].map(number);
        let _ = writeln!(
            self.body,
            r#"<circle class="ring" cx="{x}" cy="{y}" r="{radius}" fill="{}" stroke-width="1.5"/>"#,
            colour(series)
        );
    }

    /// A circle in the colour of `series`, with nothing in it.
    pub(super) fn ring(&mut self, series: usize, [x, y]: [f64; 2], radius: f64) {
        let [x, y, radius] = [x, y, radius].map(number);
        let _ = writeln!(
            self.body,
            r#"<circle cx="{x}" cy="{y}" r="{radius}" fill="none" stroke="{}" stroke-width="2.2"/>"#,
            colour(series)
        );
    }

    pub(super) fn text(&mut self, class: &str, [x, y]: [f64; 2], anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let [x, y] = [x, y].map(number);
        let _ = writeln!(
            self.body,
            r#"<text class="{class}" x="{x}" y="{y}" text-anchor="{anchor}">{}</text>"#,
            escaped(text)
        );
    }

    /// A text that reads upwards, centred on its point.
    pub(super) fn text_upwards(&mut self, [x, y]: [f64; 2], text: &str) {
        let [x, y] = [x, y].map(number);
        let _ = writeln!(
            self.body,
            r#"<text x="{x}" y="{y}" text-anchor="middle" transform="rotate(-90 {x} {y})">{}</text>"#,
            escaped(text)
        );
    }

    /// The file.
    pub(super) fn finish(self) -> String {
        let (width, height) = (number(self.width), number(self.height));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\">\n<title>{}</title>\n<style>{STYLE}</style>\n\
             {}</svg>\n",
            escaped(&self.title),
            self.body
        )
    }
}

fn colour(series: usize) -> &'static str {
    COLOURS[series % COLOURS.len()]
}

fn dash(series: usize) -> String {
    match DASHES[series % DASHES.len()] {
        "" => String::new(),
        dash => format!(r#" stroke-dasharray="{dash}""#),
    }
}

/// Two digits behind the point at most; what is no number becomes 0, for it has no place in a picture.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{value:.2}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" { "0".to_owned() } else { short.to_owned() }
}

/// Text that cannot end its element. Control characters, which XML forbids, become spaces.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{FFFE}' | '\u{FFFF}') => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_add_an_element() {
        let mut svg = Svg::new("a </title><script>x</script>", 100.0, 100.0);
        svg.text("note", [0.0, 0.0], Anchor::Start, "b\u{1b}[2J \"&\" <image href='x'/>");
        let file = svg.finish();
        assert!(!file.contains("<script") && !file.contains("<image"), "{file}");
        assert!(file.contains("&lt;script&gt;") && file.contains("&quot;&amp;&quot;"), "{file}");
        assert!(!file.chars().any(|c| c.is_control() && c != '\n'), "{file:?}");
    }

    #[test]
    fn numbers_are_short_and_never_a_word() {
        let cases = [(1.0, "1"), (0.125, "0.12"), (-0.001, "0"), (f64::NAN, "0"), (10.5, "10.5")];
        for (value, expected) in cases {
            assert_eq!(number(value), expected);
        }
    }
}
