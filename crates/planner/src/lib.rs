//! The entries that a contaminated entry reached, and the plan of recovery from it.
//!
//! The provenance [`Graph`] of a record holds which entry derives from which. The [`Closure`] of the entries with
//! evidence is everything they reached. Its members that only repeat trusted text are [spared](Sparing); the others
//! get a [risk](RiskConfig) score, a floor by their evidence, and an action. [`plan_recovery`] puts it all into a
//! [`Plan`] that a person reads before anything is changed. Nothing here changes a store.
//!
//! ```
//! use custody_log::Seq;
//! use custody_planner::{Closure, Graph, GraphNode, WalkMode};
//!
//! // #0 a web page, #1 a completion that read it, #2 a message of the user, #3 a memory write after both.
//! let parents: [&[Seq]; 4] = [&[], &[Seq(0)], &[], &[Seq(1), Seq(2)]];
//! let nodes = parents.map(|parents| GraphNode { parents, ..GraphNode::default() });
//! let graph = Graph::new(nodes)?;
//!
//! let reached = Closure::new(&graph, WalkMode::Causal, &[Seq(0)])?;
//! let members: Vec<Seq> = reached.members().map(|member| member.entry).collect();
//! assert_eq!(members, [Seq(0), Seq(1), Seq(3)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In reading order: `graph` and `closure`; `incident` (the evidence with its closure), `spare`, `share` (how much an
//! entry reached), `risk`, `grade` (the action for an entry), `facts`, `plan` and `recovery`. `rvu` scores as the
//! paper's own program does. `rows` and `bits` hold edges and sets in flat arrays.
//!
//! Source: RVU §3.3 and §3.4; docs/design.md §6.

mod bits;
mod closure;
mod facts;
mod grade;
mod graph;
mod incident;
mod plan;
mod recovery;
mod risk;
mod rows;
mod rvu;
mod sentences;
mod share;
mod spare;

pub use closure::{Closure, ClosureError, ClosureMember, RVU_DEPTH, Reached, Truncated, WalkMode};
pub use facts::{
    FoundEntry, ItemChange, ItemHistory, OutsideEffect, PlanBasis, PlanFacts, RepeatedText,
    WaitingProposal,
};
pub use grade::{ActionReason, grade};
pub use graph::{AdapterEvent, Graph, GraphBuilder, GraphError, GraphNode};
pub use incident::IncidentClosure;
pub use plan::{
    AdapterAction, MAX_REPEATED, PLAN_FORMAT, Plan, PlanCounts, PlannedEntry, PlannedWeights,
    Rollback, RollbackTarget, SparedEntry,
};
pub use recovery::{PlanError, plan_recovery};
pub use risk::{
    AdapterInfluence, RecoveryAction, RiskConfig, RiskConfigError, RiskSettings, RiskTerms,
};
pub use rvu::{MAX_SCORED, TooManyEntries, rvu_v2_scores};
pub use share::{
    Counting, EXACT_UP_TO, RELATIVE_ERROR, ReachCounts, SKETCHED, TooManyMembers, count_reached,
};
pub use spare::{EntryEffect, MIN_ALONE, NotSpared, SparedEntries, SparedReason, Sparing};
