//! What others report on the same benchmarks. Nothing here was measured by us.

use super::suite::Bench;
use crate::report::Figure;

/// One of theirs.
pub struct Rival {
    /// In ids of figures.
    pub id: &'static str,
    /// What people call it.
    pub name: &'static str,
    bench: Bench,
    attack_success: f64,
    /// Tasks that are done, if they say.
    utility: Option<f64>,
    source: &'static str,
}

const RIVALS: [Rival; 2] = [
    Rival {
        id: "camel",
        name: "CaMeL",
        bench: Bench::AgentDojo,
        attack_success: 0.0,
        utility: Some(0.77),
        source: "arXiv 2503.18813 v2, strongest configuration, a large model planning",
    },
    Rival {
        id: "agent_airlock",
        name: "agent-airlock",
        bench: Bench::AgentDojo,
        attack_success: 60.0 / 384.0,
        utility: None,
        source: "its own run at the tool seam: 324 of 384 pairs of two suites blocked, no model",
    },
];

/// Those that report on `bench`.
pub fn rivals(bench: Bench) -> impl Iterator<Item = &'static Rival> {
    RIVALS.iter().filter(move |rival| rival.bench == bench)
}

/// Their figures, beside which nothing was measured.
pub fn figures(bench: Bench) -> Vec<Figure> {
    let figure = |rival: &Rival, name: &str, value: f64| {
        let id = format!("{}.{}.{name}", bench.id(), rival.id);
        Figure::unmeasured(&id, "rate", "others measured it").published(value, rival.source)
    };
    let both = |rival: &'static Rival| {
        let attacks = figure(rival, "attack_success", rival.attack_success);
        let utility = rival.utility.map(|value| figure(rival, bench.utility(), value));
        [Some(attacks), utility].into_iter().flatten()
    };
    rivals(bench).flat_map(both).collect()
}
