//! MON rules 1–9 and the design's additions, as tables: every combination of what the rules look at,
//! and the rule that is expected to speak.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::{Actor, Person, Store, digest, is_taken, message, set_mode, signed, verdict, write};
use custody_kernel::label::{Channel, Taint, Trust};
use custody_kernel::memory::item::Mode;
use custody_kernel::memory::rate::Limits;
use custody_kernel::memory::refusal::Refusal;
use custody_kernel::namespace::{Namespace, Scope, Tenant};
use custody_kernel::principal::{Authority, Role};
use custody_kernel::record::{
    AdminRequest, Answer, Author, Record, Request, SessionRequest, Value,
};
use custody_kernel::state::AskError;
use custody_log::{EntryId, LogKey, Seq, SessionId};

const BOTH: [bool; 2] = [false, true];

/// Puts an item where no rule would have let this session put one, with the label of `like`.
fn plant(store: &mut Store, session: SessionId, scope: Scope, like: Seq) {
    let last = store.log.last().unwrap().clone();
    let record = Record {
        seq: Seq(store.state.len()),
        id: EntryId::from_random([200; 16]),
        by: Author::Session(session),
        request: write(scope, "item", Value::New(digest("planted"))),
        answer: Answer::Done,
        label: store.state.label(like).unwrap(),
        parents: vec![like],
        after: None,
        ..last
    };
    let record = signed(&store.state, record);
    store.state.fold(&record).unwrap();
    store.log.push(record);
}

/// A session with or without somebody trusted behind it, and a clean shared `item`.
fn setting(untrusted: bool) -> (Store, SessionId, Seq) {
    let (mut store, ada, first) = Store::with_ada();
    let behind = if untrusted { Authority::unproven(Tenant::main()) } else { ada.token() };
    let session = store.open(behind, 2);
    let clean = store.hears(session, Channel::System);
    plant(&mut store, first, Scope::Shared, clean);
    (store, session, clean)
}

#[test]
fn a_write_and_a_delete_are_refused_by_the_first_of_rules_3_4_and_5_that_applies() {
    for (immutable, tainted, untrusted) in combinations() {
        let expected = match (immutable, tainted, untrusted) {
            (true, _, _) => "rule 3",
            (false, true, _) => "rule 4",
            (false, false, true) => "rule 5",
            (false, false, false) => "accepted",
        };
        for deletes in BOTH {
            let (mut store, session, _) = setting(untrusted);
            if immutable {
                store.sets("item", Mode::Immutable);
            }
            if tainted {
                store.hears(session, Channel::Web);
            }
            let before = store.state.state_hash();
            let answer = if deletes {
                store.deletes(session, Scope::Shared, "item")
            } else {
                store.writes(session, Scope::Shared, "item", false)
            };
            let case = format!(
                "immutable {immutable}, tainted {tainted}, untrusted {untrusted}, delete {deletes}"
            );
            assert_eq!(verdict(&answer), expected, "{case}");
            assert_eq!(store.state.state_hash() == before, expected != "accepted", "{case}");
        }
    }
}

#[test]
fn a_promotion_is_refused_by_the_first_of_rules_3_7_4_and_7_that_applies() {
    for (immutable, tainted, untrusted) in combinations() {
        for tainted_item in BOTH {
            let (mut store, session, clean) = setting(untrusted);
            let page = store.hears(session, Channel::Web);
            // That page was heard only to have its label; the promotion is asked in a fresh session.
            let nobody = Authority::unproven(Tenant::main());
            let behind = if untrusted { nobody } else { store.owner.clone() };
            let session = store.open(behind, 3);
            let like = if tainted_item { page } else { clean };
            plant(&mut store, session, Scope::Session(session), like);
            if immutable {
                store.sets("item", Mode::Immutable);
            }
            if tainted {
                store.hears(session, Channel::Web);
            }
            let expected = match (immutable, tainted_item, tainted, untrusted) {
                (true, ..) => "immutable rule 3",
                (false, true, ..) => "tainted rule 7",
                (false, false, true, _) => "tainted rule 4",
                (false, false, false, true) => "untrusted rule 7",
                (false, false, false, false) => "accepted",
            };
            let answer = store.promotes(session, session, "item");
            let found = answer.refusal().map_or_else(
                || verdict(&answer),
                |refusal| format!("{} {}", refusal.word(), refusal.rule()),
            );
            let case = (immutable, tainted_item, tainted, untrusted);
            assert_eq!(found, expected, "{case:?}");
        }
    }
}

fn combinations() -> impl Iterator<Item = (bool, bool, bool)> {
    BOTH.into_iter()
        .flat_map(|a| BOTH.into_iter().flat_map(move |b| BOTH.into_iter().map(move |c| (a, b, c))))
}

#[test]
fn rule_5_asks_for_whom_the_session_runs() {
    let cases = [
        (Some(Role::Owner), "accepted"),
        (Some(Role::Reviewer), "accepted"),
        (Some(Role::User), "accepted"),
        (Some(Role::Agent), "rule 5"),
        (Some(Role::Service), "rule 5"),
        (None, "rule 5"),
    ];
    for (role, expected) in cases {
        let mut store = Store::new();
        let behind = match role {
            Some(role) => store.knows("somebody", role, &Tenant::main(), 4).token(),
            None => Authority::unproven(Tenant::main()),
        };
        let session = store.open(behind, 1);
        store.hears(session, Channel::System);
        assert_eq!(
            verdict(&store.writes(session, Scope::Shared, "notes", false)),
            expected,
            "{role:?}"
        );
        let heard = store.hears(session, Channel::User);
        let trusted = expected == "accepted";
        assert_eq!(store.state.label(heard).unwrap().is_tainted(), !trusted, "{role:?} speaks");
    }
}

#[test]
fn every_untrusted_channel_closes_memory_and_giving_up_trust_does_too() {
    for channel in Channel::ALL {
        for lowered in BOTH {
            let (mut store, _, session) = Store::with_ada();
            let Request::Session(SessionRequest::Observe {
                kind, content, origin, parents, ..
            }) = message(channel, None, vec![])
            else {
                panic!("a message is observed")
            };
            let observe = Request::Session(SessionRequest::Observe {
                kind,
                channel,
                lowered,
                content,
                origin,
                parents,
                part: None,
                discounted: Vec::new(),
            });
            let outcome = store.try_ask(Actor::Session(session), observe);
            if matches!(channel, Channel::Model | Channel::Memory) {
                assert!(matches!(outcome, Err(AskError::Channel { .. })), "{channel}");
                continue;
            }
            let clean = matches!(channel, Channel::System | Channel::User) && !lowered;
            let answer = store.writes(session, Scope::Shared, "notes", false);
            let expected = if clean { "accepted" } else { "rule 4" };
            assert_eq!(verdict(&answer), expected, "{channel}, lowered {lowered}");
        }
    }
}

#[test]
fn rule_1_gives_a_read_the_label_of_the_version_read() {
    let (mut store, ada, session) = Store::with_ada();
    store.writes(session, Scope::Shared, "clean", false);
    let page = store.hears(session, Channel::Web);
    plant(&mut store, session, Scope::Shared, page);
    let version = |store: &Store, key: &str| store.shared(key).unwrap().entry;
    for (key, tainted, id) in [("clean", false, 2), ("item", true, 3)] {
        let reader = store.open(ada.token(), id);
        let expected = version(&store, key);
        let answer = store.reads(reader, Scope::Shared, key);
        assert!(matches!(answer, Answer::Value { version, .. } if version == expected), "{key}");
        let read = store.log.last().unwrap();
        assert_eq!((read.label.channel(), &read.parents), (Channel::Memory, &vec![expected]));
        let label = store.state.session(reader).unwrap().context.label();
        assert_eq!(label.is_tainted(), tainted, "{key}");
    }
}

#[test]
fn rules_2_and_6_store_a_clean_version_and_keep_the_mode_and_the_source() {
    let (mut store, _, session) = Store::with_ada();
    let own = Namespace::session(Tenant::main(), session);
    store.writes(session, Scope::Session(session), "notes", false);
    let source = store.version(&own, "notes").unwrap();
    assert_eq!(store.promotes(session, session, "notes"), Answer::Done);
    let shared = store.shared("notes").unwrap();
    assert_eq!(shared.content, source.content, "the very content, by reference to its arrival");
    assert_eq!((shared.provenance, shared.taint), (Trust::Trusted, Taint::Clean));
    assert_eq!(store.version(&own, "notes"), Some(source));
    assert!(store.log.last().unwrap().parents.contains(&source.entry));
}

#[test]
fn a_promotion_onto_a_shared_key_is_a_write_to_it() {
    for (mode, expected) in
        [(Mode::Open, "accepted"), (Mode::Reviewed, "pending"), (Mode::Immutable, "rule 3")]
    {
        let (mut store, _, session) = Store::with_ada();
        store.writes(session, Scope::Session(session), "notes", false);
        store.sets("notes", mode);
        let answer = store.promotes(session, session, "notes");
        assert_eq!(verdict(&answer), expected, "{mode}");
    }
}

#[test]
fn rule_9_shows_a_session_its_own_namespace_and_the_shared_one_of_its_tenant() {
    let (mut store, ada, session) = Store::with_ada();
    let other: Tenant = "other".parse().unwrap();
    let eve = store.knows("eve", Role::User, &other, 6);
    let neighbour = store.open(ada.token(), 2);
    let foreign = store.open(eve.token(), 3);
    for session in [session, neighbour, foreign] {
        store.hears(session, Channel::System);
        assert_eq!(store.writes(session, Scope::Session(session), "own", false), Answer::Done);
    }
    assert_eq!(store.writes(session, Scope::Shared, "shared", false), Answer::Done);
    assert_eq!(store.writes(foreign, Scope::Shared, "theirs", false), Answer::Done);
    let cases = [
        (session, Scope::Session(session), "own", "found"),
        (session, Scope::Session(session), "shared", "absent"),
        (session, Scope::Shared, "shared", "found"),
        (session, Scope::Shared, "own", "absent"),
        (session, Scope::Shared, "theirs", "absent"),
        (session, Scope::Session(neighbour), "own", "rule 9"),
        (session, Scope::Session(foreign), "own", "rule 9"),
        (neighbour, Scope::Shared, "shared", "found"),
        (neighbour, Scope::Session(session), "own", "rule 9"),
        (foreign, Scope::Shared, "shared", "absent"),
        (foreign, Scope::Shared, "theirs", "found"),
        (foreign, Scope::Session(session), "own", "rule 9"),
    ];
    for (reader, scope, key, expected) in cases {
        let found = match store.reads(reader, scope, key) {
            Answer::Value { .. } => "found".to_owned(),
            Answer::NotFound => "absent".to_owned(),
            other @ (Answer::Done | Answer::Pending { .. } | Answer::Refused(_)) => verdict(&other),
        };
        assert_eq!(found, expected, "{reader} reads `{key}` in {scope:?}");
    }
}

fn put(store: &mut Store, by: SessionId, scope: Scope, key: &str) -> Seq {
    assert_eq!(store.writes(by, scope, key, false), Answer::Done, "{key}");
    store.last_seq()
}

/// (G6) Keys are written by somebody, so who lists them reads them.
#[test]
fn a_listing_shows_what_rule_9_shows_and_joins_the_context() {
    let (mut store, ada, session) = Store::with_ada();
    let (neighbour, own) = (store.open(ada.token(), 2), Scope::Session(session));
    store.hears(neighbour, Channel::System);
    let shared = ["a", "b", "c"].map(|key| put(&mut store, session, Scope::Shared, key));
    let mine = put(&mut store, session, own, "b");
    let hidden = put(&mut store, session, own, "SOUL.md");
    put(&mut store, neighbour, Scope::Session(neighbour), "theirs");
    store.deletes(session, Scope::Shared, "c");
    assert_eq!(store.lists(session, true, None), shared[..2]);
    assert_eq!(store.lists(session, true, Some("a")), shared[1..2]);
    assert_eq!(store.lists(session, false, None), [mine.min(hidden), mine.max(hidden)]);
    store.locks("SOUL.md");
    let locked = store.shared("SOUL.md").unwrap().entry;
    assert_eq!(store.lists(session, false, None), [mine], "the locked one is read in its place");
    assert_eq!(store.lists(session, true, None), [shared[0], shared[1], locked]);

    let listed = store.last_seq();
    assert_eq!(store.completes(session), Seq(listed.0 + 1));
    assert!(store.log.last().unwrap().parents.contains(&listed), "what is said comes from it");
    let nothing = store.open(ada.token(), 3);
    assert_eq!(store.lists(nothing, false, None), []);
    assert_eq!(verdict(&store.writes(nothing, Scope::Session(nothing), "x", false)), "rule 4");
    let many = store.open(ada.token(), 4);
    store.hears(many, Channel::System);
    let keys: Vec<String> = (0..300).map(|number| format!("n{number:03}")).collect();
    store.by_owner(Request::Admin(AdminRequest::SetLimits(Limits::UNLIMITED)));
    for key in &keys {
        put(&mut store, many, Scope::Session(many), key);
    }
    assert_eq!(store.lists(many, false, None).len(), 256);
    assert_eq!(store.lists(many, false, Some("n255")).len(), 44);
}

#[test]
fn what_a_reviewed_item_is_asked_waits_and_is_then_done_exactly_so() {
    let (mut store, ada, session) = Store::with_ada();
    store.writes(session, Scope::Shared, "notes", false);
    store.sets("notes", Mode::Reviewed);
    let before = store.shared("notes");
    let own = Scope::Session(session);
    store.writes(session, own, "copy", false);
    type Ask = fn(&mut Store, SessionId) -> Answer;
    let asked: [(&str, Ask); 3] = [
        ("write", |store, session| store.writes(session, Scope::Shared, "notes", false)),
        ("delete", |store, session| store.deletes(session, Scope::Shared, "notes")),
        ("shadow", |store, session| store.writes(session, Scope::Session(session), "notes", false)),
    ];
    for (what, ask) in asked {
        let answer = ask(&mut store, session);
        let Answer::Pending { purpose: _, expires, because: None } = answer else {
            panic!("{what}: {answer:?}")
        };
        assert_eq!(expires, store.state.now().plus_ms(Limits::default().proposal_ttl_ms));
        assert_eq!(store.shared("notes"), before, "{what} waits");
    }
    let delete = store.log[store.log.len() - 2].id;
    let approve = Request::Admin(AdminRequest::Approve { proposal: delete, shown: None });
    assert_eq!(store.ask(Actor::Principal(ada.in_person()), approve), Answer::Done);
    assert_eq!(store.shared("notes"), None, "an approved delete deletes");
    let shadow = store.log[store.log.len() - 2].id;
    assert_eq!(store.approves(ada.in_person(), shadow, "notes"), Answer::Done);
    assert!(store.version(&Namespace::session(Tenant::main(), session), "notes").is_some());
}

#[test]
fn review_replaces_no_rule() {
    let cases = [(true, false, "rule 4"), (false, true, "rule 5"), (true, true, "rule 4")];
    for (tainted, untrusted, expected) in cases {
        let (mut store, session, _) = setting(untrusted);
        store.sets("item", Mode::Reviewed);
        if tainted {
            store.hears(session, Channel::Web);
        }
        let answer = store.writes(session, Scope::Shared, "item", false);
        assert_eq!(verdict(&answer), expected, "tainted {tainted}, untrusted {untrusted}");
    }
}

#[test]
fn only_what_rule_4_refuses_can_be_queued() {
    let cases = [
        ("SOUL.md", true, false, "rule 3"),
        ("soul.md", true, false, "rule 3"),
        ("notes", true, false, "pending"),
        ("notes", false, true, "rule 5"),
        ("notes", false, false, "accepted"),
    ];
    for (key, tainted, untrusted, expected) in cases {
        let (mut store, session, _) = setting(untrusted);
        store.locks("SOUL.md");
        if tainted {
            store.hears(session, Channel::Web);
        }
        assert_eq!(verdict(&store.writes(session, Scope::Shared, key, true)), expected, "{key}");
    }
}

#[test]
fn a_proposal_is_not_released_to_an_item_that_was_locked_meanwhile() {
    let (mut store, ada, session) = Store::with_ada();
    store.hears(session, Channel::Web);
    for (key, locked) in [("facts", "facts"), ("plan.md", "PLAN.md")] {
        store.writes(session, Scope::Shared, key, true);
        let proposal = store.last_id();
        store.sets(locked, Mode::Immutable);
        assert_eq!(verdict(&store.approves(ada.in_person(), proposal, key)), "rule 3", "{key}");
    }
}

#[test]
fn nothing_of_a_replayed_trace_is_promoted_or_reaches_another_tenant() {
    let replay: Tenant = "replay-1".parse().unwrap();
    assert_eq!(Authority::replayed(Tenant::main()), None);
    let (mut store, _, _) = Store::with_ada();
    let claimed = Authority::replayed(replay.clone()).unwrap();
    let session = store.open(claimed.clone(), 4);
    store.hears(session, Channel::User);
    assert_eq!(store.writes(session, Scope::Session(session), "notes", false), Answer::Done);
    let answer = store.promotes(session, session, "notes");
    assert_eq!(answer, Answer::Refused(Refusal::PromoteReplayed { key: "notes".parse().unwrap() }));
    let owner = store.owner.clone().acting_in(replay.clone()).unwrap();
    let visiting = store.open(owner, 5);
    let answer = store.promotes(visiting, session, "notes");
    assert_eq!(verdict(&answer), "rule 7", "not even by the owner");

    let by = |tenant: &Tenant| (tenant.clone(), Actor::Principal(claimed.clone()));
    let (own, asker) = by(&replay);
    assert_eq!(store.ask(asker, set_mode(own, "SOUL.md", Mode::Immutable)), Answer::Done);
    for elsewhere in [Tenant::main(), "replay-2".parse().unwrap()] {
        let (tenant, asker) = by(&elsewhere);
        let answer = store.ask(asker, set_mode(tenant, "SOUL.md", Mode::Immutable));
        assert_eq!(answer, Answer::Refused(Refusal::NeedsOwner), "{elsewhere}");
    }
}

#[test]
fn a_human_may_promote_from_any_session_of_their_tenant_and_an_agent_only_from_its_own() {
    let (mut store, ada, session) = Store::with_ada();
    store.writes(session, Scope::Session(session), "notes", false);
    let eve = store.knows("eve", Role::User, &"other".parse().unwrap(), 6);
    let cases = [
        (ada.token(), false),
        (store.owner.clone(), true),
        (ada.in_person(), true),
        (eve.in_person(), false),
    ];
    for (id, (asker, may)) in (10..).zip(cases) {
        let other = store.open(asker, id);
        store.hears(other, Channel::User);
        let request = Request::Session(SessionRequest::Promote {
            from: session,
            key: "notes".parse().unwrap(),
        });
        let outcome = store.try_ask(Actor::Session(other), request);
        assert_eq!(outcome.is_ok(), may, "{outcome:?}");
    }
}

#[test]
fn what_a_human_decides_no_token_can_decide_not_even_the_owners() {
    let main = Tenant::main();
    let elsewhere: Tenant = "other".parse().unwrap();
    let people = [
        ("owner", Role::Owner, &main, 1),
        ("reviewer", Role::Reviewer, &main, 8),
        ("user", Role::User, &main, 7),
        ("other user", Role::User, &main, 9),
        ("agent", Role::Agent, &main, 10),
        ("service", Role::Service, &main, 11),
        ("foreign reviewer", Role::Reviewer, &elsewhere, 12),
    ];
    type Ask = fn(EntryId) -> Request;
    let requests: [(&str, Ask, &[&str]); 9] = [
        (
            "approve",
            |proposal| {
                Request::Admin(AdminRequest::Approve { proposal, shown: Some(digest("facts")) })
            },
            &["owner", "reviewer", "user"],
        ),
        (
            "deny",
            |proposal| Request::Admin(AdminRequest::Deny { proposal }),
            &["owner", "reviewer", "user"],
        ),
        ("mode", |_| set_mode(Tenant::main(), "SOUL.md", Mode::Open), &["owner"]),
        ("adopt", |_| adopt_file(), &["owner"]),
        ("limits", |_| Request::Admin(AdminRequest::SetLimits(Limits::default())), &["owner"]),
        ("add", |_| add_principal(), &["owner"]),
        (
            "revoke",
            |_| {
                Request::Admin(AdminRequest::RevokePrincipal {
                    principal: Person::new("agent", Role::Agent, &Tenant::main(), 10).principal.id,
                })
            },
            &["owner"],
        ),
        (
            "rotate",
            |_| {
                let certificate = String::new();
                Request::Admin(AdminRequest::RotateLogKey(LogKey {
                    public_key: digest("next"),
                    certificate,
                }))
            },
            &["owner"],
        ),
        (
            "adopt ledger",
            |_| {
                Request::Admin(AdminRequest::AdoptLedger {
                    reason: "restored".into(),
                    head_size: None,
                })
            },
            &["owner"],
        ),
    ];
    for (what, request, may) in requests {
        for (name, role, tenant, id) in people {
            for present in BOTH {
                let mut store = Store::new();
                let others = people.iter().filter(|person| person.0 != "owner");
                for (name, role, tenant, id) in others {
                    store.knows(name, *role, tenant, *id);
                }
                let user = Person::new("user", Role::User, &main, 7);
                let session = store.open(user.token(), 1);
                store.hears(session, Channel::Web);
                store.writes(session, Scope::Shared, "facts", true);
                let person = Person::new(name, role, tenant, id);
                let by = if present { person.in_person() } else { person.token() };
                let before = store.state.state_hash();
                let answer = store.ask(Actor::Principal(by), request(store.last_id()));
                let allowed = present && may.contains(&name);
                let case = format!("{name} {what}, in person {present}");
                assert_eq!(answer == Answer::Done, allowed, "{case}: {answer:?}");
                if !allowed {
                    assert_eq!(verdict(&answer), "authority", "{case}");
                    assert_eq!(store.state.state_hash(), before, "{case}");
                    assert_eq!(store.state.pending().count(), 1, "{case}");
                }
            }
        }
    }
}

fn adopt_file() -> Request {
    Request::Admin(AdminRequest::AdoptFile {
        tenant: Tenant::main(),
        key: "SOUL.md".parse().unwrap(),
        path: "SOUL.md".into(),
        value: Value::New(digest("soul")),
    })
}

fn add_principal() -> Request {
    let accomplice = Person::new("accomplice", Role::Owner, &Tenant::main(), 66);
    Request::Admin(AdminRequest::AddPrincipal(Box::new(accomplice.principal)))
}

#[test]
fn a_session_is_asked_in_and_a_principal_asks_for_itself() {
    let (store, ada, session) = Store::with_ada();
    let proposal = EntryId::from_random([7; 16]);
    for request in [
        Request::Admin(AdminRequest::Approve { proposal, shown: None }),
        Request::Admin(AdminRequest::Deny { proposal }),
        set_mode(Tenant::main(), "SOUL.md", Mode::Open),
        adopt_file(),
        add_principal(),
        Request::Admin(AdminRequest::SetLimits(Limits::default())),
    ] {
        assert!(!is_taken(&store, &Actor::Session(session), &request), "{request:?}");
    }
    for request in [
        message(Channel::User, None, vec![]),
        write(Scope::Shared, "notes", Value::New(digest("notes"))),
        Request::Session(SessionRequest::CloseSession),
    ] {
        assert!(!is_taken(&store, &Actor::Principal(ada.in_person()), &request), "{request:?}");
    }
}

#[test]
fn a_requester_withdraws_their_own_proposal_and_cannot_approve_it() {
    let (mut store, ada, _) = Store::with_ada();
    let session = store.open(ada.in_person(), 2);
    store.hears(session, Channel::Web);
    store.writes(session, Scope::Shared, "facts", true);
    let proposal = store.last_id();
    let answer = store.approves(ada.in_person(), proposal, "facts");
    assert_eq!(answer, Answer::Refused(Refusal::OwnProposal));
    assert_eq!(store.denies(ada.in_person(), proposal), Answer::Done);
    assert_eq!(store.state.pending().count(), 0);
}
