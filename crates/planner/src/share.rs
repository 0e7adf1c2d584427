//! How much of a closure each of its members reached: |C({e})|, itself included.
//!
//! Exact for up to [`EXACT_UP_TO`] members. Above that every member keeps the smallest hashes of what it reaches, as
//! many as [`SKETCHED`], and the largest of them tells how many there are: n hashes spread evenly leave gaps of 1/n.
//! The hash is a fixed mix of the position, so the estimate is the same on every machine. Whoever can choose which
//! positions to write at can make it lie; floors do not depend on it.
//!
//! Source: E. Cohen, Size-estimation framework with applications to transitive closure and reachability (1997).

use serde::{Deserialize, Serialize};

use crate::closure::Closure;
use crate::rows::{Full, Rows};

/// The most members that are counted one by one.
pub const EXACT_UP_TO: usize = 4_096;
/// How many hashes an estimate rests on. What reaches fewer members is counted exactly.
pub const SKETCHED: u32 = 256;
/// Half the width of the 95 % interval of an estimate, as a part of it: 1.96/√(k − 2).
pub const RELATIVE_ERROR: f64 = 0.123;

/// No member.
const NONE: u32 = u32::MAX;

/// Whether counts are counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counting {
    /// They are.
    Exact,
    /// Those above [`SKETCHED`] are estimates, 95 % of them within [`RELATIVE_ERROR`] of the truth.
    Estimated,
}

/// How many members each member reaches, in the order of the closure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReachCounts {
    /// One count per member, itself included.
    pub counts: Vec<u32>,
    /// How they were made.
    pub counting: Counting,
}

/// The closure has more edges than can be counted in 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the closure has more edges than can be scored; name fewer seeds")]
pub struct TooManyMembers;

impl From<Full> for TooManyMembers {
    fn from(_: Full) -> Self {
        Self
    }
}

/// How many members of a causal closure each of them reaches.
///
/// # Errors
/// When the closure is too large for 32 bits.
pub fn count_reached(closure: &Closure<'_>) -> Result<ReachCounts, TooManyMembers> {
    let backward = backward_edges(closure)?;
    let members = closure.len();
    if members <= EXACT_UP_TO {
        Ok(ReachCounts { counts: counted(&backward, members), counting: Counting::Exact })
    } else {
        Ok(ReachCounts { counts: sketched(&backward, closure), counting: Counting::Estimated })
    }
}

/// What each member, each of the weights reached and each join passed was reached from: by their index in the closure,
/// the weights numbered on from the members, and the joins from the weights.
fn backward_edges(closure: &Closure<'_>) -> Result<Rows, TooManyMembers> {
    let graph = closure.graph();
    let members = count_of(closure.len())?;
    let mut nodes = vec![NONE; graph.position_count()];
    for (index, position) in (0..members).zip(closure.positions()) {
        if let Some(node) = nodes.get_mut(*position as usize) {
            *node = index;
        }
    }
    let first_join = members.saturating_add(count_of(closure.weight_numbers().len())?);
    for (index, position) in (first_join..).zip(closure.joins()) {
        if let Some(node) = nodes.get_mut(*position as usize) {
            *node = index;
        }
    }
    let mut weights = vec![NONE; graph.weights_count()];
    for (index, number) in (members..).zip(closure.weight_numbers()) {
        if let Some(node) = weights.get_mut(number as usize) {
            *node = index;
        }
    }
    let mut rows = Rows::new();
    let mut row = Vec::new();
    for position in closure.positions() {
        row.extend(graph.parents_of(*position).iter().filter_map(|at| node_at(&nodes, *at)));
        row.extend(graph.carried_by(*position).iter().filter_map(|at| node_at(&weights, *at)));
        rows.push(&row)?;
        row.clear();
    }
    for number in closure.weight_numbers() {
        let bringers = graph.entries_that_brought(number).iter();
        row.extend(bringers.filter_map(|at| node_at(&nodes, *at)));
        rows.push(&row)?;
        row.clear();
    }
    for position in closure.joins() {
        row.extend(graph.parents_of(*position).iter().filter_map(|at| node_at(&nodes, *at)));
        rows.push(&row)?;
        row.clear();
    }
    Ok(rows)
}

fn count_of(number: usize) -> Result<u32, TooManyMembers> {
    u32::try_from(number).map_err(|_| TooManyMembers)
}

fn node_at(nodes: &[u32], at: u32) -> Option<u32> {
    nodes.get(at as usize).copied().filter(|node| *node != NONE)
}

/// One set of bits per component, filled from the components that reach least.
fn counted(backward: &Rows, members: usize) -> Vec<u32> {
    let forward = backward.turned(backward.len());
    let components = components(&forward);
    let count = components.iter().max().map_or(0, |last| *last as usize + 1);
    let mut in_order: Vec<(u32, u32)> = components.iter().copied().zip(0..).collect();
    in_order.sort_unstable();
    let words = members.div_ceil(64);
    let mut bits = vec![0_u64; count * words];
    let mut merged = vec![NONE; count];
    for (component, node) in in_order {
        let (done, rest) = bits.split_at_mut(component as usize * words);
        let own = rest.get_mut(..words).unwrap_or_default();
        if let Some(word) = own.get_mut(node as usize / 64).filter(|_| (node as usize) < members) {
            *word |= 1 << (node % 64);
        }
        for next in forward.row(node) {
            let other = components.get(*next as usize).copied().unwrap_or(component);
            let is_new = merged.get_mut(other as usize).filter(|by| **by != component);
            // Components are numbered from the last, so what is reached from here is done.
            let (true, Some(by)) = (other < component, is_new) else { continue };
            *by = component;
            let theirs = done.get(other as usize * words..).unwrap_or_default();
            for (word, more) in own.iter_mut().zip(theirs) {
                *word |= more;
            }
        }
    }
    let sizes = components.iter().take(members).map(|component| {
        let from = *component as usize * words;
        let set = bits.get(from..from + words).unwrap_or_default();
        set.iter().map(|word| word.count_ones()).sum()
    });
    sizes.collect()
}

/// The strongly connected component of each node, numbered so that edges between components lead to lower numbers.
///
/// Weights make cycles: a load reaches all that was produced under its weights, a later load of them included.
///
/// Source: R. Tarjan, Depth-first search and linear graph algorithms (1972), with a stack in place of recursion.
fn components(forward: &Rows) -> Vec<u32> {
    let nodes = u32::try_from(forward.len()).unwrap_or(NONE);
    let mut found = vec![NONE; forward.len()];
    let mut order = vec![NONE; forward.len()];
    let mut lowest = vec![NONE; forward.len()];
    let (mut next_order, mut next_component) = (0, 0);
    let mut open: Vec<u32> = Vec::new();
    let mut path: Vec<(u32, u32)> = Vec::new();
    for root in 0..nodes {
        if get(&order, root) != NONE {
            continue;
        }
        path.push((root, 0));
        while let Some((node, edge)) = path.pop() {
            if edge == 0 {
                set(&mut order, node, next_order);
                set(&mut lowest, node, next_order);
                next_order += 1;
                open.push(node);
            }
            if let Some(next) = forward.row(node).get(edge as usize).copied() {
                path.push((node, edge + 1));
                if get(&order, next) == NONE {
                    path.push((next, 0));
                } else if get(&found, next) == NONE {
                    let low = get(&lowest, node).min(get(&order, next));
                    set(&mut lowest, node, low);
                }
                continue;
            }
            if get(&lowest, node) == get(&order, node) {
                while let Some(member) = open.pop() {
                    set(&mut found, member, next_component);
                    if member == node {
                        break;
                    }
                }
                next_component += 1;
            }
            if let Some((before, _)) = path.last().copied() {
                let low = get(&lowest, before).min(get(&lowest, node));
                set(&mut lowest, before, low);
            }
        }
    }
    found
}

fn get(of: &[u32], node: u32) -> u32 {
    of.get(node as usize).copied().unwrap_or(NONE)
}

fn set(of: &mut [u32], node: u32, value: u32) {
    if let Some(place) = of.get_mut(node as usize) {
        *place = value;
    }
}

/// The smallest hashes that have reached one node.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// The number of hashes, up to [`SKETCHED`].
    count: u32,
    /// The last walk that reached the node.
    walk: u32,
    /// The last of the hashes, once the node has its full number; 0 before.
    largest: u64,
}

impl Seen {
    /// Adds a hash. Returns whether it was new and the node had room for it.
    fn add(&mut self, hash: u64, walk: u32) -> bool {
        if self.walk == walk || self.count == SKETCHED {
            return false;
        }
        self.count += 1;
        self.walk = walk;
        if self.count == SKETCHED {
            self.largest = hash;
        }
        true
    }
}

/// Every member's hash, smallest first, is brought to all that reach the member. A node that has its full number of
/// hashes is passed by, and so is everything before it, which has them too: each edge is taken [`SKETCHED`] times at
/// most.
fn sketched(backward: &Rows, closure: &Closure<'_>) -> Vec<u32> {
    let members = closure.len();
    let mut by_hash: Vec<(u64, u32)> =
        closure.positions().iter().zip(0..).map(|(at, index)| (mixed(*at), index)).collect();
    by_hash.sort_unstable();
    let mut seen = vec![Seen { count: 0, walk: NONE, largest: 0 }; backward.len()];
    let mut ahead = Vec::new();
    for (walk, (hash, member)) in (0..).zip(by_hash) {
        ahead.push(member);
        while let Some(node) = ahead.pop() {
            if seen.get_mut(node as usize).is_some_and(|seen| seen.add(hash, walk)) {
                ahead.extend_from_slice(backward.row(node));
            }
        }
    }
    seen.iter().take(members).map(|seen| size(seen.count, seen.largest, members)).collect()
}

/// (k − 1) / U_k, where U_k is the k-th smallest of the hashes as a number in (0, 1]; the count itself below k.
fn size(count: u32, largest: u64, members: usize) -> u32 {
    if count < SKETCHED {
        return count;
    }
    // In whole numbers, for the same bits everywhere.
    let estimate = (u128::from(SKETCHED - 1) << 64) / (u128::from(largest) + 1);
    let most = u32::try_from(members).unwrap_or(NONE);
    u32::try_from(estimate).unwrap_or(most).clamp(SKETCHED, most)
}

/// The finaliser of SplitMix64: a bijection, so no two positions meet in one hash.
fn mixed(position: u32) -> u64 {
    let mut hash = u64::from(position).wrapping_add(0x9E37_79B9_7F4A_7C15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use custody_log::{Digest, Seq};

    use super::*;
    use crate::closure::WalkMode;
    use crate::graph::{AdapterEvent, Graph, GraphBuilder, GraphNode};

    /// Every entry is made from the one before it.
    fn chain(length: u64) -> Graph {
        let mut builder = GraphBuilder::default();
        for entry in 0..length {
            let parents: Vec<Seq> = entry.checked_sub(1).map(Seq).into_iter().collect();
            builder.push(GraphNode { parents: &parents, ..GraphNode::default() }).unwrap();
        }
        builder.finish().unwrap()
    }

    fn reach_of(graph: &Graph, seeds: &[Seq]) -> ReachCounts {
        count_reached(&Closure::new(graph, WalkMode::Causal, seeds).unwrap()).unwrap()
    }

    #[test]
    fn up_to_the_limit_every_count_is_exact() {
        let limit = EXACT_UP_TO as u64;
        let reach = reach_of(&chain(limit), &[Seq(0)]);
        assert_eq!(reach.counting, Counting::Exact);
        let expected: Vec<u32> = (1..=u32::try_from(limit).unwrap()).rev().collect();
        assert_eq!(reach.counts, expected);
        assert_eq!(reach_of(&chain(limit + 1), &[Seq(0)]).counting, Counting::Estimated);
    }

    #[test]
    fn cycles_over_weights_and_over_parents_are_one_component() {
        let weights = Digest([1; 32]);
        let under = [weights];
        let load = GraphNode { event: Some(AdapterEvent::Load(weights)), ..GraphNode::default() };
        let made = GraphNode { weights: &under, ..GraphNode::default() };
        let graph = Graph::new([load, made, load]).unwrap();
        assert_eq!(reach_of(&graph, &[Seq(0)]).counts, [3, 1, 3]);
        let after = |parents: &'static [Seq]| GraphNode { parents, ..GraphNode::default() };
        let graph =
            Graph::new([after(&[Seq(2)]), after(&[Seq(0)]), after(&[Seq(1)]), after(&[Seq(1)])]);
        assert_eq!(reach_of(&graph.unwrap(), &[Seq(0)]).counts, [4, 4, 4, 1]);
    }

    #[test]
    fn estimates_of_a_long_chain_are_within_the_stated_error() {
        let length = 20_000_u32;
        let reach = reach_of(&chain(u64::from(length)), &[Seq(0)]);
        let mut within = 0;
        for (entry, count) in (0..length).zip(&reach.counts) {
            let truth = length - entry;
            if truth < SKETCHED {
                assert_eq!(*count, truth);
            }
            let error = (f64::from(*count) - f64::from(truth)).abs() / f64::from(truth);
            within += u32::from(error <= RELATIVE_ERROR);
        }
        assert!(f64::from(within) >= 0.9 * f64::from(length), "{within} of {length}");
    }
}
