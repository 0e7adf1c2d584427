//! How many of a thing went which way: stages as columns, ends on the right, ribbons between.
//!
//! What leaves the stages early passes the later ones above or below, each flow in a lane of its own.

use super::frame::{Entry, Mark, count, legend, short};
use super::svg::{Anchor, Svg};

/// Where ways end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Its name.
    pub name: String,
    /// What that means, in a word or two.
    pub note: String,
    /// Whether what goes there passes the stages above.
    pub is_above: bool,
}

/// Where a flow goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// To the next stage.
    Next,
    /// To the end of that number.
    End(usize),
}

/// So many went from one place to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// The number of the stage that they leave.
    pub from: usize,
    /// Where they go.
    pub to: To,
    /// How many, by series.
    pub counts: [u64; 2],
}

const WIDTH: f64 = 1_060.0;
/// Of everything that flows, without the gaps.
const FLOW_HEIGHT: f64 = 260.0;
const LEFT: f64 = 40.0;
const TOP: f64 = 108.0;
/// Between the left edges of two columns.
const STEP: f64 = 196.0;
const NODE: f64 = 14.0;
/// Between what stands in the column of a stage, and between ends, which have two lines beside them.
const GAPS: [f64; 2] = [22.0, 40.0];

/// One thing in a column: a stage, an end, or a lane past a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Item {
    Stage,
    Lane(usize),
    End(usize),
}

/// The whole picture in numbers: what stands where.
struct Layout<'a> {
    stages: usize,
    ends: &'a [End],
    flows: &'a [Flow],
    scale: f64,
    /// Of the tallest column.
    height: f64,
    /// The items of each column with their upper edges.
    columns: Vec<Vec<(Item, f64)>>,
}

/// The picture. Every flow leaves one of `stages`, for the next one or for one of `ends`; `ends` stand in their order
/// from the top, those above first.
pub fn picture(
    title: &str,
    stages: &[&str],
    ends: &[End],
    series: &[String; 2],
    flows: &[Flow],
) -> String {
    let layout = Layout::new(stages.len(), ends, flows);
    let bottom = TOP + layout.height;
    let mut svg = Svg::new(title, WIDTH, bottom + 54.0);
    for (at, flow) in flows.iter().enumerate() {
        layout.draw_flow(&mut svg, at, flow);
    }
    for (column, name) in stages.iter().enumerate() {
        let x = x_of(column);
        let top = layout.top_of(column, Item::Stage);
        let through = layout.leaving(column);
        layout.draw_node(&mut svg, [x, top], through);
        svg.text("strong", [x, TOP - 34.0], Anchor::Start, name);
        svg.text("note", [x, TOP - 18.0], Anchor::Start, &counted(through));
    }
    for (at, end) in ends.iter().enumerate() {
        layout.draw_end(&mut svg, at, end);
    }
    let corner = [WIDTH - 180.0, 20.0];
    legend(
        &mut svg,
        corner,
        Mark::Block,
        &series
            .iter()
            .map(|name: &String| Entry { name: name.clone(), note: String::new() })
            .collect::<Vec<_>>(),
    );
    let says = format!("in brackets: {} + {}", series[0], series[1]);
    svg.text("note", [LEFT, bottom + 34.0], Anchor::Start, &says);
    svg.finish()
}

fn x_of(column: usize) -> f64 {
    LEFT + STEP * column as f64
}

fn counted([first, second]: [u64; 2]) -> String {
    format!(
        "{} ({} + {})",
        count((first + second) as f64),
        count(first as f64),
        count(second as f64)
    )
}

fn add(a: [u64; 2], b: [u64; 2]) -> [u64; 2] {
    [a[0] + b[0], a[1] + b[1]]
}

impl<'a> Layout<'a> {
    fn new(stages: usize, ends: &'a [End], flows: &'a [Flow]) -> Self {
        let mut layout = Self { stages, ends, flows, scale: 0.0, height: 0.0, columns: Vec::new() };
        let [first, second] = layout.leaving(0);
        layout.scale = FLOW_HEIGHT / (first + second).max(1) as f64;
        let heights = (0..=stages).map(|column| layout.stack_height(column));
        layout.height = heights.fold(0.0, f64::max);
        layout.columns = (0..=stages).map(|column| layout.stacked(column)).collect();
        layout
    }

    /// All that leaves a stage.
    fn leaving(&self, stage: usize) -> [u64; 2] {
        let flows = self.flows.iter().filter(|flow| flow.from == stage);
        flows.fold([0, 0], |sum, flow| add(sum, flow.counts))
    }

    /// All that comes to an end.
    fn arriving(&self, end: usize) -> [u64; 2] {
        let flows = self.flows.iter().filter(|flow| flow.to == To::End(end));
        flows.fold([0, 0], |sum, flow| add(sum, flow.counts))
    }

    fn thick(&self, [first, second]: [u64; 2]) -> f64 {
        self.scale * (first + second) as f64
    }

    fn gap(&self, column: usize) -> f64 {
        GAPS[usize::from(column == self.stages)]
    }

    fn thick_item(&self, column: usize, item: Item) -> f64 {
        self.thick(match item {
            Item::Stage => self.leaving(column),
            Item::Lane(flow) => self.flows.get(flow).map_or([0, 0], |flow| flow.counts),
            Item::End(end) => self.arriving(end),
        })
    }

    fn stack_height(&self, column: usize) -> f64 {
        let items = self.items(column);
        let gaps = self.gap(column) * items.len().saturating_sub(1) as f64;
        items.iter().map(|item| self.thick_item(column, *item)).sum::<f64>() + gaps
    }

    /// What stands in a column, from the top, with its edges; the stack is in the middle of the height.
    fn stacked(&self, column: usize) -> Vec<(Item, f64)> {
        let mut top = TOP + (self.height - self.stack_height(column)) / 2.0;
        let mut stacked = Vec::new();
        for item in self.items(column) {
            stacked.push((item, top));
            top += self.thick_item(column, item) + self.gap(column);
        }
        stacked
    }

    fn items(&self, column: usize) -> Vec<Item> {
        if column == self.stages {
            return (0..self.ends.len()).map(Item::End).collect();
        }
        let passing = |above: bool| {
            self.in_order(|at: &usize| {
                self.flows[*at].from < column && self.goes_above(*at) == Some(above)
            })
            .into_iter()
            .map(Item::Lane)
        };
        passing(true).chain([Item::Stage]).chain(passing(false)).collect()
    }

    /// Whether a flow passes the stages above or below; none for one to the next stage.
    fn goes_above(&self, flow: usize) -> Option<bool> {
        match self.flows[flow].to {
            To::Next => None,
            To::End(end) => Some(self.ends.get(end).is_some_and(|end| end.is_above)),
        }
    }

    /// The flows that `counts`, from the top: by their end, and of one end so that none crosses another.
    fn in_order(&self, counts: impl Fn(&usize) -> bool) -> Vec<usize> {
        let mut found: Vec<usize> = (0..self.flows.len()).filter(|at| counts(at)).collect();
        found.sort_by_key(|at| {
            let Flow { from, to, .. } = self.flows[*at];
            match (to, self.goes_above(*at)) {
                (To::End(end), Some(true)) => (0, end, from),
                (To::End(end), _) => (2, end, self.stages - from),
                (To::Next, _) => (1, 0, from),
            }
        });
        found
    }

    fn top_of(&self, column: usize, item: Item) -> f64 {
        let items = self.columns.get(column).map_or(&[][..], Vec::as_slice);
        items.iter().find(|(found, _)| *found == item).map_or(TOP, |(_, top)| *top)
    }

    /// How far below the edge of `among` a flow begins, when those lie one below the other.
    fn offset(&self, among: &[usize], flow: usize) -> f64 {
        let before = among.iter().take_while(|at| **at != flow);
        before.map(|at| self.thick(self.flows[*at].counts)).sum()
    }

    /// Where the upper edge of a flow lies, column by column: left and right of each thing that it meets.
    fn way(&self, at: usize) -> Vec<[f64; 2]> {
        let flow = &self.flows[at];
        let leaving = self.in_order(|other| self.flows[*other].from == flow.from);
        let start = self.top_of(flow.from, Item::Stage) + self.offset(&leaving, at);
        let mut way = vec![[x_of(flow.from) + NODE, start]];
        let To::End(end) = flow.to else {
            way.push([x_of(flow.from + 1), self.top_of(flow.from + 1, Item::Stage)]);
            return way;
        };
        for column in flow.from + 1..self.stages {
            let top = self.top_of(column, Item::Lane(at));
            way.extend([[x_of(column), top], [x_of(column) + NODE, top]]);
        }
        let arriving = self.in_order(|other| self.flows[*other].to == flow.to);
        let top = self.top_of(self.stages, Item::End(end)) + self.offset(&arriving, at);
        way.push([x_of(self.stages), top]);
        way
    }

    /// One ribbon a series, one below the other.
    fn draw_flow(&self, svg: &mut Svg, at: usize, flow: &Flow) {
        let way = self.way(at);
        let mut below = 0.0;
        for (series, count) in flow.counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            let thick = self.scale * count as f64;
            let edge: Vec<[f64; 2]> = way.iter().map(|[x, y]| [*x, y + below]).collect();
            svg.ribbon(series, thick, &edge);
            below += thick;
        }
    }

    /// A bar as high as what passes it; none where nothing does.
    fn draw_node(&self, svg: &mut Svg, corner: [f64; 2], counts: [u64; 2]) {
        if counts != [0, 0] {
            svg.rect("node", corner, [NODE, self.thick(counts).max(2.0)]);
        }
    }

    fn draw_end(&self, svg: &mut Svg, at: usize, end: &End) {
        let (x, top) = (x_of(self.stages), self.top_of(self.stages, Item::End(at)));
        let arriving = self.arriving(at);
        self.draw_node(svg, [x, top], arriving);
        let middle = top + self.thick(arriving) / 2.0;
        svg.text("strong", [x + NODE + 10.0, middle - 2.0], Anchor::Start, &short(&end.name, 22));
        let note = format!("{}: {}", short(&end.note, 16), counted(arriving));
        svg.text("note", [x + NODE + 10.0, middle + 14.0], Anchor::Start, &note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends() -> Vec<End> {
        let end = |name: &str, is_above| End { name: name.into(), note: "n".into(), is_above };
        vec![end("clean", true), end("cleared", true), end("bad", false), end("unsure", false)]
    }

    fn flow(from: usize, to: To, counts: [u64; 2]) -> Flow {
        Flow { from, to, counts }
    }

    /// 20 texts: 8 clean at once, 5 cleared and 3 unsure by the second stage, 4 bad at the third.
    fn flows() -> Vec<Flow> {
        vec![
            flow(1, To::End(3), [1, 2]),
            flow(0, To::Next, [3, 9]),
            flow(1, To::Next, [0, 4]),
            flow(0, To::End(0), [7, 1]),
            flow(2, To::End(2), [0, 4]),
            flow(1, To::End(1), [2, 3]),
        ]
    }

    #[test]
    fn nothing_in_a_column_lies_over_anything_else() {
        let (ends, flows) = (ends(), flows());
        let layout = Layout::new(3, &ends, &flows);
        for column in 0..=3 {
            let items = &layout.columns[column];
            assert!(items[0].1 >= TOP - 1e-9, "column {column} reaches into the headings");
            for pair in items.windows(2) {
                let below = pair[0].1 + layout.thick_item(column, pair[0].0) + layout.gap(column);
                assert!(pair[1].1 >= below - 1e-9, "column {column}: {items:?}");
            }
        }
        let names: Vec<Item> = layout.columns[2].iter().map(|(item, _)| *item).collect();
        assert_eq!(names, [Item::Lane(3), Item::Lane(5), Item::Stage, Item::Lane(0)]);
    }

    #[test]
    fn every_ribbon_begins_and_ends_inside_what_it_joins() {
        let (ends, flows) = (ends(), flows());
        let layout = Layout::new(3, &ends, &flows);
        let inside = |[top, thick]: [f64; 2], [outer, all]: [f64; 2]| {
            top >= outer - 1e-9 && top + thick <= outer + all + 1e-9
        };
        for (at, flow) in flows.iter().enumerate() {
            let way = layout.way(at);
            let thick = layout.thick(flow.counts);
            let node =
                [layout.top_of(flow.from, Item::Stage), layout.thick(layout.leaving(flow.from))];
            assert!(inside([way[0][1], thick], node), "{flow:?}");
            let (item, column, all) = match flow.to {
                To::Next => (Item::Stage, flow.from + 1, layout.leaving(flow.from + 1)),
                To::End(end) => (Item::End(end), 3, layout.arriving(end)),
            };
            let last = way[way.len() - 1];
            assert!(
                inside([last[1], thick], [layout.top_of(column, item), layout.thick(all)]),
                "{flow:?}"
            );
            assert_eq!(last[0].to_bits(), x_of(column).to_bits(), "{flow:?}");
        }
    }

    #[test]
    fn every_stage_and_end_is_named_with_its_counts_and_nothing_at_all_can_be_drawn() {
        let series = ["ordinary".to_owned(), "attacks".to_owned()];
        let file = picture("ways", &["a", "b", "c"], &ends(), &series, &flows());
        for text in [">20 (10 + 10)<", ">12 (3 + 9)<", ">4 (0 + 4)<", ">n: 8 (7 + 1)<", ">unsure<"]
        {
            assert!(file.contains(text), "{text} in {file}");
        }
        // A flow has a ribbon for each series that is in it.
        assert_eq!(file.matches("<path").count(), 6 + 4);
        let empty = picture("ways", &["a", "b", "c"], &ends(), &series, &[]);
        assert!(!empty.contains("NaN") && empty.contains(">n: 0 (0 + 0)<"), "{empty}");
    }
}
