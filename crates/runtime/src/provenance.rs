//! The record as a graph, for closures: built row by row, each row checked against its leaf.

use std::sync::Arc;

use custody_kernel::adapter::Change;
use custody_kernel::record::{Answer, Record, RecordError, Request};
use custody_log::{Digest, Seq};
use custody_planner::{AdapterEvent, Graph, GraphBuilder, GraphNode};
use serde::Deserialize;

use crate::store::{Store, StoreError, Tampering};

/// So much of a record as the graph needs. The rest was read when the store was opened: a row that has the leaf hash
/// of then is the record of then.
#[derive(Deserialize)]
struct Edges {
    parents: Vec<Seq>,
    #[serde(default)]
    weights: Vec<Digest>,
}

impl Store {
    /// What was made from what, as far as the record goes. Linear in its edges; reads nothing from the disk.
    ///
    /// # Errors
    /// [`StoreError::Graph`] when the record is larger than a graph can be.
    pub fn graph(&self) -> Result<Graph, StoreError> {
        self.read(|_, ledger| ledger.graph())
    }

    /// The graph of the first `size` records, or of all if there are fewer: the record as it was then, before anything
    /// was purged. Row by row and each row checked, so that no record is held in memory.
    ///
    /// # Errors
    /// [`StoreError::Tampered`] when a row is missing or another, or as [`Store::graph`].
    pub fn graph_at(&self, size: u64) -> Result<Graph, StoreError> {
        let mut builder = GraphBuilder::default();
        self.scan(size, |seq, row| {
            let Edges { parents, weights } = serde_json::from_slice(row).map_err(|cause| {
                Tampering::Unreadable(seq.0, Arc::new(RecordError::Malformed(cause)))
            })?;
            if weights.is_empty() {
                return Ok(builder.push(GraphNode { parents: &parents, ..GraphNode::default() })?);
            }
            let record = Record::from_bytes(row)
                .map_err(|cause| Tampering::Unreadable(seq.0, Arc::new(cause)))?;
            Ok(builder.push(node_of(&record))?)
        })?;
        Ok(builder.finish()?)
    }
}

/// A record as a node: what it was made from, and under which weights or what it did to them.
pub(crate) fn node_of(record: &Record) -> GraphNode<'_> {
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

#[cfg(test)]
mod tests {
    use custody_kernel::label::Channel;
    use custody_kernel::memory::rate::Limits;
    use custody_planner::{Closure, WalkMode};

    use super::*;
    use crate::clock::Clock;
    use crate::ingress::Observation;
    use crate::scratch::Scratch;
    use crate::session::Session;

    /// A page is read and answered, twice; the positions of all four.
    fn conversation(scratch: &Scratch) -> Vec<Seq> {
        let session = Session::open(&scratch.store, &scratch.owner, None).unwrap();
        let observations = [
            Observation::message(Channel::Web, "a page"),
            Observation::completion("what the page says"),
            Observation::message(Channel::User, "go on"),
            Observation::completion("gone on"),
        ];
        let seq = |said| session.observe(said).wait().unwrap()[0].seq;
        observations.into_iter().map(seq).collect()
    }

    #[test]
    fn the_graph_has_the_edges_that_the_records_name() {
        let scratch = Scratch::new(Limits::UNLIMITED, Clock::manual(1)).unwrap();
        let said = conversation(&scratch);
        let records = scratch.store.records(0..u64::MAX).unwrap();
        let all = records.len() as u64;
        for graph in [scratch.store.graph().unwrap(), scratch.store.graph_at(all).unwrap()] {
            assert_eq!(graph.len(), all);
            for record in &records {
                assert_eq!(graph.parents(record.seq).collect::<Vec<_>>(), record.parents);
            }
            let closure = Closure::new(&graph, WalkMode::Causal, &said[..1]).unwrap();
            let reached: Vec<Seq> = closure.members().map(|member| member.entry).collect();
            assert_eq!(reached, [said[0], said[1], said[3]]);
        }
    }

    #[test]
    fn the_graph_of_then_knows_nothing_of_later() {
        let scratch = Scratch::new(Limits::UNLIMITED, Clock::manual(1)).unwrap();
        let said = conversation(&scratch);
        let then = scratch.store.graph_at(said[3].0).unwrap();
        assert_eq!(then.len(), said[3].0);
        let closure = Closure::new(&then, WalkMode::Causal, &said[..1]).unwrap();
        let reached: Vec<Seq> = closure.members().map(|member| member.entry).collect();
        assert_eq!(reached, said[..2]);
    }
}
