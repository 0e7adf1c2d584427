//! The record as a graph, for closures: built row by row, each row checked against its leaf.
//!
//! No record loads an adapter yet, so no entry is under any weights.

use std::sync::Arc;

use custody_kernel::id::Seq;
use custody_kernel::provenance::graph::{Graph, GraphBuilder, Node};
use custody_kernel::record::{Record, RecordError};
use serde::Deserialize;

use crate::store::{Store, StoreError, Tampering};

/// So much of a record as the graph needs. The rest was read when the store was opened: a row that has the leaf hash
/// of then is the record of then.
#[derive(Deserialize)]
struct Edges {
    parents: Vec<Seq>,
}

/// The graph of `records`, from the first on. `is_purged` tells the entries of which only a tombstone is left.
///
/// # Errors
/// [`StoreError::Graph`] when a parent is not among them, or when there are more than a graph can hold.
pub fn graph_of<'a>(
    records: impl IntoIterator<Item = &'a Record>,
    is_purged: impl Fn(Seq) -> bool,
) -> Result<Graph, StoreError> {
    let mut builder = GraphBuilder::default();
    for record in records {
        builder.push(node(&record.parents, is_purged(record.seq)))?;
    }
    Ok(builder.finish()?)
}

impl Store {
    /// The graph of the whole record. Linear in its entries and edges; holds no record in memory.
    ///
    /// # Errors
    /// As [`Store::graph_at`].
    pub fn graph(&self, is_purged: impl Fn(Seq) -> bool) -> Result<Graph, StoreError> {
        self.graph_at(u64::MAX, is_purged)
    }

    /// The graph of the first `size` records, or of all if there are fewer: the record as it was then.
    ///
    /// # Errors
    /// [`StoreError::Tampered`] when a row is missing or another, [`StoreError::Graph`] as [`graph_of`].
    pub fn graph_at(
        &self,
        size: u64,
        is_purged: impl Fn(Seq) -> bool,
    ) -> Result<Graph, StoreError> {
        let mut builder = GraphBuilder::default();
        self.scan(size, |seq, row| {
            let Edges { parents } = serde_json::from_slice(row).map_err(|cause| {
                Tampering::Unreadable(seq.0, Arc::new(RecordError::Malformed(cause)))
            })?;
            Ok(builder.push(node(&parents, is_purged(seq)))?)
        })?;
        Ok(builder.finish()?)
    }
}

const fn node(parents: &[Seq], is_purged: bool) -> Node<'_> {
    Node { parents, weights: &[], event: None, is_purged }
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
        let purged = said[1];
        let graphs = [
            scratch.store.graph(|seq| seq == purged).unwrap(),
            graph_of(&records, |seq| seq == purged).unwrap(),
        ];
        for graph in graphs {
            assert_eq!(graph.len(), records.len() as u64);
            for record in &records {
                assert_eq!(graph.parents(record.seq).collect::<Vec<_>>(), record.parents);
                assert_eq!(graph.is_purged(record.seq), record.seq == purged);
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
        let then = scratch.store.graph_at(said[3].0, |_| false).unwrap();
        assert_eq!(then.len(), said[3].0);
        let closure = Closure::new(&then, Mode::Causal, &said[..1]).unwrap();
        let reached: Vec<Seq> = closure.members().map(|member| member.entry).collect();
        assert_eq!(reached, said[..2]);
        assert!(graph_of(&scratch.store.records(4..9).unwrap(), |_| false).is_err());
    }
}
