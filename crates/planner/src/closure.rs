//! The closure: everything that contaminated entries reached.
//!
//! One breadth-first walk, without recursion, over the edges that the [`WalkMode`] follows. It does not change the
//! graph (R9). Time and memory are linear in the graph.

use custody_log::{Digest, Seq};
use serde::{Deserialize, Serialize};

use crate::bits::{Bits, Places};
use crate::graph::{Graph, named};

/// The depth of the published walk, in hops.
pub const RVU_DEPTH: u32 = 10;

/// The edges that a walk follows, and its depth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WalkMode {
    /// Forward only and without a limit: from an entry to its children, and from a load or fusion to everything
    /// produced under those weights, purged entries included.
    #[default]
    Causal,
    /// The published walk, first version: parents and unpurged children, ten hops.
    RvuV1,
    /// The published walk, second version: also from an entry to all unpurged entries under the same weights.
    RvuV2,
}

/// A closure that cannot be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClosureError {
    /// A seed that is not an entry.
    #[error("{0} is not in the record; look it up with `custody ledger`")]
    UnknownSeed(Seq),
}

/// The edge over which an entry was reached first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reached {
    /// It is a seed.
    Seed,
    /// From this entry.
    Entry(Seq),
    /// Over these weights: it was produced under them, or loads, unloads or fuses them.
    Weights(Digest),
}

/// One entry of a closure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosureMember {
    /// The entry.
    pub entry: Seq,
    /// Hops from the nearest seed; 0 for a seed.
    pub depth: u32,
    /// The edge over which it was reached first.
    pub reached: Reached,
}

/// A walk that stopped at its depth limit with entries still ahead (R6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncated {
    /// The limit, in hops.
    pub depth: u32,
    /// The number of entries that one more hop would have added.
    pub frontier: u64,
}

/// The entries and weights that a set of seeds reached.
#[derive(Debug, Clone)]
pub struct Closure<'g> {
    graph: &'g Graph,
    mode: WalkMode,
    seeds: Vec<Seq>,
    /// Positions, ascending.
    members: Vec<u32>,
    /// The place of each member among them.
    places: Places,
    /// How each member was reached, in the same order.
    hops: Vec<Hop>,
    /// Ascending.
    weights: Vec<ReachedWeights>,
    possible_origins: Vec<u32>,
    /// The positions of the joins that were passed, ascending.
    joins: Vec<u32>,
    truncated: Option<Truncated>,
}

impl<'g> Closure<'g> {
    /// The closure of `seeds` in `graph`.
    ///
    /// # Errors
    /// When a seed is not an entry of the graph.
    ///
    /// Source: RVU §3.3; docs/design.md §6.3.
    pub fn new(graph: &'g Graph, mode: WalkMode, seeds: &[Seq]) -> Result<Self, ClosureError> {
        let mut seeds = seeds.to_vec();
        seeds.sort_unstable();
        seeds.dedup();
        let positions = seeds
            .iter()
            .map(|seed| graph.position(*seed).ok_or(ClosureError::UnknownSeed(*seed)))
            .collect::<Result<Vec<u32>, _>>()?;
        let limit = match mode {
            WalkMode::Causal => None,
            WalkMode::RvuV1 | WalkMode::RvuV2 => Some(RVU_DEPTH),
        };
        let mut walk = Walk::new(graph, mode);
        // One hop beyond the limit, to count the entries that the limit leaves out.
        walk.go(&positions, limit.map(|limit| limit + 1));
        let beyond = limit.map(|limit| (limit, walk.cut_beyond(limit)));
        let truncated = beyond
            .filter(|(_, frontier)| *frontier > 0)
            .map(|(depth, frontier)| Truncated { depth, frontier });
        let Walk { seen, reached, mut weights, joins, .. } = walk;
        let places = seen.places();
        let mut hops = vec![Hop { depth: 0, from: 0 }; reached.len()];
        for (position, hop) in reached {
            let place = places.of(position).and_then(|place| hops.get_mut(place as usize));
            if let Some(place) = place {
                *place = hop;
            }
        }
        weights.sort_unstable();
        let members = places.ascending().collect();
        let mut this = Self {
            graph,
            mode,
            seeds,
            members,
            places,
            hops,
            weights,
            possible_origins: Vec::new(),
            joins: joins.forward.ascending().collect(),
            truncated,
        };
        this.possible_origins = this.ancestors(&positions);
        Ok(this)
    }

    /// The graph of the closure.
    pub const fn graph(&self) -> &'g Graph {
        self.graph
    }

    /// The edges that were followed.
    pub const fn mode(&self) -> WalkMode {
        self.mode
    }

    /// The seeds, ascending.
    pub fn seeds(&self) -> &[Seq] {
        &self.seeds
    }

    /// The number of members, seeds included.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether it has no members, which is the case only without seeds.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether `entry` is a member.
    pub fn contains(&self, entry: Seq) -> bool {
        self.hop(entry).is_some()
    }

    /// The members, ascending.
    pub fn members(&self) -> impl ExactSizeIterator<Item = ClosureMember> + '_ {
        self.members.iter().zip(&self.hops).map(|(position, hop)| self.described(*position, *hop))
    }

    /// The member `entry`.
    pub fn member(&self, entry: Seq) -> Option<ClosureMember> {
        let (position, hop) = self.hop(entry)?;
        Some(self.described(position, hop))
    }

    /// A shortest path from a seed to `entry`. Empty if it is not a member.
    ///
    /// Weights stand between the entry that brought them and the one produced under them.
    pub fn path(&self, entry: Seq) -> Vec<Reached> {
        let mut path = Vec::new();
        let mut next = self.member(entry);
        while let Some(member) = next {
            path.push(Reached::Entry(member.entry));
            next = match member.reached {
                Reached::Seed => None,
                Reached::Entry(before) => self.member(before),
                Reached::Weights(weights) => {
                    path.push(Reached::Weights(weights));
                    self.bringer(member.entry)
                }
            };
        }
        path.reverse();
        path
    }

    /// The weights that were reached: those that a member loaded, or fused into a base. In the published modes, those
    /// under which a member was produced.
    pub fn weights(&self) -> impl Iterator<Item = Digest> + '_ {
        self.weights.iter().filter_map(|reached| self.graph.digest(reached.number))
    }

    /// The ancestors of the seeds that are not members, ascending: the contamination may derive from them. They are
    /// never purged for it (R7).
    pub fn possible_origins(&self) -> impl ExactSizeIterator<Item = Seq> + '_ {
        self.possible_origins.iter().map(|position| named(*position))
    }

    /// What a depth limit left out, if anything. [`WalkMode::Causal`] has no limit.
    pub const fn truncated(&self) -> Option<Truncated> {
        self.truncated
    }

    /// The earliest seed that reaches each member, in the order of the members.
    pub(crate) fn earliest_seeds(&self) -> Vec<Seq> {
        let mut walk = Walk::new(self.graph, self.mode);
        let mut earliest = vec![Seq(0); self.len()];
        // Seeds ascend, so the first seed that reaches a member is the earliest.
        for seed in &self.seeds {
            let known = walk.reached.len();
            walk.go(self.graph.position(*seed).as_slice(), None);
            for (position, _) in walk.reached.get(known..).unwrap_or_default() {
                let place = self.places.of(*position).map(|place| place as usize);
                if let Some(found) = place.and_then(|place| earliest.get_mut(place)) {
                    *found = *seed;
                }
            }
        }
        earliest
    }

    /// The index of `entry` among the members.
    pub(crate) fn place(&self, entry: Seq) -> Option<usize> {
        let place = self.places.of(self.graph.position(entry)?)?;
        Some(place as usize)
    }

    /// Positions of the members, ascending.
    pub(crate) fn positions(&self) -> &[u32] {
        &self.members
    }

    /// Positions of the joins that were passed, ascending.
    pub(crate) fn joins(&self) -> &[u32] {
        &self.joins
    }

    /// Numbers of the weights reached, ascending.
    pub(crate) fn weight_numbers(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.weights.iter().map(|reached| reached.number)
    }

    fn hop(&self, entry: Seq) -> Option<(u32, Hop)> {
        let position = self.graph.position(entry)?;
        let place = self.places.of(position)?;
        Some((position, *self.hops.get(place as usize)?))
    }

    fn described(&self, position: u32, hop: Hop) -> ClosureMember {
        let reached = match self.weights_in(hop.from) {
            Some(number) => self.graph.digest(number).map_or(Reached::Seed, Reached::Weights),
            None if hop.from == position => Reached::Seed,
            None => Reached::Entry(named(hop.from)),
        };
        ClosureMember { entry: named(position), depth: hop.depth, reached }
    }

    /// The number of the weights that a `from` stands for, if it is not the position of an entry.
    fn weights_in(&self, from: u32) -> Option<u32> {
        u64::from(from).checked_sub(self.graph.len()).and_then(|number| u32::try_from(number).ok())
    }

    /// The member that brought the weights by which `entry` was reached.
    fn bringer(&self, entry: Seq) -> Option<ClosureMember> {
        let (_, hop) = self.hop(entry)?;
        let number = self.weights_in(hop.from)?;
        let at = self.weights.binary_search_by_key(&number, |reached| reached.number).ok()?;
        self.member(named(self.weights.get(at)?.by))
    }

    /// The ancestors of `seeds` that are not members: over parents, and from an entry to the loads and fusions
    /// that brought the weights it was produced under.
    fn ancestors(&self, seeds: &[u32]) -> Vec<u32> {
        let mut seen = Bits::new(self.graph.position_count());
        let mut weights_seen = Bits::new(self.graph.weights_count());
        let mut ahead: Vec<u32> = seeds.iter().copied().filter(|seed| seen.insert(*seed)).collect();
        while let Some(position) = ahead.pop() {
            let parents = self.graph.parents_of(position).iter();
            ahead.extend(parents.filter(|parent| seen.insert(**parent)));
            for number in self.graph.carried_by(position) {
                if weights_seen.insert(*number) {
                    let bringers = self.graph.entries_that_brought(*number).iter();
                    ahead.extend(bringers.filter(|bringer| seen.insert(**bringer)));
                }
            }
        }
        let origins = seen.ascending().filter(|position| !self.graph.is_join(*position));
        origins.filter(|position| self.places.of(*position).is_none()).collect()
    }
}

/// How an entry was reached first.
#[derive(Debug, Clone, Copy)]
struct Hop {
    depth: u32,
    /// The position of the entry before, or the number of weights after the last position; its own for a seed.
    from: u32,
}

/// Weights that a walk came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ReachedWeights {
    number: u32,
    /// The position of the entry that reached them first.
    by: u32,
    /// The depth of what they lead to.
    depth: u32,
}

/// One walk over a graph, with what it has seen. Can be used again for another: clearing it costs what it reached.
#[derive(Debug)]
pub(crate) struct Walk<'g> {
    graph: &'g Graph,
    mode: WalkMode,
    seen: Bits,
    weights_seen: Bits,
    /// Positions, in the order they were reached.
    reached: Vec<(u32, Hop)>,
    weights: Vec<ReachedWeights>,
    joins: PassedJoins,
}

/// The joins that a walk passed, in each direction.
#[derive(Debug)]
struct PassedJoins {
    forward: Bits,
    backward: Bits,
}

impl PassedJoins {
    fn none(graph: &Graph) -> Self {
        let none = Bits::new(if graph.has_joins() { graph.position_count() } else { 0 });
        Self { forward: none.clone(), backward: none }
    }
}

impl<'g> Walk<'g> {
    pub(crate) fn new(graph: &'g Graph, mode: WalkMode) -> Self {
        Self {
            graph,
            mode,
            seen: Bits::new(graph.position_count()),
            weights_seen: Bits::new(graph.weights_count()),
            reached: Vec::new(),
            weights: Vec::new(),
            joins: PassedJoins::none(graph),
        }
    }

    /// Takes `hops` hops from `seeds`, or as many as there are, on from what was reached before.
    ///
    /// Each depth is gone through in the order of the record: an entry that can be reached from several is reached from
    /// the oldest, and memory is read in one direction, which on a large graph is most of the time.
    fn go(&mut self, seeds: &[u32], hops: Option<u32>) {
        let (mut depth, mut done) = (0, self.reached.len());
        for seed in seeds {
            self.reach(*seed, Hop { depth: 0, from: *seed });
        }
        while done < self.reached.len() && hops.is_none_or(|hops| depth < hops) {
            depth += 1;
            let level = done..self.reached.len();
            done = level.end;
            let entries = self.reached.get_mut(level.clone()).unwrap_or_default();
            entries.sort_unstable_by_key(|(position, _)| *position);
            for at in level {
                if let Some((position, _)) = self.reached.get(at).copied() {
                    self.expand(position, depth);
                }
            }
        }
    }

    /// Forgets what is deeper than `depth`, and returns how many entries that is.
    fn cut_beyond(&mut self, depth: u32) -> u64 {
        let kept = self.reached.partition_point(|(_, hop)| hop.depth <= depth);
        let beyond = self.reached.split_off(kept);
        for (position, _) in &beyond {
            self.seen.remove(*position);
        }
        self.weights.retain(|weights| weights.depth <= depth);
        beyond.len() as u64
    }

    /// How many entries `seed` reaches within `hops` hops, itself included.
    pub(crate) fn count(&mut self, seed: u32, hops: u32) -> usize {
        for (position, _) in self.reached.drain(..) {
            self.seen.remove(position);
        }
        for weights in self.weights.drain(..) {
            self.weights_seen.remove(weights.number);
        }
        if self.graph.has_joins() {
            self.joins = PassedJoins::none(self.graph);
        }
        self.go(&[seed], Some(hops));
        self.reached.len()
    }

    fn expand(&mut self, position: u32, depth: u32) {
        let graph = self.graph;
        let (is_backward, weights) = match self.mode {
            WalkMode::Causal => (false, graph.brought_in_by(position)),
            WalkMode::RvuV1 => (true, [].as_slice()),
            WalkMode::RvuV2 => (true, graph.carried_by(position)),
        };
        let hop = Hop { depth, from: position };
        self.reach_children(position, hop);
        if is_backward {
            self.reach_parents(position, hop);
        }
        for number in weights {
            self.reach_weights(ReachedWeights { number: *number, by: position, depth });
        }
    }

    /// Reaches what was made from an entry. A join on the way is no hop.
    fn reach_children(&mut self, position: u32, hop: Hop) {
        let graph = self.graph;
        let (mut next, mut passed) = (Some(position), Vec::new());
        while let Some(at) = next {
            for child in graph.children_of(at) {
                if !graph.is_join(*child) {
                    self.reach_unless_purged(*child, hop);
                } else if self.joins.forward.insert(*child) {
                    passed.push(*child);
                }
            }
            next = passed.pop();
        }
    }

    /// Reaches what an entry was made from. A join on the way is no hop.
    fn reach_parents(&mut self, position: u32, hop: Hop) {
        let graph = self.graph;
        let (mut next, mut passed) = (Some(position), Vec::new());
        while let Some(at) = next {
            for parent in graph.parents_of(at) {
                if !graph.is_join(*parent) {
                    self.reach(*parent, hop);
                } else if self.joins.backward.insert(*parent) {
                    passed.push(*parent);
                }
            }
            next = passed.pop();
        }
    }

    fn reach_weights(&mut self, weights: ReachedWeights) {
        let graph = self.graph;
        if !self.weights_seen.insert(weights.number) {
            return;
        }
        self.weights.push(weights);
        // A graph has so few entries and weights that both together are numbers of 32 bits.
        let from = u32::try_from(graph.position_count()).map_or(u32::MAX, |n| n + weights.number);
        for entry in graph.entries_under(weights.number) {
            self.reach_unless_purged(*entry, Hop { depth: weights.depth, from });
        }
    }

    /// The published walk does not see purged entries from above, and so loses what was made from them
    /// (R8).
    fn reach_unless_purged(&mut self, position: u32, hop: Hop) {
        let is_hidden = match self.mode {
            WalkMode::Causal => false,
            WalkMode::RvuV1 | WalkMode::RvuV2 => self.graph.is_tombstone(position),
        };
        if !is_hidden {
            self.reach(position, hop);
        }
    }

    fn reach(&mut self, position: u32, hop: Hop) {
        if self.seen.insert(position) {
            self.reached.push((position, hop));
        }
    }
}
