//! The record as a graph, for closures: built row by row, each row checked against its leaf.

use std::sync::Arc;

use custody_kernel::record::{Record, RecordError};
use custody_log::{Digest, Seq};
use custody_planner::{Graph, GraphBuilder, GraphError, GraphNode};
use custody_runtime::store::{EntryEdges, Tampering, View};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::IncidentError;
use crate::store::Incidents;

/// The provenance graph of the record of `view`. Linear in its edges; reads nothing from the disk.
///
/// # Errors
/// When the record is larger than a graph can be.
pub fn graph_of(view: View<'_>) -> Result<Graph, GraphError> {
    let mut builder = GraphBuilder::default();
    for (seq, entry) in (0..).map(Seq).zip(view.edges().iter()) {
        let EntryEdges { parents, weights, change } = entry;
        let is_join = view.state().is_join(seq);
        builder.push(GraphNode { is_join, ..GraphNode::new(parents, weights, change) })?;
    }
    for entry in view.edges().purged() {
        builder.purge(*entry);
    }
    builder.finish()
}

/// The request of an entry that stands for a context, as a record holds it.
const JOIN: &str = "\"join_context\"";

/// The fields of a record that the graph needs. The other fields were read when the store was opened; a row with the
/// same leaf hash is the same record.
#[derive(Deserialize)]
struct Edges<'a> {
    #[serde(borrow)]
    request: &'a RawValue,
    parents: Vec<Seq>,
    #[serde(default)]
    weights: Vec<Digest>,
}

impl Incidents<'_> {
    /// The provenance graph of the current record.
    ///
    /// # Errors
    /// When the store cannot be read, or as [`graph_of`].
    pub fn graph(&self) -> Result<Graph, IncidentError> {
        self.store.look(|view| Ok(graph_of(view)?))
    }

    /// The graph of the first `size` records, or of all if there are fewer: the record before any later purge. Rows
    /// are read and checked one by one, so no record is kept in memory.
    ///
    /// # Errors
    /// [`IncidentError::Store`] when a row is missing or changed, or as [`graph_of`].
    pub fn graph_at(&self, size: u64) -> Result<Graph, IncidentError> {
        let mut builder = GraphBuilder::default();
        self.store.scan(size, |seq, row| {
            let Edges { request, parents, weights } =
                serde_json::from_slice(row).map_err(|cause| {
                    Tampering::Unreadable(seq.0, Arc::new(RecordError::Malformed(cause)))
                })?;
            if weights.is_empty() {
                let is_join = request.get() == JOIN;
                builder.push(GraphNode { parents: &parents, is_join, ..GraphNode::default() })?;
                return Ok(());
            }
            let record = Record::from_bytes(row)
                .map_err(|cause| Tampering::Unreadable(seq.0, Arc::new(cause)))?;
            Ok::<_, IncidentError>(builder.push(GraphNode::from(&record))?)
        })?;
        Ok(builder.finish()?)
    }
}

#[cfg(test)]
mod tests {
    use custody_kernel::label::Channel;
    use custody_kernel::memory::rate::Limits;
    use custody_planner::{Closure, WalkMode};
    use custody_runtime::clock::Clock;
    use custody_runtime::ingress::Observation;
    use custody_runtime::scratch::Scratch;
    use custody_runtime::session::Session;

    use super::*;

    /// A page is read and answered, twice. Returns the positions of all four.
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
        let incidents = Incidents::of(&scratch.store);
        for graph in [incidents.graph().unwrap(), incidents.graph_at(all).unwrap()] {
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
        let then = Incidents::of(&scratch.store).graph_at(said[3].0).unwrap();
        assert_eq!(then.len(), said[3].0);
        let closure = Closure::new(&then, WalkMode::Causal, &said[..1]).unwrap();
        let reached: Vec<Seq> = closure.members().map(|member| member.entry).collect();
        assert_eq!(reached, said[..2]);
    }
}
