//! The closure: everything that contaminated entries reached.
//!
//! One walk, breadth first, without recursion, over whatever edges the [`Mode`] follows. It reads the graph and
//! changes nothing (PRIOR-ART R9). Time and memory are linear in the graph.

use serde::{Deserialize, Serialize};

use super::graph::{Graph, named};
use crate::digest::Digest;
use crate::id::Seq;

/// How many hops the published walk takes.
pub const RVU_DEPTH: u32 = 10;

/// No number of an entry, nor a depth.
const NONE: u32 = u32::MAX;

/// Which edges are followed, and how far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
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
pub struct Member {
    /// Which.
    pub entry: Seq,
    /// How many hops it is from the nearest seed.
    pub depth: u32,
    /// By what it was reached first.
    pub reached: Reached,
}

/// A walk that stopped at its depth limit with entries still ahead (PRIOR-ART R6).
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
    mode: Mode,
    seeds: Vec<Seq>,
    /// Positions, ascending; `depths` and `from` go with them.
    members: Vec<u32>,
    depths: Vec<u32>,
    /// The position of the entry before, or the number of the weights after the last position; its own for a seed.
    from: Vec<u32>,
    /// The weights reached and the entry that reached each first, ascending.
    weights: Vec<(u32, u32)>,
    possible_origins: Vec<u32>,
    truncated: Option<Truncated>,
}

impl<'g> Closure<'g> {
    /// What `seeds` reached in `graph`.
    ///
    /// # Errors
    /// When a seed is not an entry of the graph.
    ///
    /// Source: RVU §3.3; DESIGN section 3, Closure.
    pub fn new(graph: &'g Graph, mode: Mode, seeds: &[Seq]) -> Result<Self, ClosureError> {
        let mut seeds = seeds.to_vec();
        seeds.sort_unstable();
        seeds.dedup();
        let position = |seed: &Seq| graph.position(*seed).ok_or(ClosureError::UnknownSeed(*seed));
        let positions = seeds.iter().map(position).collect::<Result<Vec<u32>, _>>()?;
        let limit = match mode {
            Mode::Causal => None,
            Mode::RvuV1 | Mode::RvuV2 => Some(RVU_DEPTH),
        };
        let mut walk = Walk::new(graph, mode);
        // One hop more than is kept, so that what lies beyond the limit can be counted.
        walk.go(&positions, limit.map(|limit| limit + 1));
        let weights = walk.weights(limit);
        let Walk { depths, from, reached, .. } = walk;
        let is_within = |depth: u32| depth != NONE && limit.is_none_or(|limit| depth <= limit);
        let within = |(position, (depth, from)): (u32, (u32, u32))| {
            is_within(depth).then_some((position, depth, from))
        };
        let all = (0..).zip(depths.into_iter().zip(from)).filter_map(within);
        let mut this = Self {
            graph,
            mode,
            seeds,
            members: Vec::with_capacity(reached.len()),
            depths: Vec::with_capacity(reached.len()),
            from: Vec::with_capacity(reached.len()),
            weights,
            possible_origins: Vec::new(),
            truncated: None,
        };
        for (position, depth, from) in all {
            this.members.push(position);
            this.depths.push(depth);
            this.from.push(from);
        }
        let beyond = (reached.len() - this.members.len()) as u64;
        this.truncated =
            limit.filter(|_| beyond > 0).map(|depth| Truncated { depth, frontier: beyond });
        this.possible_origins = this.ancestors(&positions);
        Ok(this)
    }

    /// The graph it was computed on.
    pub const fn graph(&self) -> &'g Graph {
        self.graph
    }

    /// Which edges were followed.
    pub const fn mode(&self) -> Mode {
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
        self.index(entry).is_some()
    }

    /// Its entries, ascending.
    pub fn members(&self) -> impl ExactSizeIterator<Item = Member> + '_ {
        let rest = self.depths.iter().zip(&self.from);
        self.members.iter().zip(rest).map(|(position, (depth, from))| Member {
            entry: named(*position),
            depth: *depth,
            reached: self.reached(*position, *from),
        })
    }

    /// One of its entries.
    pub fn member(&self, entry: Seq) -> Option<Member> {
        let index = self.index(entry)?;
        let (position, from) = (self.members.get(index)?, self.from.get(index)?);
        let depth = *self.depths.get(index)?;
        Some(Member { entry, depth, reached: self.reached(*position, *from) })
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
        self.weights.iter().filter_map(|(number, _)| self.graph.digest(*number))
    }

    /// What the seeds were made from and which is no member: where the contamination may have come from. Never
    /// purged for that; one bad leaf does not condemn its root (PRIOR-ART R7). Ascending.
    pub fn possible_origins(&self) -> impl ExactSizeIterator<Item = Seq> + '_ {
        self.possible_origins.iter().map(|position| named(*position))
    }

    /// Whether a depth limit left something out. Never in [`Mode::Causal`], which has none.
    pub const fn truncated(&self) -> Option<Truncated> {
        self.truncated
    }

    /// Positions of the members, ascending.
    pub(crate) fn positions(&self) -> &[u32] {
        &self.members
    }

    /// Numbers of the weights reached, ascending.
    pub(crate) fn weight_numbers(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.weights.iter().map(|(number, _)| *number)
    }

    fn index(&self, entry: Seq) -> Option<usize> {
        self.members.binary_search(&self.graph.position(entry)?).ok()
    }

    fn reached(&self, position: u32, from: u32) -> Reached {
        match self.weights_in(from) {
            Some(number) => self.graph.digest(number).map_or(Reached::Seed, Reached::Weights),
            None if from == position => Reached::Seed,
            None => Reached::Entry(named(from)),
        }
    }

    /// The number of weights that a `from` means, if it does not mean an entry.
    fn weights_in(&self, from: u32) -> Option<u32> {
        u64::from(from).checked_sub(self.graph.len()).and_then(|number| u32::try_from(number).ok())
    }

    /// The member that brought the weights by which `entry` was reached.
    fn bringer(&self, entry: Seq) -> Option<Member> {
        let number = self.weights_in(*self.from.get(self.index(entry)?)?)?;
        let at = self.weights.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        let (_, bringer) = self.weights.get(at)?;
        self.member(named(*bringer))
    }

    /// The ancestors of `seeds` that are no members: over parents, and from an entry to the loads and fusions
    /// that brought the weights it was produced under.
    fn ancestors(&self, seeds: &[u32]) -> Vec<u32> {
        let mut is_seen = vec![false; self.graph.position_count()];
        let mut weights_seen = vec![false; self.graph.weights_count()];
        let mut ahead = Vec::new();
        let mut see = |position: u32, ahead: &mut Vec<u32>| {
            if let Some(seen) = is_seen.get_mut(position as usize).filter(|seen| !**seen) {
                *seen = true;
                ahead.push(position);
            }
        };
        for seed in seeds {
            see(*seed, &mut ahead);
        }
        while let Some(position) = ahead.pop() {
            for parent in self.graph.parents_of(position) {
                see(*parent, &mut ahead);
            }
            for number in self.graph.carried_by(position) {
                let seen = weights_seen.get_mut(*number as usize).filter(|seen| !**seen);
                let Some(seen) = seen else { continue };
                *seen = true;
                for bringer in self.graph.entries_that_brought(*number) {
                    see(*bringer, &mut ahead);
                }
            }
        }
        let is_member = |position: &u32| self.members.binary_search(position).is_ok();
        let seen = (0..).zip(is_seen).filter_map(|(position, is_seen)| is_seen.then_some(position));
        seen.filter(|position| !is_member(position)).collect()
    }
}

/// One walk over a graph, with what it has seen. Can be used again for another: clearing it costs what it reached.
#[derive(Debug)]
pub(crate) struct Walk<'g> {
    graph: &'g Graph,
    mode: Mode,
    /// By position.
    depths: Vec<u32>,
    from: Vec<u32>,
    /// By number of weights: the entry that reached them.
    weights_from: Vec<u32>,
    /// Positions, in the order they were reached.
    reached: Vec<u32>,
    weights_reached: Vec<u32>,
}

impl<'g> Walk<'g> {
    pub(crate) fn new(graph: &'g Graph, mode: Mode) -> Self {
        let entries = graph.position_count();
        Self {
            graph,
            mode,
            depths: vec![NONE; entries],
            from: vec![NONE; entries],
            weights_from: vec![NONE; graph.weights_count()],
            reached: Vec::new(),
            weights_reached: Vec::new(),
        }
    }

    /// Takes `hops` hops from `seeds`, or as many as there are.
    fn go(&mut self, seeds: &[u32], hops: Option<u32>) {
        for seed in seeds {
            self.reach(*seed, 0, *seed);
        }
        let mut next = 0;
        while let Some(position) = self.reached.get(next).copied() {
            next += 1;
            let depth = self.depth(position);
            // Breadth first: whatever comes after this one is as deep.
            if hops.is_some_and(|hops| depth >= hops) {
                break;
            }
            self.expand(position, depth + 1);
        }
    }

    /// How many entries `seed` reaches within `hops` hops, itself included.
    pub(crate) fn count(&mut self, seed: u32, hops: u32) -> usize {
        self.clear();
        self.go(&[seed], Some(hops));
        self.reached.len()
    }

    fn expand(&mut self, position: u32, depth: u32) {
        let graph = self.graph;
        let (is_backward, weights) = match self.mode {
            Mode::Causal => (false, graph.brought_in_by(position)),
            Mode::RvuV1 => (true, [].as_slice()),
            Mode::RvuV2 => (true, graph.carried_by(position)),
        };
        for child in graph.children_of(position) {
            self.reach_unless_purged(*child, depth, position);
        }
        if is_backward {
            for parent in graph.parents_of(position) {
                self.reach(*parent, depth, position);
            }
        }
        for number in weights {
            self.reach_weights(*number, depth, position);
        }
    }

    fn reach_weights(&mut self, number: u32, depth: u32, by: u32) {
        let graph = self.graph;
        let Some(from) = self.weights_from.get_mut(number as usize).filter(|from| **from == NONE)
        else {
            return;
        };
        *from = by;
        self.weights_reached.push(number);
        let node = u32::try_from(graph.position_count()).map_or(NONE, |entries| entries + number);
        for entry in graph.entries_under(number) {
            self.reach_unless_purged(*entry, depth, node);
        }
    }

    /// The published walk does not see purged entries from above, and so loses what was made from them
    /// (PRIOR-ART R8).
    fn reach_unless_purged(&mut self, position: u32, depth: u32, from: u32) {
        let is_hidden = match self.mode {
            Mode::Causal => false,
            Mode::RvuV1 | Mode::RvuV2 => self.graph.is_tombstone(position),
        };
        if !is_hidden {
            self.reach(position, depth, from);
        }
    }

    fn reach(&mut self, position: u32, depth: u32, by: u32) {
        let at = position as usize;
        if let (Some(known @ &mut NONE), Some(from)) =
            (self.depths.get_mut(at), self.from.get_mut(at))
        {
            *known = depth;
            *from = by;
            self.reached.push(position);
        }
    }

    fn depth(&self, position: u32) -> u32 {
        self.depths.get(position as usize).copied().unwrap_or(NONE)
    }

    /// The weights reached by an entry less than `limit` hops away, and by which one. Ascending.
    fn weights(&self, limit: Option<u32>) -> Vec<(u32, u32)> {
        let from = |number: &u32| {
            let by = *self.weights_from.get(*number as usize)?;
            limit.is_none_or(|limit| self.depth(by) < limit).then_some((*number, by))
        };
        let mut weights: Vec<(u32, u32)> = self.weights_reached.iter().filter_map(from).collect();
        weights.sort_unstable();
        weights
    }

    fn clear(&mut self) {
        for position in self.reached.drain(..) {
            let at = position as usize;
            if let (Some(depth), Some(from)) = (self.depths.get_mut(at), self.from.get_mut(at)) {
                (*depth, *from) = (NONE, NONE);
            }
        }
        for number in self.weights_reached.drain(..) {
            if let Some(from) = self.weights_from.get_mut(number as usize) {
                *from = NONE;
            }
        }
    }
}
