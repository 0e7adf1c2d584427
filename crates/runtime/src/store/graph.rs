//! The provenance graph of the record, one record at a time.

use custody_kernel::adapter::AdapterChange;
use custody_kernel::record::{AdminRequest, Answer, Record, Request};
use custody_kernel::step::RecoveryStep;
use custody_planner::{AdapterEvent, GraphBuilder, GraphError, GraphNode};

/// A record as a node: what it was made from, and under which weights or what it did to them.
pub fn node_of(record: &Record) -> GraphNode<'_> {
    let Record { request, answer, parents, weights, .. } = record;
    let plain = GraphNode { parents, weights, event: None, is_purged: false };
    let (Request::Admin(AdminRequest::Adapt(adapt)), Answer::Done) = (request, answer) else {
        return plain;
    };
    let event = match &adapt.change {
        AdapterChange::Load { weights, .. } => Some(AdapterEvent::Load(*weights)),
        AdapterChange::Unload { .. } => None,
        // The base that it made comes first among what the host carries from then on.
        AdapterChange::Fuse { weights: fused } => {
            weights.first().map(|into| AdapterEvent::Fuse { weights: fused, into: *into })
        }
    };
    // No model produced it: it is about the model.
    GraphNode { weights: &[], event, ..plain }
}

/// Adds a record to a graph, and marks what it purged.
pub(super) fn extend(graph: &mut GraphBuilder, record: &Record) -> Result<(), GraphError> {
    graph.push(node_of(record))?;
    if let (Request::Admin(AdminRequest::Recover(recover)), Answer::Done) =
        (&record.request, &record.answer)
        && let RecoveryStep::Apply(applied) = &recover.step
    {
        applied.purged.iter().for_each(|entry| graph.purge(*entry));
    }
    Ok(())
}
