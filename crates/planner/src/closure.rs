//! The closure: everything that contaminated entries reached.
//!
//! One walk, breadth first, without recursion, over whatever edges the [`WalkMode`] follows. It reads the graph and
//! changes nothing (R9). Time and memory are linear in the graph.

use custody_log::{Digest, Seq};
use serde::{Deserialize, Serialize};

use crate::bits::{Bits, Places};
use crate::graph::{Graph, named};

/// How many hops the published walk takes.
pub const RVU_DEPTH: u32 = 10;

/// Which edges are followed, and how far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WalkMode {
    /// Forward only and without end: from an entry to what was made from it, from a load or fusion to everything
    /// produced under those weights, through tombstones.
    #[default]
    Causal,
    /// As published, first version: parents and unpurged children, ten hops.
    RvuV1,
    /// As published, second version: and from an entry to all unpurged ones under the same weights.
    RvuV2,
}

/// Why there is no closure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClosureError {
    /// A seed that is no entry.
    #[error("{0} is not in the record; look it up with `custody ledger`")]
    UnknownSeed(Seq),
}

/// By what an entry came into the closure first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reached {
    /// It is a seed.
    Seed,
    /// Over an edge from this entry.
    Entry(Seq),
    /// Because it was produced under these weights, or handles them.
    Weights(Digest),
}

/// One entry of a closure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosureMember {
    /// Which.
    pub entry: Seq,
    /// How many hops it is from the nearest seed.
    pub depth: u32,
    /// By what it was reached first.
    pub reached: Reached,
}

/// A walk that stopped at its depth limit with entries still ahead (R6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncated {
    /// The limit.
    pub depth: u32,
    /// How many entries one more hop would have added.
    pub frontier: u64,
}

/// What a set of seeds reached.
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
    truncated: Option<Truncated>,
}

impl<'g> Closure<'g> {
    /// What `seeds` reached in `graph`.
    ///
    /// # Errors
    /// When a seed is not an entry of the graph.
    ///
    /// Source: RVU §3.3; docs/design.md §6.3.
    pub fn new(graph: &'g Graph, mode: WalkMode, seeds: &[Seq]) -> Result<Self, ClosureError> {
        let mut seeds = seeds.to_vec();
        seeds.sort_unstable();
        seeds.dedup();
        let position = |seed: &Seq| graph.position(*seed).ok_or(ClosureError::UnknownSeed(*seed));
        let positions = seeds.iter().map(position).collect::<Result<Vec<u32>, _>>()?;
        let limit = match mode {
            WalkMode::Causal => None,
            WalkMode::RvuV1 | WalkMode::RvuV2 => Some(RVU_DEPTH),
        };
        let mut walk = Walk::new(graph, mode);
        // One hop more than is kept, so that what lies beyond the limit can be counted.
        walk.go(&positions, limit.map(|limit| limit + 1));
        let beyond = limit.map(|limit| (limit, walk.cut_beyond(limit)));
        let truncated = beyond
            .filter(|(_, frontier)| *frontier > 0)
            .map(|(depth, frontier)| Truncated { depth, frontier });
        let Walk { seen, reached, mut weights, .. } = walk;
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
            truncated,
        };
        this.possible_origins = this.ancestors(&positions);
        Ok(this)
    }

    /// The graph it was computed on.
    pub const fn graph(&self) -> &'g Graph {
        self.graph
    }

    /// Which edges were followed.
    pub const fn mode(&self) -> WalkMode {
        self.mode
    }

    /// Where it started, ascending.
    pub fn seeds(&self) -> &[Seq] {
        &self.seeds
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether it has none, which is so only without seeds.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether `entry` is in it.
    pub fn contains(&self, entry: Seq) -> bool {
        self.hop(entry).is_some()
    }

    /// Its entries, ascending.
    pub fn members(&self) -> impl ExactSizeIterator<Item = ClosureMember> + '_ {
        self.members.iter().zip(&self.hops).map(|(position, hop)| self.described(*position, *hop))
    }

    /// One of its entries.
    pub fn member(&self, entry: Seq) -> Option<ClosureMember> {
        let (position, hop) = self.hop(entry)?;
        Some(self.described(position, hop))
    }

    /// How `entry` was reached, from a seed to itself, over the fewest hops. Empty if it is not a member.
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

    /// The weights it reached: what a member loaded, or fused into a base. In the published mode, those that a
    /// member was produced under.
    pub fn weights(&self) -> impl Iterator<Item = Digest> + '_ {
        self.weights.iter().filter_map(|reached| self.graph.digest(reached.number))
    }

    /// What the seeds were made from and which is no member: where the contamination may have come from. Never
    /// purged for that; one bad leaf does not condemn its root (R7). Ascending.
    pub fn possible_origins(&self) -> impl ExactSizeIterator<Item = Seq> + '_ {
        self.possible_origins.iter().map(|position| named(*position))
    }

    /// Whether a depth limit left something out. Never in [`WalkMode::Causal`], which has none.
    pub const fn truncated(&self) -> Option<Truncated> {
        self.truncated
    }

    /// The earliest seed that reaches each member, in the order of the members.
    pub(crate) fn earliest_seeds(&self) -> Vec<Seq> {
        let mut walk = Walk::new(self.graph, self.mode);
        let mut earliest = vec![Seq(0); self.len()];
        // Seeds ascend, so whichever reaches a member first is the earliest that does.
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

    /// Where `entry` stands among the members.
    pub(crate) fn place(&self, entry: Seq) -> Option<usize> {
        let place = self.places.of(self.graph.position(entry)?)?;
        Some(place as usize)
    }

    /// Positions of the members, ascending.
    pub(crate) fn positions(&self) -> &[u32] {
        &self.members
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

    /// The number of weights that a `from` means, if it does not mean an entry.
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

    /// The ancestors of `seeds` that are no members: over parents, and from an entry to the loads and fusions
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
        seen.ascending().filter(|position| self.places.of(*position).is_none()).collect()
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
        for child in graph.children_of(position) {
            self.reach_unless_purged(*child, hop);
        }
        if is_backward {
            for parent in graph.parents_of(position) {
                self.reach(*parent, hop);
            }
        }
        for number in weights {
            self.reach_weights(ReachedWeights { number: *number, by: position, depth });
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
