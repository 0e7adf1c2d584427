//! The closure: its golden sizes, the holes it closes, and what holds of every graph.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use custody_kernel::carried::Carried;
use custody_log::{Digest, Seq};
use custody_planner::{
    AdapterEvent, Closure, ClosureError, Graph, GraphBuilder, GraphNode, Reached, Truncated,
    WalkMode,
};
use proptest::prelude::*;

const ALL_MODES: [WalkMode; 3] = [WalkMode::Causal, WalkMode::RvuV1, WalkMode::RvuV2];

/// An entry that a test owns.
#[derive(Debug, Clone, Default)]
struct Entry {
    parents: Vec<Seq>,
    weights: Vec<Digest>,
    loads: Option<Digest>,
    fuses: Option<(Vec<Digest>, Digest)>,
    is_purged: bool,
}

impl Entry {
    fn after(parents: &[u64]) -> Self {
        Self { parents: parents.iter().copied().map(Seq).collect(), ..Self::default() }
    }

    fn load(weights: Digest) -> Self {
        Self { loads: Some(weights), ..Self::default() }
    }

    fn under(self, weights: &[Digest]) -> Self {
        Self { weights: weights.to_vec(), ..self }
    }

    fn purged(self) -> Self {
        Self { is_purged: true, ..self }
    }

    fn node(&self) -> GraphNode<'_> {
        let fuse = self.fuses.as_ref();
        let fuse = fuse.map(|(weights, into)| AdapterEvent::Fuse { weights, into: *into });
        GraphNode {
            parents: &self.parents,
            weights: &self.weights,
            event: self.loads.map(AdapterEvent::Load).or(fuse),
            is_purged: self.is_purged,
            is_join: false,
        }
    }
}

fn graph(entries: &[Entry]) -> Graph {
    Graph::new(entries.iter().map(Entry::node)).unwrap()
}

fn seqs(positions: &[u64]) -> Vec<Seq> {
    positions.iter().copied().map(Seq).collect()
}

fn members(closure: &Closure<'_>) -> Vec<u64> {
    closure.members().map(|member| member.entry.0).collect()
}

fn reached(graph: &Graph, mode: WalkMode, seeds: &[u64]) -> Vec<u64> {
    members(&Closure::new(graph, mode, &seqs(seeds)).unwrap())
}

fn weights(byte: u8) -> Digest {
    Digest([byte; 32])
}

fn chain(length: u64) -> Vec<Entry> {
    (0..length)
        .map(|entry| Entry::after(&entry.checked_sub(1).into_iter().collect::<Vec<_>>()))
        .collect()
}

/// The paper's example: an adapter's load and three chained entries under it, twice, and one entry apart.
fn two_adapters() -> Graph {
    let (a, b) = (weights(1), weights(2));
    graph(&[
        Entry::load(a),
        Entry::default().under(&[a]),
        Entry::after(&[1]).under(&[a]),
        Entry::after(&[2]).under(&[a]),
        Entry::load(b),
        Entry::default().under(&[b]),
        Entry::after(&[5]).under(&[b]),
        Entry::after(&[6]).under(&[b]),
        Entry::default(),
    ])
}

/// RVU §5.2, table 2.
#[test]
fn the_published_example_has_its_published_sizes() {
    let graph = two_adapters();
    assert_eq!(reached(&graph, WalkMode::RvuV1, &[5]), [5, 6, 7]);
    assert_eq!(reached(&graph, WalkMode::RvuV2, &[5]), [4, 5, 6, 7]);
    let closure = Closure::new(&graph, WalkMode::RvuV2, &[Seq(5)]).unwrap();
    assert_eq!(
        closure.weights().collect::<Vec<_>>(),
        [weights(2)],
        "the clean adapter is not in it"
    );
    assert_eq!(closure.truncated(), None);
}

#[test]
fn what_follows_from_an_entry_is_not_what_its_adapter_made() {
    let graph = two_adapters();
    assert_eq!(
        reached(&graph, WalkMode::Causal, &[5]),
        [5, 6, 7],
        "one bad answer does not make an adapter bad"
    );
    assert_eq!(
        reached(&graph, WalkMode::Causal, &[4]),
        [4, 5, 6, 7],
        "a bad adapter makes its answers bad"
    );
    let closure = Closure::new(&graph, WalkMode::Causal, &[Seq(5)]).unwrap();
    assert_eq!(
        closure.possible_origins().collect::<Vec<_>>(),
        [Seq(4)],
        "and may be where it came from"
    );
}

/// (R6)
#[test]
fn a_depth_limit_says_what_it_cut_off_and_the_default_has_none() {
    let graph = graph(&chain(40));
    for mode in [WalkMode::RvuV1, WalkMode::RvuV2] {
        let closure = Closure::new(&graph, mode, &[Seq(0)]).unwrap();
        assert_eq!(closure.len(), 11, "as published");
        assert_eq!(closure.truncated(), Some(Truncated { depth: 10, frontier: 1 }));
        let whole = Closure::new(&graph, mode, &[Seq(29)]).unwrap();
        assert_eq!(whole.truncated(), Some(Truncated { depth: 10, frontier: 1 }), "upwards too");
    }
    let closure = Closure::new(&graph, WalkMode::Causal, &[Seq(0)]).unwrap();
    assert_eq!((closure.len(), closure.truncated()), (40, None));
}

#[test]
fn a_limit_that_is_just_reached_cuts_nothing_off() {
    let graph = graph(&chain(11));
    let closure = Closure::new(&graph, WalkMode::RvuV2, &[Seq(0)]).unwrap();
    assert_eq!((closure.len(), closure.truncated()), (11, None));
}

/// A frontier is what adapters would have added too, and does not taint them.
#[test]
fn weights_beyond_the_limit_are_frontier_and_not_reached() {
    let a = weights(1);
    let mut entries = chain(11);
    entries[10] = Entry::after(&[9]).under(&[a]);
    entries.push(Entry::load(a));
    let graph = graph(&entries);
    let closure = Closure::new(&graph, WalkMode::RvuV2, &[Seq(0)]).unwrap();
    assert_eq!((closure.len(), closure.weights().count()), (11, 0));
    assert_eq!(closure.truncated(), Some(Truncated { depth: 10, frontier: 1 }));
}

/// (R7)
#[test]
fn one_bad_leaf_takes_neither_its_root_nor_its_siblings() {
    let leaf = || Entry::after(&[0]);
    let mut entries = vec![Entry::default()];
    entries.extend(std::iter::repeat_with(leaf).take(10));
    let graph = graph(&entries);
    let closure = Closure::new(&graph, WalkMode::Causal, &[Seq(3)]).unwrap();
    assert_eq!(members(&closure), [3]);
    assert_eq!(closure.possible_origins().collect::<Vec<_>>(), [Seq(0)], "listed apart");
    assert_eq!(reached(&graph, WalkMode::RvuV1, &[3]).len(), 11, "as published");
}

/// (R8)
#[test]
fn what_was_made_from_a_purged_entry_is_reached_in_a_second_round() {
    let mut entries = chain(4);
    entries[1] = entries[1].clone().purged();
    entries[2] = entries[2].clone().purged();
    let graph = graph(&entries);
    assert_eq!(reached(&graph, WalkMode::Causal, &[0]), [0, 1, 2, 3]);
    assert_eq!(reached(&graph, WalkMode::Causal, &[1]), [1, 2, 3]);
    assert_eq!(reached(&graph, WalkMode::RvuV1, &[0]), [0], "as published");
    assert_eq!(
        reached(&graph, WalkMode::RvuV1, &[3]),
        [0, 1, 2, 3],
        "a parent is taken whatever its state"
    );
}

/// (R9)
#[test]
fn reading_a_closure_twice_gives_the_same_and_shows_no_adapter_as_tainted_that_was_not_reached() {
    let graph = two_adapters();
    for mode in ALL_MODES {
        let read = || {
            let closure = Closure::new(&graph, mode, &[Seq(8)]).unwrap();
            (members(&closure), closure.weights().collect::<Vec<_>>())
        };
        let before = reached(&graph, mode, &[1]);
        assert_eq!(read(), (vec![8], vec![]), "{mode:?}");
        assert_eq!(read(), (vec![8], vec![]), "{mode:?}");
        assert_eq!(reached(&graph, mode, &[1]), before, "{mode:?}");
    }
}

/// (R10)
#[test]
fn an_entry_made_under_two_adapters_follows_from_either() {
    let (a, b) = (weights(1), weights(2));
    let entries = [
        Entry::load(a),
        Entry::load(b),
        Entry::default().under(&[a, b]),
        Entry::default(),
        Entry::default().under(&[b]),
    ];
    let graph = graph(&entries);
    assert_eq!(reached(&graph, WalkMode::Causal, &[0]), [0, 2]);
    assert_eq!(reached(&graph, WalkMode::Causal, &[1]), [1, 2, 4], "not the entry without any");
    assert_eq!(reached(&graph, WalkMode::RvuV2, &[0]), [0, 1, 2, 4]);
}

/// (R11, R13)
#[test]
fn entries_of_every_load_of_the_same_weights_are_reached() {
    let a = weights(1);
    let mut carried = Carried::default();
    let mut entries = Vec::new();
    for _ in 0..2 {
        carried.load(a);
        entries.push(Entry::load(a));
        entries.push(Entry::default().under(&carried.weights()));
        carried.unload(a).unwrap();
        entries.push(Entry::default().under(&carried.weights()));
    }
    let graph = graph(&entries);
    for load in [0, 3] {
        assert_eq!(
            reached(&graph, WalkMode::Causal, &[load]),
            [0, 1, 3, 4],
            "whichever load is named"
        );
    }
}

/// (R12)
#[test]
fn entries_made_after_a_fusion_are_reached_although_the_adapter_is_unloaded() {
    let (a, b) = (weights(1), weights(2));
    let mut carried = Carried::default();
    carried.load(a);
    let mut entries = vec![Entry::load(a)];
    let base = carried.fuse(&[a]).unwrap();
    entries.push(Entry { fuses: Some((vec![a], base)), ..Entry::default() }.under(&[a]));
    entries.push(Entry::default().under(&carried.weights()));
    carried.load(b);
    entries.push(Entry::load(b).under(&carried.weights()));
    let before = carried.weights();
    let second = carried.fuse(&[b]).unwrap();
    entries.push(Entry { fuses: Some((vec![b], second)), ..Entry::default() }.under(&before));
    entries.push(Entry::default().under(&carried.weights()));
    entries.push(Entry::default());
    let graph = graph(&entries);
    assert_eq!(reached(&graph, WalkMode::Causal, &[0]), [0, 1, 2, 3, 4, 5], "through two fusions");
    assert_eq!(
        reached(&graph, WalkMode::Causal, &[3]),
        [3, 4, 5],
        "the first base is not of the second adapter"
    );
    let closure = Closure::new(&graph, WalkMode::Causal, &[Seq(5)]).unwrap();
    assert_eq!(closure.possible_origins().collect::<Vec<_>>(), seqs(&[0, 1, 3, 4]));
}

/// (R14)
#[test]
fn an_answer_made_from_five_outputs_follows_from_each() {
    let mut entries = vec![Entry::default(); 5];
    entries.push(Entry::after(&[0, 1, 2, 3, 4]));
    let graph = graph(&entries);
    for output in 0..5 {
        assert_eq!(reached(&graph, WalkMode::Causal, &[output]), [output, 5]);
    }
    let closure = Closure::new(&graph, WalkMode::Causal, &[Seq(5)]).unwrap();
    assert_eq!(closure.possible_origins().len(), 5);
}

/// A scan of all entries per step could not finish this within a test (R15).
#[test]
fn a_million_links_are_followed_without_recursion() {
    let length = 1_000_000;
    let mut builder = GraphBuilder::default();
    for entry in 0..length {
        let parents: Vec<Seq> = u64::checked_sub(entry, 1).map(Seq).into_iter().collect();
        builder.push(GraphNode { parents: &parents, ..GraphNode::default() }).unwrap();
    }
    let graph = builder.finish().unwrap();
    let closure = Closure::new(&graph, WalkMode::Causal, &[Seq(0)]).unwrap();
    assert_eq!(closure.len() as u64, length);
    let last = closure.member(Seq(length - 1)).unwrap();
    assert_eq!(u64::from(last.depth), length - 1);
    assert_eq!(closure.path(Seq(length - 1)).len() as u64, length);
    let back = Closure::new(&graph, WalkMode::Causal, &[Seq(length - 1)]).unwrap();
    assert_eq!(back.possible_origins().len() as u64, length - 1);
}

#[test]
fn a_path_shows_how_an_entry_was_reached() {
    let a = weights(1);
    let entries = [
        Entry::default(),
        Entry::load(a),
        Entry::after(&[0]),
        Entry::default().under(&[a]),
        Entry::after(&[2, 3]),
    ];
    let mut entries = entries.to_vec();
    entries[1].parents = seqs(&[0]);
    let graph = graph(&entries);
    let closure = Closure::new(&graph, WalkMode::Causal, &[Seq(0)]).unwrap();
    let step = |entry| Reached::Entry(Seq(entry));
    assert_eq!(closure.path(Seq(3)), [step(0), step(1), Reached::Weights(a), step(3)]);
    assert_eq!(closure.path(Seq(4)), [step(0), step(2), step(4)], "the shortest, over the oldest");
    assert_eq!(closure.member(Seq(0)).unwrap().reached, Reached::Seed);
    assert!(closure.path(Seq(9)).is_empty());
}

#[test]
fn a_seed_must_be_an_entry_and_no_seeds_reach_nothing() {
    let graph = graph(&chain(3));
    for seed in [Seq(3), Seq(u64::from(u32::MAX)), Seq(u64::MAX)] {
        let error = Closure::new(&graph, WalkMode::Causal, &[Seq(0), seed]).unwrap_err();
        assert_eq!(error, ClosureError::UnknownSeed(seed));
    }
    let nothing = Closure::new(&graph, WalkMode::Causal, &[]).unwrap();
    assert!(nothing.is_empty() && nothing.possible_origins().len() == 0);
}

/// What the closure is, written down as naively as possible: rounds over all pairs until nothing changes.
fn naive(entries: &[Entry], mode: WalkMode, seeds: &BTreeSet<usize>) -> BTreeSet<usize> {
    let rounds = match mode {
        WalkMode::Causal => usize::MAX,
        WalkMode::RvuV1 | WalkMode::RvuV2 => 10,
    };
    let handled = |entry: &Entry| -> BTreeSet<Digest> {
        let fused = entry.fuses.iter().flat_map(|(weights, _)| weights.iter().copied());
        entry.weights.iter().copied().chain(entry.loads).chain(fused).collect()
    };
    let brought = |entry: &Entry| -> BTreeSet<Digest> {
        entry.loads.into_iter().chain(entry.fuses.iter().map(|(_, into)| *into)).collect()
    };
    let leads = |from: usize, to: usize| {
        let (one, other) = (&entries[from], &entries[to]);
        let is_child = other.parents.contains(&Seq(from as u64));
        let is_parent = one.parents.contains(&Seq(to as u64));
        match mode {
            WalkMode::Causal => is_child || !brought(one).is_disjoint(&handled(other)),
            WalkMode::RvuV1 => is_parent || (is_child && !other.is_purged),
            WalkMode::RvuV2 => {
                let is_together = !handled(one).is_disjoint(&handled(other));
                is_parent || ((is_child || is_together) && !other.is_purged)
            }
        }
    };
    let mut closure = seeds.clone();
    for _ in 0..rounds {
        let next: BTreeSet<usize> = (0..entries.len())
            .filter(|to| closure.contains(to) || closure.iter().any(|from| leads(*from, *to)))
            .collect();
        if next == closure {
            break;
        }
        closure = next;
    }
    closure
}

/// Entries with any parents at all, cycles and themselves included, and any weights.
fn any_entries() -> impl Strategy<Value = Vec<Entry>> {
    (1_usize..40).prop_flat_map(|count| {
        let parents = prop::collection::vec(0..count as u64, 0..3);
        let some_weights = prop::collection::vec(0_u8..4, 0..3);
        let event = prop_oneof![
            6 => Just((None, None)),
            1 => (0_u8..4).prop_map(|load| (Some(load), None)),
            1 => (some_weights.clone(), 4_u8..6).prop_map(|fuse| (None, Some(fuse))),
        ];
        let carried = prop::collection::vec(0_u8..6, 0..2);
        let entry = (parents, carried, event, prop::bool::weighted(0.2));
        let digests = |of: Vec<u8>| of.into_iter().map(weights).collect::<Vec<_>>();
        let entry = entry.prop_map(move |(parents, carried, (loads, fuses), is_purged)| Entry {
            parents: seqs(&parents),
            weights: digests(carried),
            loads: loads.map(weights),
            fuses: fuses.map(|(of, into)| (digests(of), weights(into))),
            is_purged,
        });
        prop::collection::vec(entry, count)
    })
}

fn any_mode() -> impl Strategy<Value = WalkMode> {
    prop::sample::select(ALL_MODES.to_vec())
}

fn entries_and_seeds() -> impl Strategy<Value = (Vec<Entry>, BTreeSet<usize>)> {
    any_entries().prop_flat_map(|entries| {
        let seeds = prop::collection::btree_set(0..entries.len(), 0..4);
        (Just(entries), seeds)
    })
}

fn closed<'g>(graph: &'g Graph, mode: WalkMode, seeds: &BTreeSet<usize>) -> Closure<'g> {
    let seeds: Vec<Seq> = seeds.iter().map(|seed| Seq(*seed as u64)).collect();
    Closure::new(graph, mode, &seeds).unwrap()
}

fn positions(closure: &Closure<'_>) -> BTreeSet<usize> {
    closure.members().map(|member| usize::try_from(member.entry.0).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_closure_is_what_a_naive_one_finds((entries, seeds) in entries_and_seeds(), mode in any_mode()) {
        let graph = graph(&entries);
        prop_assert_eq!(positions(&closed(&graph, mode, &seeds)), naive(&entries, mode, &seeds));
    }

    #[test]
    fn the_closure_of_a_closure_is_itself((entries, seeds) in entries_and_seeds()) {
        let graph = graph(&entries);
        let once = positions(&closed(&graph, WalkMode::Causal, &seeds));
        prop_assert_eq!(positions(&closed(&graph, WalkMode::Causal, &once)), once);
    }

    #[test]
    fn more_seeds_have_no_fewer_members(
        (entries, seeds) in entries_and_seeds(),
        more in 0_usize..40,
        mode in any_mode(),
    ) {
        let graph = graph(&entries);
        let fewer = positions(&closed(&graph, mode, &seeds));
        let mut seeds = seeds;
        seeds.insert(more % entries.len());
        prop_assert!(fewer.is_subset(&positions(&closed(&graph, mode, &seeds))));
    }

    #[test]
    fn every_member_has_a_path_from_a_seed_as_long_as_its_depth(
        (entries, seeds) in entries_and_seeds(),
        mode in any_mode(),
    ) {
        let graph = graph(&entries);
        let closure = closed(&graph, mode, &seeds);
        for member in closure.members() {
            let path = closure.path(member.entry);
            let hops = path.iter().filter(|step| matches!(step, Reached::Entry(_))).count() - 1;
            prop_assert_eq!(hops, member.depth as usize);
            let Some(Reached::Entry(first)) = path.first() else { panic!("a path begins with an entry") };
            prop_assert!(closure.seeds().contains(first));
        }
    }

    #[test]
    fn possible_origins_are_the_ancestors_that_are_no_members((entries, seeds) in entries_and_seeds()) {
        let graph = graph(&entries);
        let closure = closed(&graph, WalkMode::Causal, &seeds);
        let reaches_a_seed = |entry: usize| {
            let from = positions(&closed(&graph, WalkMode::Causal, &[entry].into()));
            !from.is_disjoint(&seeds)
        };
        let members = positions(&closure);
        let expected: Vec<Seq> = (0..entries.len())
            .filter(|entry| !members.contains(entry) && reaches_a_seed(*entry))
            .map(|entry| Seq(entry as u64))
            .collect();
        prop_assert_eq!(closure.possible_origins().collect::<Vec<_>>(), expected);
    }
}
