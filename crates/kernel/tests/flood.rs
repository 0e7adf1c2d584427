//! What one principal leaves for reviewers, and what becomes of sessions whose process is gone.

#![allow(clippy::unwrap_used, reason = "a test fails where it stands")]

mod common;

use common::{Actor, Person, Store, digest, open_session, set_mode};
use custody_arguments::{ArgumentOrigin, RecordedArgument, Sink, ToolEffect};
use custody_kernel::label::Channel;
use custody_kernel::memory::item::Mode;
use custody_kernel::memory::rate::Limits;
use custody_kernel::memory::refusal::{Refusal, Rule};
use custody_kernel::memory::review::Purpose;
use custody_kernel::namespace::{Scope, Tenant};
use custody_kernel::principal::{Authority, Role};
use custody_kernel::record::{AdminRequest, Answer, Request, SessionRequest, Value};
use custody_kernel::state::{AskError, State};
use custody_kernel::tool::call::{Call, Permission, PolicyAnswer};
use custody_log::{Digest, SessionId, Timestamp};

const DAY_MS: u64 = 86_400_000;

/// A call with a sink that the model made up.
fn call(text: &str) -> Request {
    let policy = PolicyAnswer {
        version: Digest([1; 32]),
        answer: Permission::Allow,
        waives_floor: false,
        extracts: Vec::new(),
        by: vec!["p".into()],
    };
    let path = "to".to_owned();
    let leaf =
        RecordedArgument { path, sink: Some(Sink::Recipient), origin: ArgumentOrigin::Model };
    Request::Call(Box::new(Call {
        tool: "send_mail".into(),
        effect: ToolEffect::Writes,
        known: true,
        manifest: Digest([2; 32]),
        arguments: Value::New(digest(text)),
        leaves: vec![leaf],
        policy,
        local_policy: None,
        intent: None,
        approval: None,
    }))
}

fn is_waiting(answer: &Answer) -> bool {
    matches!(answer, Answer::Pending { .. })
}

/// A session that has read a page.
fn tainted(store: &mut Store, who: &Person, id: u8) -> SessionId {
    let session = store.open(who.token(), id);
    store.hears(session, Channel::Web);
    session
}

fn asks_calls(store: &mut Store, session: SessionId, count: usize) -> usize {
    let answers =
        (0..count).map(|at| store.ask(Actor::Session(session), call(&format!("{session} {at}"))));
    answers.filter(is_waiting).count()
}

fn asks_changes(store: &mut Store, session: SessionId, count: usize) -> usize {
    let answers = (0..count)
        .map(|at| store.writes(session, Scope::Session(session), &format!("k{at}"), true));
    answers.filter(is_waiting).count()
}

fn refusal(answer: Answer) -> Refusal {
    let Answer::Refused(refusal) = answer else { unreachable!("{answer:?}") };
    refusal
}

/// Every record is decided again with the same answer.
fn assert_decided_again(store: &Store) {
    let mut state = State::default();
    for record in &store.log {
        state.recount(record).unwrap();
    }
}

fn unlimited() -> (Store, Person, Person) {
    let mut store = Store::with_limits(Limits::UNLIMITED);
    let ada = store.knows("ada", Role::User, &Tenant::main(), 3);
    let bob = store.knows("bob", Role::User, &Tenant::main(), 4);
    (store, ada, bob)
}

/// G20: 64 calls and 64 changes of one principal wait, over all its sessions, whatever it asks; a refusal names
/// the limit, and the questions of others are put as before.
#[test]
fn g20_one_principal_leaves_64_calls_and_64_changes_over_all_its_sessions() {
    let (mut store, ada, bob) = unlimited();
    let sessions: Vec<_> = (10..30).map(|id| tainted(&mut store, &ada, id)).collect();
    let calls: usize = sessions.iter().map(|session| asks_calls(&mut store, *session, 20)).sum();
    let changes: usize =
        sessions.iter().map(|session| asks_changes(&mut store, *session, 20)).sum();
    assert_eq!((calls, changes), (64, 64));
    let first = sessions[0];
    let one_more = refusal(store.ask(Actor::Session(first), call("more")));
    assert_eq!(one_more, Refusal::TooManyWaiting { purpose: Purpose::Call, limit: 64 });
    assert_eq!(one_more.rule(), Rule::Rate);
    assert!(one_more.to_string().starts_with("64 tool calls of this principal wait"));
    let change = refusal(store.writes(first, Scope::Session(first), "more", true));
    assert_eq!(change, Refusal::TooManyWaiting { purpose: Purpose::Declassify, limit: 64 });
    // Not queued, it is refused for what it is.
    let unqueued = refusal(store.writes(first, Scope::Session(first), "more", false));
    assert_eq!(unqueued.rule(), Rule::Mon(4));
    let bobs = tainted(&mut store, &bob, 40);
    assert_eq!((asks_calls(&mut store, bobs, 3), asks_changes(&mut store, bobs, 3)), (3, 3));
    // A session more is no way round it, nor is one that was closed.
    store.ask(Actor::Session(first), Request::Session(SessionRequest::CloseSession));
    let fresh = tainted(&mut store, &ada, 41);
    assert_eq!((asks_calls(&mut store, fresh, 3), asks_changes(&mut store, fresh, 3)), (0, 0));
    assert_decided_again(&store);
}

/// G20: whoever has no credential shares one queue with all others who have none, and fills nobody else's.
#[test]
fn g20_whoever_has_no_credential_fills_no_queue_but_their_own() {
    let (mut store, ada, _) = unlimited();
    let mut waiting = 0;
    for id in 10..14 {
        let session = store.open(Authority::unproven(Tenant::main()), id);
        store.hears(session, Channel::Web);
        waiting += asks_calls(&mut store, session, 30);
    }
    assert_eq!(waiting, 64);
    let session = tainted(&mut store, &ada, 20);
    assert_eq!(asks_calls(&mut store, session, 2), 2);
}

/// G20: a place is free again once a question was answered, either way, or has expired.
#[test]
fn g20_an_answer_and_time_free_a_place() {
    let (mut store, ada, _) = unlimited();
    let session = tainted(&mut store, &ada, 10);
    assert_eq!(
        (asks_calls(&mut store, session, 65), asks_changes(&mut store, session, 65)),
        (64, 64)
    );
    let calls: Vec<_> = store.state.asked_calls().map(|asked| asked.proposal).collect();
    let changes: Vec<_> = store.state.pending().map(|pending| pending.proposal).collect();
    let owner = store.owner.clone();
    let texts: Vec<_> = (0..64).map(|at| format!("{session} {at}")).collect();
    let is_approved =
        texts.iter().any(|text| store.approves(owner.clone(), calls[0], text) == Answer::Done);
    assert!(is_approved);
    assert_eq!(store.denies(owner.clone(), calls[1]), Answer::Done);
    assert_eq!(store.denies(owner.clone(), changes[0]), Answer::Done);
    // Answered twice, it frees no second place.
    store.denies(owner, changes[0]);
    assert_eq!((asks_calls(&mut store, session, 5), asks_changes(&mut store, session, 5)), (2, 1));
    store.clock += DAY_MS;
    assert_eq!(
        (asks_calls(&mut store, session, 65), asks_changes(&mut store, session, 65)),
        (64, 64)
    );
    assert_decided_again(&store);
}

/// G20: the owner sets the limits, down to none at all; what waits already stays.
#[test]
fn g20_the_owner_sets_how_many_questions_wait() {
    let (mut store, ada, _) = unlimited();
    let session = tainted(&mut store, &ada, 10);
    assert_eq!(asks_calls(&mut store, session, 5), 5);
    for (limit, more) in [(5, 0), (7, 2), (0, 0)] {
        let limits = Limits { waiting_calls: limit, waiting_changes: limit, ..Limits::UNLIMITED };
        store.by_owner(Request::Admin(AdminRequest::SetLimits(limits)));
        assert_eq!(asks_calls(&mut store, session, 9), more, "{limit}");
    }
    store.by_owner(set_mode(Tenant::main(), "notes", Mode::Reviewed));
    let clean = store.open(ada.token(), 11);
    store.hears(clean, Channel::User);
    let reviewed = refusal(store.writes(clean, Scope::Shared, "notes", false));
    assert_eq!(reviewed, Refusal::TooManyWaiting { purpose: Purpose::Review, limit: 0 });
    assert_decided_again(&store);
}

#[test]
fn limits_of_before_have_the_same_bytes_and_the_standard_numbers() {
    let before =
        r#"{"changes":10,"window_ms":60000,"proposal_ttl_ms":86400000,"extracted_bits":256}"#;
    let limits: Limits = serde_json::from_str(before).unwrap();
    assert_eq!(limits, Limits::default());
    assert_eq!(serde_json::to_string(&limits).unwrap(), before);
    let other = Limits { waiting_calls: 3, ..limits };
    let written = serde_json::to_string(&other).unwrap();
    assert_eq!(serde_json::from_str::<Limits>(&written).unwrap(), other);
}

fn end(session: SessionId) -> Request {
    Request::Admin(AdminRequest::EndSession { session })
}

/// G23: a session is closed from outside by whoever it runs for and by the owner, and by nobody else; it is
/// never continued.
#[test]
fn g23_a_session_is_ended_by_its_principal_or_the_owner_and_never_continued() {
    let (mut store, ada, bob) = unlimited();
    let rex = store.knows("rex", Role::Reviewer, &Tenant::main(), 5);
    let nobody = Authority::unproven(Tenant::main());
    let session = store.open(ada.token(), 10);
    let unproven = store.open(nobody.clone(), 11);
    for (who, session) in [
        (bob.token(), session),
        (bob.in_person(), session),
        (rex.in_person(), session),
        (nobody.clone(), session),
        (nobody, unproven),
        (ada.token(), unproven),
    ] {
        let refused = store.ask(Actor::Principal(who), end(session));
        assert_eq!(refused, Answer::Refused(Refusal::NeedsOwner));
        assert!(store.state.session(session).is_some());
    }
    for (by, id) in [(ada.token(), 12), (ada.in_person(), 13), (store.owner.clone(), 14)] {
        let session = store.open(ada.token(), id);
        assert_eq!(store.ask(Actor::Principal(by.clone()), end(session)), Answer::Done);
        let unknown = Err(AskError::UnknownSession(session));
        let close = Request::Session(SessionRequest::CloseSession);
        assert_eq!(store.try_ask(Actor::Session(session), close), unknown);
        assert_eq!(store.try_ask(Actor::Principal(by.clone()), end(session)), unknown);
        let open = open_session(session);
        let again = store.try_ask(Actor::Principal(by), open);
        assert_eq!(again, Err(AskError::DuplicateSession(session)));
    }
    assert_eq!(store.by_owner(end(unproven)), Answer::Done);
    assert_decided_again(&store);
}

#[test]
fn g23_a_session_knows_when_it_was_opened_and_last_used() {
    let (mut store, ada, _) = unlimited();
    let session = store.open(ada.token(), 10);
    let opened = store.state.now();
    store.clock += 5_000;
    store.hears(session, Channel::User);
    let used = store.state.now();
    store.clock += 5_000;
    let other = store.open(ada.token(), 11);
    let times = |store: &Store, id: SessionId| -> (Timestamp, Timestamp) {
        let session = store.state.session(id).unwrap();
        (session.opened_at, session.active_at)
    };
    assert!(used > opened);
    assert_eq!(times(&store, session), (opened, used));
    assert_eq!(times(&store, other), (store.state.now(), store.state.now()));
    let mut state = State::default();
    for record in &store.log {
        state.fold(record).unwrap();
    }
    let folded = state.session(session).unwrap();
    assert_eq!((folded.opened_at, folded.active_at), (opened, used));
}
