//! A record as a node of the provenance graph.

use custody_kernel::adapter::Change;
use custody_kernel::record::{Answer, Record, Request};
use custody_planner::{AdapterEvent, GraphNode};

/// A record as a node: what it was made from, and under which weights or what it did to them.
pub fn node_of(record: &Record) -> GraphNode<'_> {
    let Record { request, answer, parents, weights, .. } = record;
    let plain = GraphNode { parents, weights, event: None, is_purged: false };
    let (Request::Adapt(adapt), Answer::Done) = (request, answer) else { return plain };
    let event = match &adapt.change {
        Change::Load { weights, .. } => Some(AdapterEvent::Load(*weights)),
        Change::Unload { .. } => None,
        // The base that it made comes first among what the host carries from then on.
        Change::Fuse { weights: fused } => {
            weights.first().map(|into| AdapterEvent::Fuse { weights: fused, into: *into })
        }
    };
    // No model produced it: it is about the model.
    GraphNode { weights: &[], event, ..plain }
}
