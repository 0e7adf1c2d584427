//! What others report on the same benchmarks. Nothing here was measured by us.

use super::merged::MODEL;
use super::suite::Benchmark;
use crate::report::Figure;

/// A defence that somebody else measured.
pub struct PublishedDefence {
    /// Its name in ids of figures.
    pub id: &'static str,
    /// Its name for people.
    pub name: &'static str,
    bench: Benchmark,
    attack_success: f64,
    /// The share of tasks that are done, if it is reported; for RVU a word overlap of the answer.
    utility: Option<f64>,
    /// The time of one scenario in seconds, the model's answer included, if it is reported.
    seconds: Option<f64>,
    source: &'static str,
}

const RVU: &str = "RVU Table 1, a 1.5 B model";

/// RVG and RVU are not measured under these names: RVG's list of tools and its blocked phrases are not published, and
/// RVU acts after an episode.
const PUBLISHED: [PublishedDefence; 5] = [
    PublishedDefence {
        id: "camel",
        name: "CaMeL",
        bench: Benchmark::AgentDojo,
        attack_success: 0.0,
        utility: Some(0.77),
        seconds: None,
        source: "arXiv 2503.18813 v2, strongest configuration, a large model planning",
    },
    PublishedDefence {
        id: "agent_airlock",
        name: "agent-airlock",
        bench: Benchmark::AgentDojo,
        attack_success: 60.0 / 384.0,
        utility: None,
        seconds: None,
        source: "its own run at the tool seam: 324 of 384 pairs of two suites blocked, no model",
    },
    PublishedDefence::in_rvu("rvg", "RVG", 0.10, 0.4005, 13.02),
    PublishedDefence::in_rvu("rvu_v1", "RVU v1", 0.10, 0.3033, 13.35),
    PublishedDefence::in_rvu("rvu_v2", "RVU v2", 0.70, 0.3725, 21.24),
];

impl PublishedDefence {
    const fn in_rvu(
        id: &'static str,
        name: &'static str,
        attack_success: f64,
        utility: f64,
        seconds: f64,
    ) -> Self {
        Self {
            id,
            name,
            bench: Benchmark::Scenarios,
            attack_success,
            utility: Some(utility),
            seconds: Some(seconds),
            source: RVU,
        }
    }

    /// Its figures without a measured value. A time stands only beside a language model's.
    fn figures(&self, player: Option<&str>) -> Vec<Figure> {
        let time = self.seconds.filter(|_| player.is_some()).map(|seconds| seconds * 1e6);
        let reported = [
            ("attack_success", "rate", Some(self.attack_success)),
            (self.bench.utility(), "rate", self.utility),
            ("latency_us_p50", "us", time),
        ];
        let prefix = self.bench.prefix(self.id, player);
        reported
            .into_iter()
            .filter_map(|(name, unit, value)| {
                let figure =
                    Figure::unmeasured(&format!("{prefix}.{name}"), unit, "others measured it");
                Some(figure.published(value?, self.source))
            })
            .collect()
    }
}

/// The defences with published figures on `bench`.
pub fn published_defences(bench: Benchmark) -> impl Iterator<Item = &'static PublishedDefence> {
    PUBLISHED.iter().filter(move |defence| defence.bench == bench)
}

/// The published figures on `bench`: beside those of a language model if `is_model`, else beside the worst case's.
pub fn figures(bench: Benchmark, is_model: bool) -> Vec<Figure> {
    let player = is_model.then_some(MODEL);
    published_defences(bench).flat_map(|defence| defence.figures(player)).collect()
}
