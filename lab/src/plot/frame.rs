//! A panel between two axes: where values lie, the grid behind them, the legend beside them.

use super::svg::{Anchor, Svg};

/// One axis of a panel.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    title: String,
    scale: Scale,
    /// Values with what is written at them.
    ticks: Vec<(f64, String)>,
}

#[derive(Debug, Clone, Copy)]
enum Scale {
    Linear(f64, f64),
    /// Both ends above 0.
    Log(f64, f64),
}

impl Axis {
    /// Rates from `low` to `high`, written in per cent.
    pub(super) fn rates(title: &str, low: f64, high: f64) -> Self {
        let step = round_step((high - low) / 5.0);
        let count = whole((high - low) / step + 1e-9);
        let ticks = (0..=count)
            .map(|at| low + step * at as f64)
            .map(|value| (value, per_cent(value)))
            .collect();
        Self { title: title.to_owned(), scale: Scale::Linear(low, high), ticks }
    }

    /// Values above 0 by powers of ten, widened to whole powers around `values`.
    pub(super) fn powers(title: &str, values: &[f64], write: fn(f64) -> String) -> Self {
        let usable = values.iter().copied().filter(|value| value.is_finite() && *value > 0.0);
        let (low, high) = usable
            .fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
        let (mut first, mut last) = (0, 1);
        if low <= high {
            first = power(low.log10().floor());
            last = power(high.log10().ceil()).max(first + 1);
        }
        let ticks = (first..=last).map(|n| 10f64.powi(n)).map(|value| (value, write(value)));
        let scale = Scale::Log(10f64.powi(first), 10f64.powi(last));
        Self { title: title.to_owned(), scale, ticks: ticks.collect() }
    }

    /// An axis without values, along which rows of the picture lie.
    pub(super) fn categories() -> Self {
        Self { title: String::new(), scale: Scale::Linear(0.0, 1.0), ticks: Vec::new() }
    }

    /// Where `value` lies between the ends, in [0, 1]; what lies outside is drawn at the end.
    fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear(low, high) => (value - low) / (high - low),
            Scale::Log(low, high) => {
                (value.max(low).log10() - low.log10()) / (high.log10() - low.log10())
            }
        };
        share.clamp(0.0, 1.0)
    }
}

/// A panel: `x` runs right, `y` up, inside a rectangle of the picture.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// The top left corner.
    pub(super) corner: [f64; 2],
    pub(super) size: [f64; 2],
}

impl Frame {
    /// Where the values (`x`, `y`) lie in the picture.
    pub(super) fn at(&self, x: f64, y: f64) -> [f64; 2] {
        let ([left, top], [width, height]) = (self.corner, self.size);
        [left + width * self.x.place(x), top + height * (1.0 - self.y.place(y))]
    }

    /// Draws the panel, its grid, ticks and titles. What is drawn later lies over it.
    pub(super) fn draw(&self, svg: &mut Svg) {
        let ([left, top], [width, height]) = (self.corner, self.size);
        let (right, bottom) = (left + width, top + height);
        svg.rect("panel", self.corner, self.size);
        for (value, written) in &self.x.ticks {
            let x = left + width * self.x.place(*value);
            svg.line("grid", [x, top], [x, bottom]);
            svg.text("note", [x, bottom + 18.0], Anchor::Middle, written);
        }
        for (value, written) in &self.y.ticks {
            let y = bottom - height * self.y.place(*value);
            svg.line("grid", [left, y], [right, y]);
            svg.text("note", [left - 8.0, y + 4.0], Anchor::End, written);
        }
        svg.line("axis", [left, bottom], [right, bottom]);
        svg.line("axis", [left, top], [left, bottom]);
        svg.text("", [left + width / 2.0, bottom + 40.0], Anchor::Middle, &self.x.title);
        // Digits are about seven pixels wide; the title stands left of the longest tick.
        let longest = self.y.ticks.iter().map(|(_, written)| written.chars().count()).max();
        let title_at = left - 22.0 - 7.0 * longest.unwrap_or_default() as f64;
        svg.text_upwards([title_at, top + height / 2.0], &self.y.title);
    }
}

/// What a legend says of one series.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) note: String,
}

/// How a series is shown in the legend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Line,
    Block,
}

/// Draws the legend from `corner` down, one entry a series in order; returns how far down what follows may begin.
pub(super) fn legend(svg: &mut Svg, [left, top]: [f64; 2], mark: Mark, entries: &[Entry]) -> f64 {
    const ROW: f64 = 44.0;
    for (series, entry) in entries.iter().enumerate() {
        let y = top + ROW * series as f64;
        match mark {
            Mark::Line => {
                svg.path(series, &[[left, y + 7.0], [left + 30.0, y + 7.0]]);
                svg.dot(series, [left + 15.0, y + 7.0], 4.5);
            }
            Mark::Block => svg.block(series, [left + 8.0, y], [14.0, 14.0]),
        }
        svg.text("strong", [left + 40.0, y + 12.0], Anchor::Start, &short(&entry.name, 22));
        svg.text("note", [left + 40.0, y + 28.0], Anchor::Start, &short(&entry.note, 30));
    }
    top + ROW * entries.len() as f64 + 12.0
}

/// A text cut to `most` characters, said with an ellipsis.
pub(super) fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// A rate in per cent, with as many digits as it needs, three at most.
pub(super) fn per_cent(rate: f64) -> String {
    let text = format!("{:.3}", rate * 100.0);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} %")
}

/// A whole number with its thousands apart.
pub(super) fn count(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The smallest of 1, 2, 2.5 and 5 times a power of ten that is not below `least`.
pub(super) fn round_step(least: f64) -> f64 {
    if !least.is_finite() || least <= 0.0 {
        return 1.0;
    }
    let unit = 10f64.powf(least.log10().floor());
    let fits = [1.0, 2.0, 2.5, 5.0].into_iter().find(|factor| factor * unit >= least * 0.999_999);
    fits.unwrap_or(10.0) * unit
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped just before")]
fn whole(value: f64) -> usize {
    value.clamp(0.0, 100.0) as usize
}

#[expect(clippy::cast_possible_truncation, reason = "clamped just before")]
fn power(value: f64) -> i32 {
    value.clamp(-12.0, 12.0) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_stand_at_round_values() {
        let written = |axis: Axis| -> String {
            axis.ticks.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" | ")
        };
        let rates = written(Axis::rates("", 0.0, 1.0));
        assert_eq!(rates, "0 % | 20 % | 40 % | 60 % | 80 % | 100 %");
        let corner = written(Axis::rates("", 0.0, 0.1));
        assert_eq!(corner, "0 % | 2 % | 4 % | 6 % | 8 % | 10 %");
        let powers = written(Axis::powers("", &[20.0, 4_000.0], count));
        assert_eq!(powers, "10 | 100 | 1,000 | 10,000");
        assert_eq!(written(Axis::powers("", &[], count)), "1 | 10");
    }

    #[test]
    fn values_outside_are_drawn_at_the_end() {
        let frame = Frame {
            x: Axis::rates("", 0.0, 0.1),
            y: Axis::powers("", &[1.0, 100.0], count),
            corner: [10.0, 20.0],
            size: [100.0, 50.0],
        };
        assert_eq!(frame.at(0.0, 1.0), [10.0, 70.0]);
        assert_eq!(frame.at(0.5, 1e9), [110.0, 20.0]);
        assert_eq!(frame.at(-1.0, 0.0), [10.0, 70.0]);
        assert_eq!(frame.at(0.05, 10.0), [60.0, 45.0]);
    }
}
