//! The published scores, for comparison.
//!
//! They reproduce the published figures and no plan uses them: they cannot reach a purge without a measured adapter
//! (R2), and a share is cut off after three hops.

use std::collections::{BTreeMap, BTreeSet};

use custody_kernel::score::Score;
use custody_log::{Digest, Seq};

use crate::closure::{Walk, WalkMode};
use crate::graph::Graph;
use crate::risk::{AdapterInfluence, RiskConfig, RiskTerms};

/// How many hops the share is counted over.
const SHARE_DEPTH: u32 = 3;
/// How many entries are scored at most. Each costs a walk of its own.
pub const MAX_SCORED: usize = 4_096;

/// More entries than can be scored as published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("mode `rvu-v2` scores {MAX_SCORED} entries at most, not {0}; use mode `causal`")]
pub struct TooManyEntries(pub usize);

/// The score of each of `entries`, in their order; 0 for one that is not in the graph.
///
/// P is 1 for `contaminated` entries and 0 for others, I is what was `measured` or 0, the share is the closure of
/// mode `rvu-v2` over three hops by the number of unpurged entries.
///
/// # Errors
/// When there are more than [`MAX_SCORED`] entries.
///
/// Source: RVU §3.4; docs/papers.md §3.4.
pub fn rvu_v2_scores(
    graph: &Graph,
    entries: &[Seq],
    contaminated: &BTreeSet<Seq>,
    measured: &BTreeMap<Digest, f64>,
    config: &RiskConfig,
) -> Result<Vec<Score>, TooManyEntries> {
    if entries.len() > MAX_SCORED {
        return Err(TooManyEntries(entries.len()));
    }
    let mut walk = Walk::new(graph, WalkMode::RvuV2);
    let scores = entries.iter().map(|entry| {
        let Some(position) = graph.position(*entry) else { return Score::ZERO };
        let reached = walk.count(position, SHARE_DEPTH) as u64;
        config.published_score(&RiskTerms {
            contaminated: if contaminated.contains(entry) { Score::ONE } else { Score::ZERO },
            influence: AdapterInfluence::on(graph, *entry, measured),
            share: Score::share(reached, graph.unpurged()),
        })
    });
    Ok(scores.collect())
}
