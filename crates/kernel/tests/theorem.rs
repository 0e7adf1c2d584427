//! Theorem 1 of MON §4.2 over random histories, against a naive reading of the log.
//!
//! After every request the whole memory is compared with what it was before: Part I, immutability;
//! Part II, taint blocking; Part III, session isolation. Labels are computed again from the log alone,
//! over everything that a session read rather than over the parents that the kernel chose.

#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail as tests do")]
#![expect(clippy::wildcard_enum_match_arm, reason = "names only what a question is about")]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{Actor, Person, Store, digest, message, produced};
use custody_kernel::key::Key;
use custody_kernel::label::{Channel, Label, Taint, Trust};
use custody_kernel::memory::item::{ContentRef, Item, Mode};
use custody_kernel::memory::rate::Limits;
use custody_kernel::memory::refusal::Refusal;
use custody_kernel::memory::review::Purpose;
use custody_kernel::namespace::{Namespace, Scope, Tenant};
use custody_kernel::principal::{Authority, Credential, PrincipalClaim, Role};
use custody_kernel::record::{
    AdminRequest, Answer, Author, DependencyRef, ObservationKind, Record, Request, SessionRequest,
    Value,
};
use custody_kernel::state::State;
use custody_log::{EntryId, Seq, SessionId};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

const KEYS: [&str; 7] = ["SOUL.md", "soul.md", "notes", "notes", "notes", "facts", "facts"];

/// Who asks for what humans decide: mostly the owner, the reviewer and the user in person.
const PEOPLE: [usize; 12] = [2, 2, 2, 7, 7, 1, 0, 3, 4, 5, 8, 9];

/// One request. Numbers choose among what there is, whatever there is.
#[derive(Debug, Clone)]
enum Step {
    Observe {
        session: usize,
        channel: Channel,
        parent: Option<usize>,
        content: Content,
    },
    Produce {
        session: usize,
        kind: ObservationKind,
    },
    Read {
        session: usize,
        place: usize,
        key: &'static str,
    },
    List {
        session: usize,
        shared: bool,
        after: Option<&'static str>,
    },
    Write {
        session: usize,
        place: usize,
        key: &'static str,
        content: Content,
        dep: Dep,
        queue: bool,
    },
    Delete {
        session: usize,
        place: usize,
        key: &'static str,
    },
    Promote {
        session: usize,
        from: usize,
        key: &'static str,
    },
    Approve {
        person: usize,
        pending: usize,
        shown: bool,
    },
    Deny {
        person: usize,
        pending: usize,
    },
    SetMode {
        person: usize,
        place: usize,
        key: &'static str,
        mode: Mode,
    },
    Adopt {
        person: usize,
        key: &'static str,
        content: Content,
    },
    Close {
        session: usize,
    },
    Wait,
}

#[derive(Debug, Clone, Copy)]
enum Content {
    New,
    Seen(usize),
}

#[derive(Debug, Clone, Copy)]
enum Dep {
    Nothing,
    Entry(usize),
    Missing,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let who = || 0..4_usize;
    let number = || 0..64_usize;
    let key = || select(&KEYS[..]);
    let person = || select(&PEOPLE[..]);
    let content = || prop_oneof![6 => Just(Content::New), 1 => number().prop_map(Content::Seen)];
    let dep = prop_oneof![
        9 => Just(Dep::Nothing),
        1 => number().prop_map(Dep::Entry),
        1 => Just(Dep::Missing),
    ];
    let channel = prop_oneof![
        8 => Just(Channel::System),
        8 => Just(Channel::User),
        1 => Just(Channel::Web),
        1 => Just(Channel::Tool),
    ];
    let kind =
        prop_oneof![2 => Just(ObservationKind::Completion), 1 => Just(ObservationKind::ToolCall)];
    let mode = select(&[Mode::Open, Mode::Reviewed, Mode::Immutable][..]);
    let observe = (who(), channel, prop::option::weighted(0.1, number()), content()).prop_map(
        |(session, channel, parent, content)| Step::Observe { session, channel, parent, content },
    );
    let produce = (who(), kind).prop_map(|(session, kind)| Step::Produce { session, kind });
    let read = (who(), number(), key()).prop_map(|(session, place, key)| Step::Read {
        session,
        place,
        key,
    });
    let list = (who(), any::<bool>(), prop::option::weighted(0.3, key()))
        .prop_map(|(session, shared, after)| Step::List { session, shared, after });
    let write = (who(), number(), key(), content(), dep, prop::bool::ANY).prop_map(
        |(session, place, key, content, dep, queue)| Step::Write {
            session,
            place,
            key,
            content,
            dep,
            queue,
        },
    );
    let delete = (who(), number(), key()).prop_map(|(session, place, key)| Step::Delete {
        session,
        place,
        key,
    });
    let promote =
        (who(), who(), key(), prop::bool::weighted(0.8)).prop_map(|(session, other, key, own)| {
            Step::Promote { session, from: if own { session } else { other }, key }
        });
    let approve = (person(), number(), prop::bool::weighted(0.9))
        .prop_map(|(person, pending, shown)| Step::Approve { person, pending, shown });
    let deny = (person(), number()).prop_map(|(person, pending)| Step::Deny { person, pending });
    let set_mode = (person(), number(), key(), mode)
        .prop_map(|(person, place, key, mode)| Step::SetMode { person, place, key, mode });
    let adopt = (person(), key(), content()).prop_map(|(person, key, content)| Step::Adopt {
        person,
        key,
        content,
    });
    let close = who().prop_map(|session| Step::Close { session });
    let step = prop_oneof![
        16 => observe,
        6 => produce,
        10 => read,
        5 => list,
        30 => write,
        12 => delete,
        16 => promote,
        16 => approve,
        2 => deny,
        6 => set_mode,
        2 => adopt,
        1 => close,
        1 => Just(Step::Wait),
    ];
    prop::collection::vec(step, 1..90)
}

type Memory = BTreeMap<(Namespace, Key), Item>;

struct World {
    store: Store,
    people: Vec<Authority>,
    sessions: Vec<SessionId>,
    contents: Vec<ContentRef>,
    naive: Naive,
}

impl World {
    /// A store whose identity file is locked, and a session of each of `kinds`.
    fn new(kinds: &[u8]) -> Self {
        let mut store = Store::with_limits(Limits { changes: Some(1000), ..Limits::default() });
        let (main, other) = (Tenant::main(), "other".parse().unwrap());
        let replay: Tenant = "replay-1".parse().unwrap();
        let ada = store.knows("ada", Role::User, &main, 7);
        let ruth = store.knows("ruth", Role::Reviewer, &main, 8);
        let bot = store.knows("bot", Role::Agent, &main, 9);
        let eve = store.knows("eve", Role::User, &other, 6);
        store.locks("SOUL.md");
        let owner = Person::new("owner", Role::Owner, &main, 1);
        let all = [
            ada.token(),
            ada.in_person(),
            store.owner.clone(),
            bot.token(),
            Authority::unproven(main),
            eve.token(),
            Authority::replayed(replay).unwrap(),
        ];
        let people = [all.as_slice(), &[ruth.in_person(), ruth.token(), owner.token()]].concat();
        let opened = |kind: &u8| {
            let authority = all[usize::from(*kind)].clone();
            store.open(authority, 100 + kind)
        };
        let sessions: Vec<SessionId> = kinds.iter().map(opened).collect();
        // The first one begins with nothing that says where its values come from.
        for session in &sessions[1..] {
            store.hears(*session, Channel::System);
        }
        let mut naive = Naive::default();
        for record in &store.log {
            naive.fold(record);
        }
        Self { store, people, sessions, contents: Vec::new(), naive }
    }

    fn memory(&self) -> Memory {
        let state = &self.store.state;
        let all = state.namespaces().into_iter().flat_map(|namespace| {
            let items = state.items_in(namespace).into_iter();
            items.map(move |(key, item)| ((namespace.clone(), key.clone()), item.clone()))
        });
        all.collect()
    }

    fn session(&self, n: usize) -> SessionId {
        self.sessions[n % self.sessions.len()]
    }

    /// Mostly the shared namespace or the session's own, sometimes another's.
    fn place(&self, session: usize, n: usize) -> Scope {
        match n % 9 {
            0..4 => Scope::Shared,
            4..8 => Scope::Session(self.session(session)),
            _ => Scope::Session(self.session(n / 9)),
        }
    }

    fn value(&self, content: Content) -> Value {
        match content {
            Content::Seen(n) if !self.contents.is_empty() => {
                Value::Of(self.contents[n % self.contents.len()])
            }
            Content::New | Content::Seen(_) => {
                Value::New(digest(&format!("text {}", self.store.log.len())))
            }
        }
    }

    fn entry(&self, n: usize) -> Seq {
        Seq(u64::try_from(n).unwrap() % self.store.state.len())
    }

    fn pending(&self, n: usize) -> (EntryId, Option<ContentRef>) {
        let waiting: Vec<_> = self.store.state.pending().map(|p| (p.proposal, p.value)).collect();
        let nothing = (EntryId::from_random([255; 16]), None);
        waiting.get(n.checked_rem(waiting.len()).unwrap_or(0)).copied().unwrap_or(nothing)
    }

    fn request(&self, step: &Step) -> (Actor, Request) {
        let session = |n: usize| Actor::Session(self.session(n));
        let person = |n: usize| Actor::Principal(self.people[n].clone());
        let named = |key: &str| key.parse::<Key>().unwrap();
        match *step {
            Step::Observe { session: by, channel, parent, content } => {
                let parents = parent.map(|n| self.entry(n)).into_iter().collect();
                (session(by), message(channel, Some(self.value(content)), parents))
            }
            Step::Produce { session: by, kind } => (session(by), produced(kind)),
            Step::Read { session: by, place, key } => (
                session(by),
                Request::Session(SessionRequest::Read {
                    scope: self.place(by, place),
                    key: named(key),
                }),
            ),
            Step::List { session: by, shared, after } => {
                let after = after.map(named);
                (session(by), Request::Session(SessionRequest::List { shared, after }))
            }
            Step::Write { session: by, place, key, content, dep, queue } => {
                let depends_on = match dep {
                    Dep::Nothing => vec![],
                    Dep::Entry(n) => vec![DependencyRef::Entry(self.entry(n))],
                    Dep::Missing => vec![DependencyRef::Missing(EntryId::from_random([254; 16]))],
                };
                let (scope, value) = (self.place(by, place), self.value(content));
                (
                    session(by),
                    Request::Session(SessionRequest::Write {
                        scope,
                        key: named(key),
                        value,
                        depends_on,
                        queue,
                    }),
                )
            }
            Step::Delete { session: by, place, key } => (
                session(by),
                Request::Session(SessionRequest::Delete {
                    scope: self.place(by, place),
                    key: named(key),
                }),
            ),
            Step::Promote { session: by, from, key } => (
                session(by),
                Request::Session(SessionRequest::Promote {
                    from: self.session(from),
                    key: named(key),
                }),
            ),
            Step::Approve { person: by, pending, shown } => {
                let (proposal, value) = self.pending(pending);
                let shown = if shown { value.map(|v| v.commitment) } else { Some(digest("else")) };
                (person(by), Request::Admin(AdminRequest::Approve { proposal, shown }))
            }
            Step::Deny { person: by, pending } => (
                person(by),
                Request::Admin(AdminRequest::Deny { proposal: self.pending(pending).0 }),
            ),
            Step::SetMode { person: by, place, key, mode } => {
                let scope = self.place(place, place);
                (
                    person(by),
                    Request::Admin(AdminRequest::SetMode {
                        tenant: Tenant::main(),
                        scope,
                        key: named(key),
                        mode,
                    }),
                )
            }
            Step::Adopt { person: by, key, content } => {
                let (tenant, path, value) = (Tenant::main(), String::new(), self.value(content));
                (
                    person(by),
                    Request::Admin(AdminRequest::AdoptFile {
                        tenant,
                        key: named(key),
                        path,
                        value,
                    }),
                )
            }
            Step::Close { session: by } => {
                (session(by), Request::Session(SessionRequest::CloseSession))
            }
            Step::Wait => (session(0), produced(ObservationKind::Completion)),
        }
    }

    /// Asks, and holds what happened against the theorem. Requests that cannot be asked do nothing.
    fn step(&mut self, step: &Step) {
        if matches!(step, Step::Wait) {
            self.store.clock += Limits::default().proposal_ttl_ms / 2;
        }
        let before = self.memory();
        let length = self.store.log.len();
        let (by, request) = self.request(step);
        if self.store.try_ask(by, request).is_err() {
            assert_eq!((self.store.log.len(), self.memory()), (length, before));
            return;
        }
        let record = self.store.log.last().unwrap().clone();
        let after = self.memory();
        self.naive.label_is_as_computed(&record);
        self.naive.parents_reach_everything_read(&record);
        self.part_one(&record, &before, &after);
        self.part_two(&record, &before, &after);
        self.naive.fold(&record);
        self.part_three(&record, &after);
        if let Request::Session(
            SessionRequest::Observe { content: Some(value), .. }
            | SessionRequest::Write { value, .. },
        ) = record.request
        {
            self.contents.push(value.content(record.seq));
        }
    }

    /// ι(m) = 1 ⟹ the value stays, whoever asks: an owner adopts a first value, or the same again (G11).
    fn part_one(&self, record: &Record, before: &Memory, after: &Memory) {
        let adopted = matches!(record.request, Request::Admin(AdminRequest::AdoptFile { .. }))
            && by_owner(record);
        for (place, item) in before.iter().filter(|(_, item)| item.mode == Mode::Immutable) {
            let value = after.get(place).and_then(|item| item.current);
            let is_same = match item.current {
                Some(version) if adopted => {
                    value.map(|value| value.content) == Some(version.content)
                }
                None if adopted => true,
                Some(_) | None => value == item.current,
            };
            assert!(is_same, "immutable {place:?} changed by {record:?}");
        }
        for (place, item) in after {
            let mode = before.get(place).map_or(Mode::Open, |item| item.mode);
            assert!(item.mode == mode || by_owner(record), "mode changed by {record:?}");
        }
    }

    /// ∃ b ∈ deps: τ(b) = 1 ⟹ the memory stays. Only a clean change on behalf of somebody trusted, a
    /// human's approval and an owner's adoption change it, and what they store is clean.
    fn part_two(&self, record: &Record, before: &Memory, after: &Memory) {
        let values = |memory: &Memory| -> BTreeMap<_, _> {
            memory.iter().filter_map(|(place, item)| Some((place.clone(), item.current?))).collect()
        };
        let (before, after) = (values(before), values(after));
        for (place, version) in &after {
            let clean = (Trust::Trusted, Taint::Clean);
            assert_eq!((version.provenance, version.taint), clean, "{place:?}");
        }
        if before == after {
            return;
        }
        assert_eq!(record.answer, Answer::Done);
        match &record.request {
            Request::Session(
                SessionRequest::Write { .. }
                | SessionRequest::Delete { .. }
                | SessionRequest::Promote { .. },
            ) => {
                assert!(!self.naive.taint_of(record), "tainted change {record:?}");
                assert_eq!(self.naive.who(record).role.trust(), Trust::Trusted);
            }
            Request::Admin(AdminRequest::Approve { proposal, shown }) => {
                let Author::Principal(who) = &record.by else { panic!("a session approved") };
                assert!(who.credential == Credential::Passphrase && who.role.is_human());
                let proposed = self.store.log.iter().find(|r| r.id == *proposal).unwrap();
                let requester = self.naive.who(proposed);
                assert!(
                    requester.principal != who.principal
                        || requester.credential != Credential::Passphrase,
                    "approved by the requester"
                );
                let value = match proposed.request {
                    Request::Session(SessionRequest::Write { value, .. }) => {
                        Some(value.content(proposed.seq).commitment)
                    }
                    _ => *shown,
                };
                assert_eq!(*shown, value, "the value that was shown");
            }
            Request::Admin(AdminRequest::AdoptFile { .. }) => assert!(by_owner(record)),
            other => panic!("{other:?} changed memory"),
        }
    }

    /// m.σ = σ_i ⟹ m ∉ visible(σ_j): whatever a namespace holds was put there by its own session or,
    /// in the shared one, by the tenant, and whatever a read found stood in a visible namespace.
    fn part_three(&self, record: &Record, after: &Memory) {
        for ((namespace, key), item) in after {
            let Some(version) = item.current else { continue };
            let home = &self.naive.homes[&version.entry];
            assert_eq!(home, &(namespace.clone(), key.clone()), "{version:?}");
            let proposal = self.naive.proposal(version.entry);
            let Author::Session(author) = proposal.by else {
                assert!(
                    matches!(proposal.request, Request::Admin(AdminRequest::AdoptFile { .. }))
                        && by_owner(proposal)
                );
                continue;
            };
            assert_eq!(self.naive.who(proposal).tenant, namespace.tenant, "another tenant's");
            if let Scope::Session(owner) = namespace.scope {
                assert_eq!(owner, author, "another session's");
            }
            // What stands in the shared namespace was shared by somebody trusted, however it came there (G11).
            let who = self.naive.who(proposal);
            let was_approved = proposal.seq != version.entry;
            let may_share = who.role.trust() == Trust::Trusted && !who.tenant.is_replay();
            if namespace.scope == Scope::Shared {
                assert!(was_approved || may_share, "shared by {who:?}");
                assert!(!namespace.tenant.is_replay(), "a replayed trace shared {version:?}");
            }
            if matches!(proposal.request, Request::Session(SessionRequest::Write { .. })) {
                let seen = &self.naive.seen[&author];
                assert!(seen.contains(&version.content), "a content its writer never saw");
            }
        }
        if let (Author::Session(id), Answer::Value { version, .. }) = (&record.by, &record.answer) {
            let (namespace, _) = &self.naive.homes[version];
            let own = Namespace::session(self.naive.who(record).tenant.clone(), *id);
            let shared = Namespace::shared(own.tenant.clone());
            assert!([own, shared].contains(namespace), "{namespace} read by {id}");
        }
        if let (
            Author::Session(id),
            Request::Session(SessionRequest::List { shared: in_shared, after: from }),
        ) = (&record.by, &record.request)
        {
            let own = Namespace::session(self.naive.who(record).tenant.clone(), *id);
            let shared = Namespace::shared(own.tenant.clone());
            let listed = after.iter().filter(|((namespace, key), item)| {
                let beside = after.get(&(shared.clone(), key.clone()));
                let locked = beside.is_some_and(|item| item.mode == Mode::Immutable);
                let is_there = if *in_shared { *namespace == shared } else { *namespace == own };
                let is_later = from.as_ref().is_none_or(|from| key > from);
                is_there && is_later && (*in_shared || !locked) && item.current.is_some()
            });
            let mut versions: Vec<Seq> = listed.filter_map(|(_, item)| item.entry()).collect();
            versions.sort_unstable();
            assert_eq!(record.parents, versions, "exactly the items that {id} sees");
        }
    }
}

fn by_owner(record: &Record) -> bool {
    matches!(&record.by, Author::Principal(who)
        if who.role == Role::Owner && who.credential == Credential::Passphrase)
}

/// What the log says, read as plainly as possible.
#[derive(Default)]
struct Naive {
    log: Vec<Record>,
    /// τ of every entry.
    tainted: Vec<bool>,
    /// For whom each session runs.
    sessions: BTreeMap<SessionId, PrincipalClaim>,
    /// Everything a session read or produced.
    heard: BTreeMap<SessionId, Vec<Seq>>,
    /// Every content that arrived in a session or was read in it.
    seen: BTreeMap<SessionId, Vec<ContentRef>>,
    /// Where each entry changed an item.
    homes: BTreeMap<Seq, (Namespace, Key)>,
}

impl Naive {
    fn at(&self, entry: Seq) -> &Record {
        &self.log[usize::try_from(entry.0).unwrap()]
    }

    fn is_tainted(&self, entry: Seq) -> bool {
        self.tainted[usize::try_from(entry.0).unwrap()]
    }

    fn who<'a>(&'a self, record: &'a Record) -> &'a PrincipalClaim {
        match &record.by {
            Author::Principal(who) => who,
            Author::Session(id) => &self.sessions[id],
        }
    }

    /// Everything that the asking session read before.
    fn heard(&self, record: &Record) -> &[Seq] {
        let Author::Session(id) = &record.by else { return &[] };
        self.heard.get(id).map_or(&[], Vec::as_slice)
    }

    /// The item that a request is about.
    fn target(&self, record: &Record) -> Option<(Namespace, Key)> {
        let tenant = self.who(record).tenant.clone();
        let shared = Namespace::shared(tenant.clone());
        match &record.request {
            Request::Session(
                SessionRequest::Write { scope, key, .. } | SessionRequest::Delete { scope, key },
            ) => Some((Namespace { tenant, scope: *scope }, key.clone())),
            Request::Session(SessionRequest::Promote { key, .. }) => Some((shared, key.clone())),
            Request::Admin(AdminRequest::AdoptFile { tenant, key, .. }) => {
                Some((Namespace::shared(tenant.clone()), key.clone()))
            }
            Request::Admin(AdminRequest::Approve { proposal, .. }) => {
                self.target(self.waiting(*proposal)?)
            }
            _ => None,
        }
    }

    /// The proposal of that id, while nobody decided it.
    fn waiting(&self, id: EntryId) -> Option<&Record> {
        let decided = self.log.iter().any(|record| match &record.request {
            Request::Admin(
                AdminRequest::Approve { proposal, .. } | AdminRequest::Deny { proposal },
            ) => *proposal == id && record.answer == Answer::Done,
            _ => false,
        });
        let proposed = |r: &&Record| r.id == id && matches!(r.answer, Answer::Pending { .. });
        self.log.iter().find(proposed).filter(|_| !decided)
    }

    /// The record that asked for what stands at `entry`, if somebody else released it.
    fn proposal(&self, entry: Seq) -> &Record {
        let record = self.at(entry);
        match &record.request {
            Request::Admin(AdminRequest::Approve { proposal, .. }) => {
                self.log.iter().find(|record| record.id == *proposal).unwrap()
            }
            _ => record,
        }
    }

    /// τ of a version: what a human released or an owner adopted is clean, whatever it came from.
    fn version_is_tainted(&self, entry: Seq) -> bool {
        match self.at(entry).request {
            Request::Admin(AdminRequest::Approve { .. } | AdminRequest::AdoptFile { .. }) => false,
            _ => self.is_tainted(entry),
        }
    }

    /// Rule 8: τ = max over everything that the entry was made from.
    fn taint_of(&self, record: &Record) -> bool {
        let any = |entries: &[Seq]| entries.iter().any(|entry| self.is_tainted(*entry));
        let arrival = |value: &Value| match value {
            Value::New(_) => vec![],
            Value::Of(content) => vec![content.arrival],
        };
        match &record.request {
            Request::Session(SessionRequest::Observe {
                kind,
                channel,
                lowered,
                content,
                parents,
                ..
            }) => {
                let mut from = parents.clone();
                from.extend(content.iter().flat_map(arrival));
                if kind.is_produced() {
                    from.extend(self.heard(record));
                }
                let untrusted = match channel {
                    Channel::System | Channel::Memory => false,
                    Channel::Model => from.is_empty(),
                    Channel::User => self.who(record).role.trust() == Trust::Untrusted,
                    _ => true,
                };
                untrusted || *lowered || any(&from)
            }
            Request::Session(SessionRequest::Read { .. }) => match record.answer {
                Answer::Value { version, .. } => self.version_is_tainted(version),
                _ => false,
            },
            Request::Session(SessionRequest::List { .. }) => {
                record.parents.iter().any(|version| self.version_is_tainted(*version))
            }
            Request::Session(SessionRequest::Write { value, depends_on, .. }) => {
                let mut from = self.heard(record).to_vec();
                from.extend(arrival(value));
                for named in depends_on {
                    match named {
                        DependencyRef::Entry(entry) if self.is_within(record, *entry) => {
                            from.push(*entry);
                        }
                        DependencyRef::Entry(_) | DependencyRef::Missing(_) => return true,
                    }
                }
                from.is_empty() || any(&from)
            }
            Request::Session(SessionRequest::Delete { .. }) => {
                self.heard(record).is_empty() || any(self.heard(record))
            }
            Request::Session(SessionRequest::Promote { from, key }) => {
                let source = Namespace::session(self.who(record).tenant.clone(), *from);
                let place = (source, key.clone());
                let change = self.homes.iter().rfind(|(_, home)| **home == place).unwrap().0;
                self.version_is_tainted(*change) || any(self.heard(record))
            }
            Request::Admin(
                AdminRequest::Approve { proposal, .. } | AdminRequest::Deny { proposal },
            ) => self.waiting(*proposal).is_some_and(|proposed| self.is_tainted(proposed.seq)),
            Request::Admin(AdminRequest::AdoptFile { value, .. }) => any(&arrival(value)),
            _ => false,
        }
    }

    fn is_within(&self, record: &Record, entry: Seq) -> bool {
        let named = self.at(entry);
        let tenant = match &named.request {
            Request::Admin(
                AdminRequest::AdoptFile { tenant, .. } | AdminRequest::SetMode { tenant, .. },
            ) => tenant,
            Request::Admin(AdminRequest::Approve { .. } | AdminRequest::Deny { .. })
                if !named.parents.is_empty() =>
            {
                &self.who(self.at(named.parents[0])).tenant
            }
            _ => &self.who(named).tenant,
        };
        *tenant == self.who(record).tenant
    }

    fn label_is_as_computed(&self, record: &Record) {
        let expected = self.taint_of(record);
        assert_eq!(record.label.is_tainted(), expected, "{record:?}");
        assert_eq!(record.label.trust() == Trust::Untrusted, expected, "{record:?}");
    }

    /// Assumption A3: what a model produces or asks stands below everything it had read.
    fn parents_reach_everything_read(&self, record: &Record) {
        let depends = match &record.request {
            Request::Session(SessionRequest::Observe { kind, .. }) => kind.is_produced(),
            Request::Session(
                SessionRequest::Write { .. }
                | SessionRequest::Delete { .. }
                | SessionRequest::Promote { .. },
            ) => true,
            _ => false,
        };
        let mut ancestors = BTreeSet::new();
        let mut next = record.parents.clone();
        while let Some(entry) = next.pop() {
            if ancestors.insert(entry) {
                next.extend(&self.at(entry).parents);
            }
        }
        let missed = self.heard(record).iter().find(|entry| !ancestors.contains(entry));
        assert!(!depends || missed.is_none(), "{missed:?} is no ancestor of {record:?}");
    }

    fn fold(&mut self, record: &Record) {
        let tainted = self.taint_of(record);
        if let (Some(home), Answer::Done) = (self.target(record), &record.answer) {
            self.homes.insert(record.seq, home);
        }
        self.tainted.push(tainted);
        self.log.push(record.clone());
        if let (Request::Admin(AdminRequest::OpenSession { session, .. }), Author::Principal(who)) =
            (&record.request, &record.by)
        {
            self.sessions.insert(*session, who.clone());
        }
        let Author::Session(id) = record.by else { return };
        let arrived = match (&record.request, &record.answer) {
            (
                Request::Session(SessionRequest::Observe {
                    content: Some(value @ Value::New(_)),
                    ..
                }),
                _,
            )
            | (Request::Session(SessionRequest::Write { value: value @ Value::New(_), .. }), _) => {
                Some(value.content(record.seq))
            }
            (_, Answer::Value { content, .. }) => Some(*content),
            _ => None,
        };
        self.seen.entry(id).or_default().extend(arrived);
        let listed = matches!(record.request, Request::Session(SessionRequest::List { .. }));
        if matches!(record.request, Request::Session(SessionRequest::Observe { .. }))
            || matches!(record.answer, Answer::Value { .. })
            || (listed && !record.parents.is_empty())
        {
            self.heard.entry(id).or_default().push(record.seq);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 384,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn theorem_1_holds_after_every_step(
        kinds in subsequence(vec![0_u8, 1, 2, 3, 4, 5, 6], 2..=4),
        steps in steps(),
    ) {
        let mut world = World::new(&kinds);
        for step in &steps {
            world.step(step);
        }
    }

    #[test]
    fn a_log_recounts_and_no_record_of_it_can_be_altered(
        kinds in subsequence(vec![0_u8, 1, 2, 3, 4, 5, 6], 2..=4),
        steps in steps(),
        victim in any::<prop::sample::Index>(),
    ) {
        let mut world = World::new(&kinds);
        for step in &steps {
            world.step(step);
        }
        let log = &world.store.log;
        let victim = victim.index(log.len());
        let mut state = State::default();
        for (at, record) in log.iter().enumerate() {
            if at == victim {
                refuses_every_alteration(&mut state, record);
            }
            let bytes = record.to_bytes().unwrap();
            state.recount(&Record::from_bytes(&bytes).unwrap()).unwrap();
        }
        prop_assert_eq!(state.state_hash(), world.store.state.state_hash());
        prop_assert_eq!(format!("{:?}", state.items_in(&Namespace::shared(Tenant::main()))),
            format!("{:?}", world.store.state.items_in(&Namespace::shared(Tenant::main()))));
    }

    #[test]
    fn hostile_bytes_never_panic_and_leave_no_trace_when_they_are_refused(
        steps in steps(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        swap in any::<bool>(),
    ) {
        let mut world = World::new(&[0, 4]);
        for step in &steps {
            world.step(step);
        }
        for record in &world.store.log {
            let mut bytes = record.to_bytes().unwrap();
            for (at, byte) in &edits {
                let at = at.index(bytes.len());
                // Digits for digits keeps most of them records, with other numbers in them.
                bytes[at] = if swap && bytes[at].is_ascii_digit() { b'0' + byte % 10 } else { *byte };
            }
            let Ok(hostile) = Record::from_bytes(&bytes) else { continue };
            for seq in [hostile.seq, Seq(world.store.state.len())] {
                let hostile = Record { seq, ..hostile.clone() };
                let mut state = world.store.state.clone();
                if state.recount(&hostile).is_err() {
                    prop_assert_eq!(state.len(), world.store.state.len());
                    prop_assert_eq!(state.state_hash(), world.store.state.state_hash());
                }
                let mut state = world.store.state.clone();
                let grew = u64::from(state.fold(&hostile).is_ok());
                prop_assert_eq!(state.len(), world.store.state.len() + grew);
            }
        }
    }
}

/// Every alteration of one field of `record` is refused by a recount, and those that no log can hold
/// by folding as well. The state stays as it was.
fn refuses_every_alteration(state: &mut State, record: &Record) {
    let before = format!("{state:?}");
    let content = ContentRef { arrival: Seq(0), commitment: digest("other") };
    let answers = [
        Answer::Done,
        Answer::NotFound,
        Answer::Value { version: Seq(0), content },
        Answer::Pending { purpose: Purpose::Review, expires: record.at, because: None },
        Answer::Pending { purpose: Purpose::Declassify, expires: record.at, because: None },
        Answer::Refused(Refusal::NeedsOwner),
        Answer::Refused(Refusal::NotVisible { key: "notes".parse().unwrap() }),
    ];
    let ingress = |trust| Channel::ALL.map(|channel| Label::at_ingress(channel, trust));
    let labels = [ingress(Trust::Trusted), ingress(Trust::Untrusted)].concat();
    let mut altered: Vec<Record> = Vec::new();
    altered.extend(answers.map(|answer| Record { answer, ..record.clone() }));
    altered.extend(labels.iter().map(|label| Record { label: *label, ..record.clone() }));
    altered.push(Record { label: record.label.lowered(), ..record.clone() });
    altered.push(Record { v: 2, ..record.clone() });
    for at in 0..=record.parents.len() {
        let mut more = record.parents.clone();
        more.insert(at, Seq(0));
        altered.push(Record { parents: more, ..record.clone() });
        let mut fewer = record.parents.clone();
        if at < fewer.len() {
            fewer.remove(at);
            altered.push(Record { parents: fewer, ..record.clone() });
        }
    }
    for after in [None, Some(Seq(0)), Some(record.seq)] {
        altered.push(Record { after, ..record.clone() });
    }
    for altered in altered.iter().filter(|altered| *altered != record) {
        assert!(state.recount(altered).is_err(), "recounted: {altered:?}\ninstead of {record:?}");
    }
    let stranger = Author::Session(SessionId::from_random([253; 16]));
    let mut unordered = record.parents.clone();
    unordered.extend([Seq(0), Seq(0)]);
    let impossible = [
        Record { seq: Seq(record.seq.0 + 1), ..record.clone() },
        Record { seq: Seq(record.seq.0.wrapping_sub(1)), ..record.clone() },
        Record { parents: vec![record.seq], ..record.clone() },
        Record { parents: vec![Seq(u64::MAX)], ..record.clone() },
        Record { parents: unordered, ..record.clone() },
        Record { by: stranger, ..record.clone() },
    ];
    for record in &impossible {
        assert!(state.fold(record).is_err(), "folded: {record:?}");
        assert!(state.recount(record).is_err(), "recounted: {record:?}");
    }
    if let Some(earlier) = state.now().0.checked_sub(1) {
        let early = Record { at: custody_log::Timestamp(earlier), ..record.clone() };
        assert!(state.fold(&early).is_err() && state.recount(&early).is_err());
    }
    assert_eq!(format!("{state:?}"), before);
}
