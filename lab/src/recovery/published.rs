//! The papers' own examples, in the papers' modes: closure sizes and scores.
//!
//! Source: RVU §5.2 and §5.3; docs/papers.md §3.4.

use std::collections::{BTreeMap, BTreeSet};

use custody_log::{Digest, Seq};
use custody_planner::{
    AdapterEvent, Closure, Graph, GraphNode, RiskConfig, WalkMode, rvu_v2_scores,
};

use crate::error::EvalError;
use crate::report::Figure;

const BAD: Digest = Digest([0xBA; 32]);
const GOOD: Digest = Digest([0x60; 32]);

/// The figures of both examples.
pub(super) fn figures() -> Result<Vec<Figure>, EvalError> {
    let mut figures = closure()?;
    figures.extend(scores()?);
    Ok(figures)
}

/// E2: a chain of entries under each of two adapters, and an orphan. One under the bad adapter is contaminated.
fn closure() -> Result<Vec<Figure>, EvalError> {
    let graph = Graph::new([
        load(GOOD),
        under(&[GOOD], &[]),
        under(&[GOOD], &[Seq(1)]),
        under(&[GOOD], &[Seq(2)]),
        load(BAD),
        under(&[BAD], &[]),
        under(&[BAD], &[Seq(5)]),
        under(&[BAD], &[Seq(6)]),
        GraphNode::default(),
    ]);
    let graph = graph.map_err(setup)?;
    let [v1, v2, causal] = [WalkMode::RvuV1, WalkMode::RvuV2, WalkMode::Causal]
        .map(|mode| Closure::new(&graph, mode, &[Seq(5)]).map(|closure| closure.len() as u64));
    Ok(vec![
        Figure::count("closure.rvu_v1.size", v1.map_err(setup)?, "entries").published(3.0, E2),
        Figure::count("closure.rvu_v2.size", v2.map_err(setup)?, "entries").published(4.0, E2),
        Figure::count("closure.causal.size", causal.map_err(setup)?, "entries"),
    ])
}

/// The loading of an adapter.
fn load(weights: Digest) -> GraphNode<'static> {
    GraphNode { event: Some(AdapterEvent::Load(weights)), ..GraphNode::default() }
}

/// An entry that was made under an adapter.
fn under(weights: &'static [Digest], parents: &'static [Seq]) -> GraphNode<'static> {
    GraphNode { parents, weights, ..GraphNode::default() }
}

/// E3: four entries without an adapter, three under a bad one.
fn scores() -> Result<Vec<Figure>, EvalError> {
    let child = GraphNode { parents: &[Seq(2)], ..GraphNode::default() };
    let plain = GraphNode::default();
    let [first, second, third] =
        [under(&[BAD], &[]), under(&[BAD], &[Seq(5)]), under(&[BAD], &[Seq(5)])];
    let nodes = [plain, plain, plain, child, load(BAD), first, second, third];
    let graph = Graph::new(nodes).map_err(setup)?;
    let rows = [Seq(0), Seq(1), Seq(2), Seq(5)];
    let tainted: BTreeSet<Seq> = [1, 2, 3, 5, 6, 7].map(Seq).into();
    let config = RiskConfig::default();
    let scores =
        rvu_v2_scores(&graph, &rows, &tainted, &BTreeMap::new(), &config).map_err(setup)?;
    let published = [("clean", 0.0375), ("mild", 0.4375), ("moderate", 0.475), ("high", 0.55)];
    Ok(scores
        .into_iter()
        .zip(published)
        .map(|(score, (name, published)): (custody_kernel::score::Score, (&str, f64))| {
            Figure::real(&format!("risk.rvu_v2.{name}"), score.value(), "score")
                .published(published, E3)
        })
        .collect())
}

pub(super) fn setup(cause: impl std::fmt::Display) -> EvalError {
    EvalError::Setup(cause.to_string())
}

const E2: &str = "RVU §5.2, Table 2";
const E3: &str = "RVU §5.3, Table 3";
