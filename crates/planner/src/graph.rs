//! The record as a graph: who was made from whom, and under which weights.
//!
//! Immutable once built. Entries are named by their position, edges stand in flat arrays in both directions, and
//! weights are nodes of their own, one per hash: what a load brings in reaches everything produced while it was
//! carried, whichever load that was. A million entries with three parents each take about 40 MB.

use std::collections::{BTreeMap, BTreeSet};

use custody_kernel::adapter::AdapterChange;
use custody_kernel::record::{AdminRequest, Answer, Record, Request, SessionRequest};
use custody_log::{Digest, Seq};

use crate::bits::Bits;
use crate::rows::{Full, Rows};

/// What an entry did to the weights of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdapterEvent<'a> {
    /// Loaded the adapter with these weights.
    Load(Digest),
    /// Made adapters part of the model. What comes out is a base that later entries of that host carry.
    Fuse {
        /// The adapters.
        weights: &'a [Digest],
        /// The base made of them: [`Carried::fuse`](custody_kernel::carried::Carried::fuse) names it.
        into: Digest,
    },
}

/// One entry as the graph sees it.
#[derive(Debug, Clone, Copy, Default)]
pub struct GraphNode<'a> {
    /// The entries it was made from.
    pub parents: &'a [Seq],
    /// The weights it was produced under: every active adapter, and the fused base if there is one. Empty for an
    /// entry that no model produced.
    pub weights: &'a [Digest],
    /// What it did to the weights of a model.
    pub event: Option<AdapterEvent<'a>>,
    /// Its content was purged and a tombstone is left. Its edges stay.
    pub is_purged: bool,
    /// It only stands for what a session had read. Walks pass through it, and it is never a member of a closure but as
    /// a seed.
    pub is_join: bool,
}

impl<'a> GraphNode<'a> {
    /// The node of an entry that was made from `parents` under `weights`. `change` is what it did to the weights of a
    /// model host, if that is what it is about.
    pub fn new(
        parents: &'a [Seq],
        weights: &'a [Digest],
        change: Option<&'a AdapterChange>,
    ) -> Self {
        let Some(change) = change else { return Self { parents, weights, ..Self::default() } };
        let event = match change {
            AdapterChange::Load { weights, .. } => Some(AdapterEvent::Load(*weights)),
            AdapterChange::Unload { .. } => None,
            // The base that it made comes first among what the host carries from then on.
            AdapterChange::Fuse { weights: fused } => {
                weights.first().map(|into| AdapterEvent::Fuse { weights: fused, into: *into })
            }
        };
        // No model produced it: it is about the model.
        Self { parents, event, ..Self::default() }
    }
}

impl<'a> From<&'a Record> for GraphNode<'a> {
    fn from(record: &'a Record) -> Self {
        let change = match (&record.request, &record.answer) {
            (Request::Admin(AdminRequest::Adapt(adapt)), Answer::Done) => Some(&adapt.change),
            _ => None,
        };
        let is_join = matches!(record.request, Request::Session(SessionRequest::JoinContext));
        Self { is_join, ..Self::new(&record.parents, &record.weights, change) }
    }
}

/// Why entries are not a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// A parent that is no entry (R14).
    #[error(
        "entry {child} names parent {parent}, which is not in the record; bring the whole record"
    )]
    MissingParent {
        /// The entry.
        child: Seq,
        /// What it names.
        parent: Seq,
    },
    /// More entries, edges or weights than 32 bits count.
    #[error("the record has more entries or edges than a graph can hold")]
    TooLarge,
}

impl From<Full> for GraphError {
    fn from(_: Full) -> Self {
        Self::TooLarge
    }
}

/// The entries of a record and their edges, both ways.
#[derive(Debug, Clone)]
pub struct Graph {
    parents: Rows,
    children: Rows,
    /// By number of the weights, which is the order in which they were first named.
    weights: Vec<Digest>,
    numbers: BTreeMap<Digest, u32>,
    /// The numbers of those that a fusion made.
    bases: BTreeSet<u32>,
    /// Under which weights an entry was produced, or which it handled.
    carries: Rows,
    /// The entries under each weights.
    under: Rows,
    /// Which weights an entry brought into a model.
    brings: Rows,
    /// The entries that brought each weights.
    brought_by: Rows,
    /// The entries that fused each weights.
    fused_by: Rows,
    purged: Vec<bool>,
    purged_count: u32,
    /// The positions of joins.
    joins: Bits,
    has_joins: bool,
}

impl Graph {
    /// The graph of `nodes`, in the order of the record.
    ///
    /// Parents precede their children in a record. One that does not is taken as it is: a claim about the order is
    /// no reason to look away from an edge.
    ///
    /// # Errors
    /// See [`GraphError`].
    pub fn new<'a>(nodes: impl IntoIterator<Item = GraphNode<'a>>) -> Result<Self, GraphError> {
        let mut builder = GraphBuilder::default();
        for node in nodes {
            builder.push(node)?;
        }
        builder.finish()
    }

    /// How many entries there are.
    pub fn len(&self) -> u64 {
        self.parents.len() as u64
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.parents.len() == 0
    }

    /// Whether only a tombstone is left of an entry.
    pub fn is_purged(&self, entry: Seq) -> bool {
        self.position(entry).is_some_and(|position| self.is_tombstone(position))
    }

    /// How many entries are no tombstones.
    pub fn unpurged(&self) -> u64 {
        self.len() - u64::from(self.purged_count)
    }

    /// The entries that `entry` was made from, ascending.
    pub fn parents(&self, entry: Seq) -> impl Iterator<Item = Seq> + '_ {
        self.row(&self.parents, entry).iter().map(|position| named(*position))
    }

    /// The weights that `entry` was produced under, or which it loaded or fused.
    pub fn weights(&self, entry: Seq) -> impl Iterator<Item = Digest> + '_ {
        self.row(&self.carries, entry).iter().filter_map(|number| self.digest(*number))
    }

    /// Whether `entry` loaded an adapter or fused one.
    pub fn is_adapter_event(&self, entry: Seq) -> bool {
        !self.row(&self.brings, entry).is_empty()
    }

    /// The weights that `entry` brought into a model: those it loaded, or the base that its fusion made.
    pub fn brings(&self, entry: Seq) -> impl Iterator<Item = Digest> + '_ {
        self.row(&self.brings, entry).iter().filter_map(|number| self.digest(*number))
    }

    /// Every load of `weights`, or every fusion that made this base. Ascending.
    pub fn loads(&self, weights: Digest) -> impl Iterator<Item = Seq> + '_ {
        self.of_weights(&self.brought_by, weights)
    }

    /// Every fusion that made `weights` part of a model. Ascending.
    pub fn fusions(&self, weights: Digest) -> impl Iterator<Item = Seq> + '_ {
        self.of_weights(&self.fused_by, weights)
    }

    /// Whether `weights` are a base that a fusion made, and no adapter.
    pub fn is_base(&self, weights: Digest) -> bool {
        self.numbers.get(&weights).is_some_and(|number| self.bases.contains(number))
    }

    /// Every entry that was produced under `weights`, or which loaded or fused them. Ascending.
    pub fn under(&self, weights: Digest) -> impl Iterator<Item = Seq> + '_ {
        self.of_weights(&self.under, weights)
    }

    fn of_weights<'a>(&'a self, rows: &'a Rows, weights: Digest) -> impl Iterator<Item = Seq> + 'a {
        let number = self.numbers.get(&weights);
        let row = number.map_or(&[][..], |number| rows.row(*number));
        row.iter().map(|position| named(*position))
    }

    fn row<'a>(&self, rows: &'a Rows, entry: Seq) -> &'a [u32] {
        self.position(entry).map_or(&[], |position| rows.row(position))
    }

    /// The position of an entry of this graph.
    pub(crate) fn position(&self, entry: Seq) -> Option<u32> {
        u32::try_from(entry.0).ok().filter(|position| (*position as usize) < self.parents.len())
    }

    pub(crate) const fn has_joins(&self) -> bool {
        self.has_joins
    }

    /// Whether it only stands for what a session had read.
    pub(crate) fn is_join(&self, position: u32) -> bool {
        self.joins.contains(position)
    }

    pub(crate) fn is_tombstone(&self, position: u32) -> bool {
        self.purged.get(position as usize).copied().unwrap_or(false)
    }

    pub(crate) fn parents_of(&self, position: u32) -> &[u32] {
        self.parents.row(position)
    }

    pub(crate) fn children_of(&self, position: u32) -> &[u32] {
        self.children.row(position)
    }

    /// Numbers of weights.
    pub(crate) fn carried_by(&self, position: u32) -> &[u32] {
        self.carries.row(position)
    }

    /// Numbers of weights.
    pub(crate) fn brought_in_by(&self, position: u32) -> &[u32] {
        self.brings.row(position)
    }

    pub(crate) fn entries_under(&self, number: u32) -> &[u32] {
        self.under.row(number)
    }

    pub(crate) fn entries_that_brought(&self, number: u32) -> &[u32] {
        self.brought_by.row(number)
    }

    pub(crate) fn position_count(&self) -> usize {
        self.parents.len()
    }

    pub(crate) fn weights_count(&self) -> usize {
        self.weights.len()
    }

    pub(crate) fn digest(&self, number: u32) -> Option<Digest> {
        self.weights.get(number as usize).copied()
    }
}

/// The name of the entry at a position.
pub(crate) fn named(position: u32) -> Seq {
    Seq(u64::from(position))
}

/// A graph that is being built, entry by entry, so that a record can be read row by row.
#[derive(Debug, Clone)]
pub struct GraphBuilder {
    parents: Rows,
    carries: Rows,
    brings: Rows,
    fuses: Rows,
    weights: Vec<Digest>,
    numbers: BTreeMap<Digest, u32>,
    bases: BTreeSet<u32>,
    purged: Vec<bool>,
    joins: Vec<u32>,
    row: Vec<u32>,
}

impl Default for GraphBuilder {
    fn default() -> Self {
        Self {
            parents: Rows::new(),
            carries: Rows::new(),
            brings: Rows::new(),
            fuses: Rows::new(),
            weights: Vec::new(),
            numbers: BTreeMap::new(),
            bases: BTreeSet::new(),
            purged: Vec::new(),
            joins: Vec::new(),
            row: Vec::new(),
        }
    }
}

impl GraphBuilder {
    /// Appends the next entry. Linear in its edges.
    ///
    /// # Errors
    /// See [`GraphError`]; a parent beyond the last entry shows in [`finish`](Self::finish) at the latest.
    pub fn push(&mut self, node: GraphNode<'_>) -> Result<(), GraphError> {
        let child = Seq(self.parents.len() as u64);
        self.row.clear();
        for parent in node.parents {
            let position = u32::try_from(parent.0)
                .map_err(|_| GraphError::MissingParent { child, parent: *parent })?;
            self.row.push(position);
        }
        Self::end_row(&mut self.row, &mut self.parents)?;
        let (loaded, fused, made) = match node.event {
            None => (None, &[][..], None),
            Some(AdapterEvent::Load(weights)) => (Some(weights), &[][..], None),
            Some(AdapterEvent::Fuse { weights, into }) => (None, weights, Some(into)),
        };
        for weights in node.weights.iter().chain(&loaded).chain(fused) {
            let number = self.number(*weights)?;
            self.row.push(number);
        }
        Self::end_row(&mut self.row, &mut self.carries)?;
        for weights in loaded.iter().chain(&made) {
            let number = self.number(*weights)?;
            self.row.push(number);
            self.bases.extend(made.map(|_| number));
        }
        Self::end_row(&mut self.row, &mut self.brings)?;
        for weights in fused {
            let number = self.number(*weights)?;
            self.row.push(number);
        }
        Self::end_row(&mut self.row, &mut self.fuses)?;
        if node.is_join {
            self.joins.push(u32::try_from(child.0).map_err(|_| GraphError::TooLarge)?);
        }
        self.purged.push(node.is_purged);
        Ok(())
    }

    /// Notes that the content of an entry was purged since it was appended.
    pub fn purge(&mut self, entry: Seq) {
        let at = usize::try_from(entry.0).ok();
        if let Some(is_purged) = at.and_then(|at| self.purged.get_mut(at)) {
            *is_purged = true;
        }
    }

    /// Turns the edges round as well.
    ///
    /// # Errors
    /// See [`GraphError`].
    pub fn finish(self) -> Result<Graph, GraphError> {
        let Self {
            parents,
            carries,
            brings,
            fuses,
            weights,
            numbers,
            bases,
            purged,
            joins,
            row: _,
        } = self;
        let entries = parents.len();
        // Weights are numbered on from the entries where both are nodes of one walk; the last number means none.
        let nodes = u32::try_from(entries + weights.len()).map_err(|_| GraphError::TooLarge)?;
        if nodes == u32::MAX {
            return Err(GraphError::TooLarge);
        }
        for child in 0..nodes {
            // Rows are ascending, so the last parent is the one that can be missing.
            if let Some(parent) = parents.row(child).last().filter(|at| **at as usize >= entries) {
                let (child, parent) = (named(child), named(*parent));
                return Err(GraphError::MissingParent { child, parent });
            }
        }
        let purged_count = purged.iter().filter(|is_purged| **is_purged).count();
        let has_joins = !joins.is_empty();
        let mut join_bits = Bits::new(if has_joins { entries } else { 0 });
        for join in joins {
            join_bits.insert(join);
        }
        Ok(Graph {
            children: parents.turned(entries),
            under: carries.turned(weights.len()),
            brought_by: brings.turned(weights.len()),
            fused_by: fuses.turned(weights.len()),
            purged_count: u32::try_from(purged_count).map_err(|_| GraphError::TooLarge)?,
            parents,
            weights,
            numbers,
            bases,
            carries,
            brings,
            purged,
            joins: join_bits,
            has_joins,
        })
    }

    fn number(&mut self, weights: Digest) -> Result<u32, GraphError> {
        let next = u32::try_from(self.weights.len()).map_err(|_| GraphError::TooLarge)?;
        let number = *self.numbers.entry(weights).or_insert(next);
        if number == next {
            self.weights.push(weights);
        }
        Ok(number)
    }

    /// A row is ascending and names nothing twice.
    fn end_row(row: &mut Vec<u32>, rows: &mut Rows) -> Result<(), GraphError> {
        row.sort_unstable();
        row.dedup();
        rows.push(row)?;
        row.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (R14)
    #[test]
    fn an_entry_has_as_many_parents_as_it_names_and_each_must_exist() {
        let first = GraphNode::default();
        let second = GraphNode { parents: &[Seq(0)], ..GraphNode::default() };
        let both = GraphNode { parents: &[Seq(1), Seq(0), Seq(1)], ..GraphNode::default() };
        let graph = Graph::new([first, second, both]).unwrap();
        assert_eq!(graph.parents(Seq(2)).collect::<Vec<_>>(), [Seq(0), Seq(1)]);
        for missing in [Seq(3), Seq(u64::from(u32::MAX)), Seq(u64::MAX)] {
            let parents = [Seq(0), missing];
            let lost = GraphNode { parents: &parents, ..GraphNode::default() };
            let error = Graph::new([first, second, lost]).unwrap_err();
            assert_eq!(error, GraphError::MissingParent { child: Seq(2), parent: missing });
        }
    }

    /// (R10, R11)
    #[test]
    fn weights_are_one_node_whatever_entry_names_them() {
        let (a, b) = (Digest([1; 32]), Digest([2; 32]));
        let load = |weights| GraphNode {
            event: Some(AdapterEvent::Load(weights)),
            ..GraphNode::default()
        };
        let made = GraphNode { weights: &[b, a], ..GraphNode::default() };
        let graph = Graph::new([load(a), load(b), made, load(a)]).unwrap();
        assert_eq!(graph.weights_count(), 2);
        assert_eq!(graph.loads(a).collect::<Vec<_>>(), [Seq(0), Seq(3)]);
        assert_eq!(graph.under(b).collect::<Vec<_>>(), [Seq(1), Seq(2)]);
        assert_eq!(graph.weights(Seq(2)).collect::<Vec<_>>(), [a, b]);
        assert!(graph.is_adapter_event(Seq(0)) && !graph.is_adapter_event(Seq(2)));
    }
}
