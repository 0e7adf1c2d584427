//! A join stands for what a session had read (G7): with joins at any place, every later entry has the label, the answer
//! and the standing that it has where each entry names its whole context.

#![allow(clippy::unwrap_used, reason = "a helper of a test may fail it")]

mod common;

use common::{Actor, Store, produced};
use custody_kernel::context::MAX_CONTEXT_PARENTS;
use custody_kernel::evidence::{Evidence, Finding};
use custody_kernel::label::{Channel, Label};
use custody_kernel::namespace::{Scope, Tenant};
use custody_kernel::principal::Role;
use custody_kernel::record::{
    AdminRequest, Answer, ObservationKind, Request, SessionRequest, Value,
};
use custody_kernel::state::{AskError, State};
use custody_kernel::step::{Indicated, Recover, RecoveryStep};
use custody_log::{Digest, EntryId, IncidentId, Seq, SessionId};
use proptest::prelude::*;

const SESSIONS: usize = 2;

/// What happens in a history.
#[derive(Debug, Clone)]
enum Event {
    Reads {
        session: usize,
        is_page: bool,
    },
    Calls {
        session: usize,
        joins: bool,
    },
    Completes {
        session: usize,
        joins: bool,
    },
    Writes {
        session: usize,
        joins: bool,
        queue: bool,
    },
    /// An incident contains the entry with this number and all that was made from it.
    Contains {
        entry: usize,
    },
    /// What an incident contained is restored.
    Restores,
    /// A reviewer approves the oldest proposal that waits.
    Approves,
}

fn event() -> impl Strategy<Value = Event> {
    let session = 0..SESSIONS;
    prop_oneof![
        4 => (session.clone(), any::<bool>())
            .prop_map(|(session, is_page)| Event::Reads { session, is_page }),
        3 => (session.clone(), any::<bool>())
            .prop_map(|(session, joins)| Event::Calls { session, joins }),
        1 => (session.clone(), any::<bool>())
            .prop_map(|(session, joins)| Event::Completes { session, joins }),
        3 => (session, any::<bool>(), any::<bool>())
            .prop_map(|(session, joins, queue)| Event::Writes { session, joins, queue }),
        1 => (0..100_usize).prop_map(|entry| Event::Contains { entry }),
        1 => Just(Event::Restores),
        1 => Just(Event::Approves),
    ]
}

/// A store in which a history happens. Its entries are numbered without joins.
struct History {
    store: Store,
    sessions: Vec<SessionId>,
    /// The position of each entry.
    entries: Vec<Seq>,
    waiting: Vec<EntryId>,
    incidents: u8,
    contained: Option<(IncidentId, Vec<Seq>)>,
    has_joins: bool,
}

/// What is compared of an entry: its answer without positions, its label, and whether it is out.
type Outcome = (String, Label, bool);

impl History {
    fn of(events: &[Event], has_joins: bool) -> Self {
        let (mut store, ada, first) = Store::with_ada();
        let sessions = vec![first, store.open(ada.token(), 2)];
        let (entries, waiting) = (Vec::new(), Vec::new());
        let mut history =
            Self { store, sessions, entries, waiting, incidents: 0, contained: None, has_joins };
        events.iter().for_each(|event| history.happens(event));
        history
    }

    fn happens(&mut self, event: &Event) {
        match *event {
            Event::Reads { session, is_page } => {
                let channel = if is_page { Channel::Web } else { Channel::User };
                let entry = self.store.hears(self.sessions[session], channel);
                self.entries.push(entry);
            }
            Event::Calls { session, joins } => {
                self.asks(session, joins, produced(ObservationKind::ToolCall));
            }
            Event::Completes { session, joins } => {
                self.asks(session, joins, produced(ObservationKind::Completion));
            }
            Event::Writes { session, joins, queue } => {
                let key = format!("k{}", self.entries.len());
                let value = Value::New(Digest::of(key.as_bytes()));
                let (scope, key) = (Scope::Shared, key.parse().unwrap());
                let write = SessionRequest::Write { scope, key, value, depends_on: vec![], queue };
                self.asks(session, joins, Request::Session(write));
                if matches!(self.store.log.last().unwrap().answer, Answer::Pending { .. }) {
                    self.waiting.push(self.store.last_id());
                }
            }
            Event::Contains { entry } => self.contains(entry),
            Event::Restores => {
                if let Some((id, members)) = self.contained.take() {
                    self.recovers(id, RecoveryStep::Restore { entries: members });
                }
            }
            Event::Approves => self.approves(),
        }
    }

    fn asks(&mut self, session: usize, joins: bool, request: Request) {
        let id = self.sessions[session];
        if joins && self.has_joins {
            let join = Request::Session(SessionRequest::JoinContext);
            // A session that has read nothing has no context to join.
            let joined = self.store.try_ask(Actor::Session(id), join);
            assert!(matches!(joined, Ok(Answer::Done) | Err(AskError::EmptyContext)), "{joined:?}");
        }
        self.store.ask(Actor::Session(id), request);
        self.entries.push(self.store.last_seq());
    }

    fn contains(&mut self, entry: usize) {
        let Some(number) = entry.checked_rem(self.entries.len()) else { return };
        if self.contained.is_some() {
            return;
        }
        let seed = self.entries[number];
        self.incidents += 1;
        let id = IncidentId::from_random([self.incidents; 16]);
        let finding = Finding { entry: seed, indicator: 0, by: Evidence::Id };
        let indicators = Value::New(Digest([1; 32]));
        self.recovers(id, RecoveryStep::Open(Indicated { indicators, findings: vec![finding] }));
        let members = self.descendants(seed);
        self.recovers(id, RecoveryStep::Contain { members: members.clone() });
        self.contained = Some((id, members));
    }

    /// `seed` and all that was made from it, joins left out.
    fn descendants(&self, seed: Seq) -> Vec<Seq> {
        let mut reached = vec![seed];
        for record in &self.store.log {
            if record.parents.iter().any(|parent| reached.contains(parent)) {
                reached.push(record.seq);
            }
        }
        reached.retain(|entry| !self.store.state.is_join(*entry));
        reached
    }

    fn recovers(&mut self, incident: IncidentId, step: RecoveryStep) {
        let recover = Box::new(Recover { incident, step });
        let answer = self.store.by_owner(Request::Admin(AdminRequest::Recover(recover)));
        assert_eq!(answer, Answer::Done);
    }

    fn approves(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let proposal = self.waiting.remove(0);
        let pending = self.store.state.pending_by_id(proposal);
        let shown = pending.and_then(|pending| pending.value).map(|value| value.commitment);
        let reviewer = self.store.knows_reviewer();
        let request = Request::Admin(AdminRequest::Approve { proposal, shown });
        // A proposal that recovery ended is approved by nobody, with joins or without.
        let _answer = self.store.try_ask(Actor::Principal(reviewer), request);
        self.entries.push(self.store.last_seq());
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let outcome = |entry: &Seq| {
            let record = &self.store.log[usize::try_from(entry.0).unwrap()];
            (common::verdict(&record.answer), record.label, self.store.state.is_out(*entry))
        };
        self.entries.iter().map(outcome).collect()
    }
}

impl Store {
    /// Ben, who reviews in person.
    fn knows_reviewer(&mut self) -> custody_kernel::principal::Authority {
        match self.state.principal("ben") {
            Some(_) => common::Person::new("ben", Role::Reviewer, &Tenant::main(), 9).in_person(),
            None => self.knows("ben", Role::Reviewer, &Tenant::main(), 9).in_person(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn g7_labels_answers_and_standings_are_those_over_the_whole_context(
        events in proptest::collection::vec(event(), 1..50),
    ) {
        let (joined, expanded) = (History::of(&events, true), History::of(&events, false));
        prop_assert_eq!(joined.outcomes(), expanded.outcomes());
        let taints = |history: &History| -> Vec<bool> {
            let context = |id: &SessionId| &history.store.state.session(*id).unwrap().context;
            history.sessions.iter().map(|id| context(id).label().is_tainted()).collect()
        };
        prop_assert_eq!(taints(&joined), taints(&expanded));
        // Whoever repeats the record comes to the same standings.
        let (mut folded, mut recounted) = (State::default(), State::default());
        for record in &joined.store.log {
            folded.fold(record).unwrap();
            recounted.recount(record).unwrap();
        }
        for record in &joined.store.log {
            let standing = joined.store.state.standing(record.seq);
            prop_assert_eq!(folded.standing(record.seq), standing);
            prop_assert_eq!(recounted.standing(record.seq), standing);
        }
    }
}

#[test]
fn g7_a_join_keeps_what_is_produced_narrow() {
    let (mut store, _, session) = Store::with_ada();
    for _ in 0..3 * MAX_CONTEXT_PARENTS {
        store.hears(session, Channel::Web);
    }
    assert!(store.state.session(session).unwrap().context.is_wide());
    store.observes(session, Request::Session(SessionRequest::JoinContext));
    let join = store.last_seq();
    assert!(store.state.is_join(join));
    let called = store.observes(session, produced(ObservationKind::ToolCall));
    assert_eq!(store.log[usize::try_from(called.0).unwrap()].parents, [join]);
}
