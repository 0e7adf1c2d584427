//! A join stands for what a session had read (G7): a graph with joins says the same of every entry as the graph in
//! which each entry names its whole context.

#![allow(clippy::unwrap_used, reason = "a helper of a test may fail it")]

use custody_log::Seq;
use custody_planner::{Closure, Graph, GraphNode, WalkMode, count_reached};
use proptest::prelude::*;

/// What happens in a history.
#[derive(Debug, Clone)]
enum Event {
    /// Something untrusted or trusted is read in this session, made from an earlier entry or from none.
    Read { session: usize, from: Option<usize> },
    /// The model produces something out of its context; the context may be joined before that.
    Produce { session: usize, joins: bool },
}

/// The same history in both forms.
struct Both {
    expanded: Graph,
    joined: Graph,
    /// The position of each entry of `expanded` in `joined`.
    places: Vec<Seq>,
}

const SESSIONS: usize = 3;

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..SESSIONS, proptest::option::of(0..200_usize))
            .prop_map(|(session, from)| Event::Read { session, from }),
        2 => (0..SESSIONS, any::<bool>())
            .prop_map(|(session, joins)| Event::Produce { session, joins }),
    ]
}

fn both(events: &[Event]) -> Both {
    let mut expanded: Vec<Vec<Seq>> = Vec::new();
    // Each with whether it is a join.
    let mut joined: Vec<(Vec<Seq>, bool)> = Vec::new();
    let mut places = Vec::new();
    let mut read: [Vec<Seq>; SESSIONS] = Default::default();
    let mut context: [Vec<Seq>; SESSIONS] = Default::default();
    for event in events {
        let entry = Seq(expanded.len() as u64);
        let session = match event {
            Event::Read { session, from } => {
                let from = from.and_then(|from| from.checked_rem(expanded.len()));
                let place = from.and_then(|from| places.get(from).copied());
                expanded.push(from.map(|from| Seq(from as u64)).into_iter().collect());
                joined.push((place.into_iter().collect(), false));
                *session
            }
            Event::Produce { session, joins } => {
                if *joins && !context[*session].is_empty() {
                    let join = Seq(joined.len() as u64);
                    joined.push((std::mem::take(&mut context[*session]), true));
                    context[*session].push(join);
                }
                expanded.push(read[*session].clone());
                joined.push((context[*session].clone(), false));
                *session
            }
        };
        let place = Seq(joined.len() as u64 - 1);
        places.push(place);
        read[session].push(entry);
        context[session].push(place);
    }
    let node = |parents, is_join| GraphNode { parents, is_join, ..GraphNode::default() };
    Both {
        expanded: Graph::new(expanded.iter().map(|parents| node(parents, false))).unwrap(),
        joined: Graph::new(joined.iter().map(|(parents, is_join)| node(parents, *is_join)))
            .unwrap(),
        places,
    }
}

proptest! {
    #[test]
    fn g7_a_closure_over_joins_is_that_over_the_whole_context(
        events in proptest::collection::vec(event(), 1..60),
        seeds in proptest::collection::vec(0..60_usize, 1..4),
    ) {
        let Both { expanded, joined, places } = both(&events);
        let seeds: Vec<usize> = seeds.iter().map(|seed| seed % places.len()).collect();
        let there: Vec<Seq> = seeds.iter().map(|seed| Seq(*seed as u64)).collect();
        let here: Vec<Seq> = seeds.iter().map(|seed| places[*seed]).collect();
        let place = |entry: Seq| places[usize::try_from(entry.0).unwrap()];
        for mode in [WalkMode::Causal, WalkMode::RvuV1, WalkMode::RvuV2] {
            let whole = Closure::new(&expanded, mode, &there).unwrap();
            let found = Closure::new(&joined, mode, &here).unwrap();
            let expected: Vec<(Seq, u32)> =
                whole.members().map(|member| (place(member.entry), member.depth)).collect();
            let members: Vec<(Seq, u32)> =
                found.members().map(|member| (member.entry, member.depth)).collect();
            prop_assert_eq!(members, expected);
            let expected: Vec<Seq> = whole.possible_origins().map(place).collect();
            prop_assert_eq!(found.possible_origins().collect::<Vec<_>>(), expected);
            if mode == WalkMode::Causal {
                prop_assert_eq!(count_reached(&found).unwrap(), count_reached(&whole).unwrap());
                for member in found.members() {
                    let path = found.path(member.entry);
                    prop_assert_eq!(path.len(), member.depth as usize + 1);
                }
            }
        }
    }
}
