//! The record as a graph, for closures: built row by row, each row checked against its leaf.
//!
//! No record loads an adapter yet, so no entry is under any weights.

use std::sync::Arc;

use custody_kernel::id::Seq;
use custody_kernel::provenance::graph::{Graph, GraphBuilder, Node};
use custody_kernel::record::RecordError;
use serde::Deserialize;

use crate::store::{Store, StoreError, Tampering};

/// So much of a record as the graph needs. The rest was read when the store was opened: a row that has the leaf hash
/// of then is the record of then.
#[derive(Deserialize)]
struct Edges {
    parents: Vec<Seq>,
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
            let Edges { parents } = serde_json::from_slice(row).map_err(|cause| {
                Tampering::Unreadable(seq.0, Arc::new(RecordError::Malformed(cause)))
            })?;
            Ok(builder.push(node(&parents))?)
        })?;
        Ok(builder.finish()?)
    }
}

const fn node(parents: &[Seq]) -> Node<'_> {
    Node { parents, weights: &[], event: None, is_purged: false }
}

#[cfg(test)]
mod tests {
    use custody_kernel::label::Channel;
    use custody_kernel::memory::rate::Limits;
    use custody_kernel::provenance::closure::{Closure, Mode};

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
            let closure = Closure::new(&graph, Mode::Causal, &said[..1]).unwrap();
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
        let closure = Closure::new(&then, Mode::Causal, &said[..1]).unwrap();
        let reached: Vec<Seq> = closure.members().map(|member| member.entry).collect();
        assert_eq!(reached, said[..2]);
    }
}
