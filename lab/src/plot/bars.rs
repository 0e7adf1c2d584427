//! Rates as bars with their intervals, in groups.

use super::frame::{Axis, Entry, Frame, Mark, legend, per_cent, round_step, short};
use super::svg::{Anchor, Svg};

/// Bars that belong together: one set of texts, one language.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// What the bars are of.
    pub label: String,
    /// One rate a series; `None` when it was not measured.
    pub bars: Vec<Option<Bar>>,
    /// What no bar should pass.
    pub limit: Option<f64>,
}

/// One rate in [0, 1].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// The rate.
    pub rate: f64,
    /// Its 95 % interval.
    pub ci95: [f64; 2],
}

/// The picture: bars that lie, so that long labels can be read. `axis` names the rate with its unit.
///
/// A series without any rate is left out; where another has one, the gap is said.
pub fn picture(title: &str, axis: &str, series: &[String], groups: &[Group]) -> String {
    let shown: Vec<usize> = (0..series.len())
        .filter(|at: &usize| {
            groups.iter().any(|group| matches!(group.bars.get(*at), Some(Some(_))))
        })
        .collect();
    let bar_height = 15.0;
    let group_height = bar_height * shown.len().max(1) as f64 + 16.0;
    let height = group_height * groups.len() as f64;
    let mut svg = Svg::new(title, 940.0, height + 150.0);
    let bars = groups.iter().flat_map(|group| group.bars.iter().flatten());
    let limits = groups.iter().filter_map(|group| group.limit);
    let highest = bars.map(|bar| bar.ci95[1].max(bar.rate)).chain(limits).fold(0.0, f64::max);
    let step = round_step(highest.clamp(0.01, 1.0) / 5.0);
    let end = ((highest / step).ceil() * step).clamp(step, 1.0);
    let frame = Frame {
        x: Axis::rates(axis, 0.0, end),
        y: Axis::categories(),
        corner: [230.0, 64.0],
        size: [440.0, height.max(1.0)],
    };
    frame.draw(&mut svg);
    for (at, group) in groups.iter().enumerate() {
        let top = frame.corner[1] + group_height * at as f64;
        let middle = top + group_height / 2.0 + 4.0;
        svg.text("", [frame.corner[0] - 12.0, middle], Anchor::End, &short(&group.label, 27));
        for (place, series) in shown.iter().enumerate() {
            let y = top + 8.0 + bar_height * place as f64;
            let bar = group.bars.get(*series).and_then(Option::as_ref);
            draw_bar(&mut svg, &frame, place, [y, bar_height - 2.0], bar);
        }
        if let Some(limit) = group.limit {
            let [x, _] = frame.at(limit, 0.0);
            svg.line("guide", [x, top + 2.0], [x, top + group_height - 2.0]);
        }
    }
    let entries: Vec<Entry> = shown
        .iter()
        .map(|at: &usize| Entry { name: series[*at].clone(), note: String::new() })
        .collect();
    legend(&mut svg, [736.0, 70.0], Mark::Block, &entries);
    let below = height + 140.0;
    let limited = groups.iter().any(|group| group.limit.is_some());
    let limit = if limited { "; dashed: the limit set for the group" } else { "" };
    let says = format!("whiskers: 95 % intervals{limit}");
    svg.text("note", [frame.corner[0], below], Anchor::Start, &says);
    svg.finish()
}

fn draw_bar(svg: &mut Svg, frame: &Frame, series: usize, [y, thick]: [f64; 2], bar: Option<&Bar>) {
    let [left, _] = frame.at(0.0, 0.0);
    let Some(bar) = bar else {
        svg.text("note", [left + 6.0, y + 11.0], Anchor::Start, "not measured");
        return;
    };
    let [x, _] = frame.at(bar.rate, 0.0);
    // A rate of nothing is still a bar to be seen.
    svg.block(series, [left, y], [(x - left).max(2.0), thick]);
    let [[low, _], [high, _]] = bar.ci95.map(|end| frame.at(end, 0.0));
    let middle = y + thick / 2.0;
    svg.line("whisker", [low, middle], [high, middle]);
    for end in [low, high] {
        svg.line("whisker", [end, middle - 3.0], [end, middle + 3.0]);
    }
    let rate = per_cent((bar.rate * 1e4).round() / 1e4);
    svg.text("note", [high.max(x) + 6.0, y + 11.0], Anchor::Start, &rate);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rate_is_written_beside_its_bar_and_none_is_invented() {
        let bar = |rate: f64| Some(Bar { rate, ci95: [rate / 2.0, rate * 2.0] });
        let groups = [
            Group { label: "e-mails".into(), bars: vec![bar(0.01), bar(0.0)], limit: Some(0.01) },
            Group { label: "German".into(), bars: vec![bar(0.034_56), None], limit: None },
        ];
        let series = ["default".to_owned(), "full".to_owned(), "absent".to_owned()];
        let file = picture("flagged", "flagged, % of texts", &series, &groups);
        for text in [">1 %<", ">0 %<", ">3.46 %<", ">not measured<", ">German<", ">full<"] {
            assert!(file.contains(text), "{text} in {file}");
        }
        assert!(!file.contains("absent"), "a series of gaps is none");
        assert_eq!(file.matches("class=\"guide\"").count(), 1);
    }
}
