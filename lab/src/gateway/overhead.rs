//! The same load on Custody, on the other proxies and on the model itself, in turns, so that what else the machine does
//! hits all alike.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::load::{Seen, Target};
use super::product::Product;
use super::proxies::RunningProxy;
use super::service_log::LoggedTimes;
use super::texts::conversation;
use super::upstream::ScriptedUpstream;
use crate::error::EvalError;
use crate::metrics::percentile;
use crate::report::{Figure, FigureIds};
use crate::size::Size;

/// One kind of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LoadLine {
    /// What the ids of its figures begin with.
    pub(super) id: &'static str,
    /// How many connections send at once.
    pub(super) connections: &'static [usize],
    is_streamed: bool,
    /// How long the model thinks.
    pause_ms: u64,
}

/// The kinds of load, in the order of the tables.
pub(super) const LINES: [LoadLine; 3] = [
    LoadLine { id: "overhead", connections: &[1, 4, 16, 64], is_streamed: false, pause_ms: 0 },
    LoadLine { id: "streamed", connections: &[16], is_streamed: true, pause_ms: 0 },
    LoadLine { id: "paced", connections: &[16], is_streamed: false, pause_ms: 200 },
];

/// What is measured, in the order of the tables: id and name.
pub(super) const SYSTEMS: [(&str, &str); 4] = [
    ("custody", "Custody"),
    ("nginx", "nginx"),
    ("litellm", "LiteLLM"),
    ("direct", "the model itself"),
];

/// Everything that runs.
pub(super) struct Field {
    pub(super) upstream: ScriptedUpstream,
    pub(super) product: Product,
    pub(super) nginx: Option<RunningProxy>,
    pub(super) litellm: Option<RunningProxy>,
    /// Conversations that were begun.
    begun: AtomicU64,
}

/// What was seen of one system under one load.
#[derive(Debug, Clone, Default)]
struct LoadCell {
    us: Vec<f64>,
    seconds: f64,
    resident_mb: Option<f64>,
    logged: Vec<LoggedTimes>,
}

/// All cells: by kind of load, number of connections and system.
#[derive(Debug, Default)]
pub(super) struct LoadCells(BTreeMap<(LoadLine, usize, &'static str), LoadCell>);

impl Field {
    pub(super) fn new(
        upstream: ScriptedUpstream,
        product: Product,
        nginx: Option<RunningProxy>,
        litellm: Option<RunningProxy>,
    ) -> Self {
        Self { upstream, product, nginx, litellm, begun: AtomicU64::new(0) }
    }

    /// Where the requests of a system go, and the memory that it holds.
    fn system(&self, id: &str) -> Option<(Target, Option<f64>)> {
        let proxy = match id {
            "custody" => {
                return Some((self.product.chat.clone(), Some(self.product.resident_mb())));
            }
            "nginx" => self.nginx.as_ref(),
            "litellm" => self.litellm.as_ref(),
            _ => {
                let url = format!("{}/v1/chat/completions", self.upstream.url());
                return Some((Target { url, headers: Vec::new() }, None));
            }
        };
        proxy.map(|proxy| (proxy.chat.clone(), Some(proxy.resident_mb())))
    }

    /// One cell of one round.
    fn measure(
        &mut self,
        line: LoadLine,
        connections: usize,
        id: &'static str,
        requests: usize,
    ) -> Result<Option<LoadCell>, EvalError> {
        let Some((target, _)) = self.system(id) else { return Ok(None) };
        self.upstream.pause(line.pause_ms);
        let begun = &self.begun;
        let seen = target.load(connections, requests, &|| {
            conversation(begun.fetch_add(1, Ordering::Relaxed), line.is_streamed)
        });
        self.upstream.pause(0);
        let Seen { us, seconds, warmed } = seen?;
        let resident_mb = self.system(id).and_then(|(_, resident)| resident);
        let logged = if id == "custody" {
            let logged = self.product.log.next(warmed + us.len())?;
            logged.into_iter().skip(warmed).collect()
        } else {
            Vec::new()
        };
        Ok(Some(LoadCell { us, seconds, resident_mb, logged }))
    }
}

/// How many rounds there are, and how many requests each cell has in a round.
pub(super) const fn rounds(size: Size) -> (usize, usize) {
    match size {
        Size::Smoke => (2, 100),
        Size::Full => (5, 400),
    }
}

/// Measures every load on every system that there is. The first round warms up, and is not counted.
pub(super) fn run(
    field: &mut Field,
    size: Size,
    progress: &mut dyn FnMut(&str, usize, usize),
) -> Result<LoadCells, EvalError> {
    let (rounds, requests) = rounds(size);
    let mut cells = LoadCells::default();
    for round in 0..=rounds {
        progress("load", round, rounds + 1);
        for line in LINES {
            for connections in line.connections {
                for (id, _) in SYSTEMS {
                    let cell = field.measure(line, *connections, id, requests)?;
                    if let Some(cell) = cell.filter(|_| round > 0) {
                        cells.add((line, *connections, id), cell);
                    }
                }
            }
        }
    }
    Ok(cells)
}

impl LoadCells {
    fn add(&mut self, key: (LoadLine, usize, &'static str), cell: LoadCell) {
        let sum = self.0.entry(key).or_default();
        sum.us.extend(cell.us);
        sum.seconds += cell.seconds;
        sum.resident_mb = cell.resident_mb;
        sum.logged.extend(cell.logged);
    }

    /// The figures of every cell, then what Custody takes for each of the others' units.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        for ((line, connections, id), cell) in &self.0 {
            let ids = FigureIds::new(format!("{}.{id}.c{connections}", line.id));
            figures.extend(cell.figures(&ids));
            let own = self.0.get(&(*line, *connections, "custody"));
            if let Some(own) = own.filter(|_| *id != "custody") {
                let ids = FigureIds::new(format!("{}.custody.c{connections}", line.id));
                let (p50, rps) = (own.at(50.0) / cell.at(50.0), own.rate() / cell.rate());
                figures.push(Figure::real(&ids.id(&format!("p50_to_{id}")), p50, "ratio"));
                figures.push(Figure::real(&ids.id(&format!("rps_to_{id}")), rps, "ratio"));
            }
        }
        if let Some(cell) = self.0.get(&(LINES[0], 16, "custody")) {
            let waits = cell.logged.iter().map(|times| times.commit);
            let id = "overhead.custody.group_commit_p50_us";
            figures.push(percentile_of(id, waits, 50.0));
        }
        figures
    }
}

impl LoadCell {
    fn at(&self, percent: f64) -> f64 {
        percentile(&self.us, percent).unwrap_or(f64::NAN)
    }

    /// Requests in a second.
    fn rate(&self) -> f64 {
        self.us.len() as f64 / self.seconds
    }

    fn figures(&self, ids: &FigureIds) -> Vec<Figure> {
        let mut figures = vec![
            Figure::real(&ids.id("p50_us"), self.at(50.0), "us"),
            Figure::real(&ids.id("p99_us"), self.at(99.0), "us"),
            Figure::real(&ids.id("rps"), self.rate(), "1/s"),
            ids.count("requests", self.us.len() as u64, "requests"),
        ];
        figures.extend(self.resident_mb.map(|mb| Figure::real(&ids.id("rss_mb"), mb, "MB")));
        if !self.logged.is_empty() {
            figures.extend(logged_figures(ids, &self.logged));
        }
        figures
    }
}

/// Where the time of exchanges went, by the service's own log.
pub(super) fn logged_figures(ids: &FigureIds, logged: &[LoggedTimes]) -> Vec<Figure> {
    let inside = logged.iter().map(LoggedTimes::inside);
    let commit = logged.iter().map(|times| times.commit);
    let upstream = logged.iter().map(|times| times.upstream);
    vec![
        percentile_of(&ids.id("inside_p50_us"), inside.clone(), 50.0),
        percentile_of(&ids.id("inside_p99_us"), inside, 99.0),
        percentile_of(&ids.id("commit_p50_us"), commit.clone(), 50.0),
        percentile_of(&ids.id("commit_p99_us"), commit, 99.0),
        percentile_of(&ids.id("upstream_p50_us"), upstream, 50.0),
    ]
}

/// A percentile of microseconds.
pub(super) fn percentile_of(id: &str, us: impl Iterator<Item = f64>, percent: f64) -> Figure {
    let us: Vec<f64> = us.collect();
    Figure::real(id, percentile(&us, percent).unwrap_or(f64::NAN), "us")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::EvalReport;

    #[test]
    fn the_figures_of_a_cell_have_the_names_that_others_read() {
        let mut cells = LoadCells::default();
        let us: Vec<f64> = (1..=100).map(f64::from).collect();
        for (id, seconds) in [("custody", 2.0), ("nginx", 0.5)] {
            let resident_mb = Some(12.0);
            let cell = LoadCell { us: us.clone(), seconds, resident_mb, logged: Vec::new() };
            cells.add((LINES[0], 16, id), cell);
        }
        let report = EvalReport::of("gateway", 1, cells.figures());
        for (id, expected) in [
            ("overhead.custody.c16.p50_us", Some(50.5)),
            ("overhead.custody.c16.p99_us", Some(99.01)),
            ("overhead.nginx.c16.rps", Some(200.0)),
            ("overhead.nginx.c16.rss_mb", Some(12.0)),
            ("overhead.custody.c16.rps_to_nginx", Some(0.25)),
            // Nothing was logged.
            ("overhead.custody.group_commit_p50_us", None),
        ] {
            assert_eq!(report.value(id), expected, "{id}");
        }
        assert_eq!(EvalReport::from_json(report.to_json().as_bytes()), Ok(report));
    }
}
