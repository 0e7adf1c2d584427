//! Tool calls as requests: the floor, the policy, and approvals that hold for one thing only.

mod common;

use common::{Actor, Person, Store, digest, session_key, submitted};
use custody_arguments::{ArgumentOrigin, RecordedArgument, Sink, ToolEffect};
use custody_kernel::label::{Channel, Taint};
use custody_kernel::memory::rate::Limits;
use custody_kernel::memory::refusal::{Refusal, Rule};
use custody_kernel::memory::review::Purpose;
use custody_kernel::namespace::Tenant;
use custody_kernel::principal::Role;
use custody_kernel::record::{AdminRequest, Answer, Request, Value};
use custody_kernel::state::{AskError, State};
use custody_kernel::tool::call::{Call, Permission, PolicyAnswer};
use custody_log::{Digest, EntryId, Seq, SessionId};

const ARGUMENTS: &str = r#"{"to":"ann@example.com"}"#;

fn leaf(sink: Option<Sink>, origin: ArgumentOrigin) -> RecordedArgument {
    RecordedArgument { path: "to".into(), sink, origin }
}

fn said(answer: Permission) -> PolicyAnswer {
    let (waives_floor, extracts) = (false, Vec::new());
    PolicyAnswer { version: Digest([1; 32]), answer, waives_floor, extracts, by: vec!["p".into()] }
}

/// A writing call with one sink of that origin.
fn call(origin: ArgumentOrigin) -> Call {
    Call {
        tool: "send_mail".into(),
        effect: ToolEffect::Writes,
        known: true,
        manifest: Digest([2; 32]),
        arguments: Value::New(digest(ARGUMENTS)),
        leaves: vec![leaf(Some(Sink::Recipient), origin)],
        policy: said(Permission::Allow),
        local_policy: None,
        intent: None,
        approval: None,
    }
}

fn proposes(store: &mut Store, session: SessionId, call: &Call) -> Answer {
    store.ask(Actor::Session(session), Request::Call(Box::new(call.clone())))
}

fn word(answer: &Answer) -> &'static str {
    match answer {
        Answer::Done => "allow",
        Answer::Pending { purpose: Purpose::Call, .. } => "ask",
        Answer::Refused(_) => "deny",
        Answer::Pending { .. } | Answer::Value { .. } | Answer::NotFound => "something else",
    }
}

/// A session of ada's agent that has read a page.
fn tainted() -> (Store, Person, SessionId) {
    let (mut store, ada, session) = Store::with_ada();
    store.hears(session, Channel::Web);
    (store, ada, session)
}

#[test]
fn the_floor_and_the_policy_decide_and_the_stricter_wins() {
    use Permission::{Allow, Ask, Deny};
    use ToolEffect::{Reads, Writes};
    let sink = Some(Sink::Recipient);
    let page = || ArgumentOrigin::Tool { from: vec![] };
    let cases = [
        ("clean", Writes, vec![leaf(sink, ArgumentOrigin::Model)], Allow, "allow"),
        ("clean", Writes, vec![], Allow, "allow"),
        ("clean", Writes, vec![leaf(sink, ArgumentOrigin::User)], Ask, "ask"),
        ("clean", Reads, vec![], Deny, "deny"),
        ("tainted", Reads, vec![], Allow, "allow"),
        ("tainted", Reads, vec![leaf(None, page())], Allow, "allow"),
        ("tainted", Reads, vec![leaf(sink, page())], Allow, "ask"),
        ("tainted", Reads, vec![leaf(sink, ArgumentOrigin::User)], Allow, "allow"),
        ("tainted", Writes, vec![], Allow, "ask"),
        ("tainted", Writes, vec![leaf(None, page())], Allow, "ask"),
        ("tainted", Writes, vec![leaf(None, ArgumentOrigin::User)], Allow, "allow"),
        ("tainted", Writes, vec![leaf(sink, ArgumentOrigin::User)], Allow, "allow"),
        ("tainted", Writes, vec![leaf(sink, ArgumentOrigin::User)], Ask, "ask"),
        ("tainted", Writes, vec![leaf(sink, ArgumentOrigin::User)], Deny, "deny"),
        ("tainted", Writes, vec![leaf(sink, ArgumentOrigin::Model)], Allow, "ask"),
        (
            "tainted",
            Writes,
            vec![leaf(sink, ArgumentOrigin::User), leaf(sink, page())],
            Allow,
            "ask",
        ),
        ("tainted", Writes, vec![leaf(sink, page())], Deny, "deny"),
    ];
    for (context, effect, leaves, answer, expected) in cases {
        let (mut store, _, session) = Store::with_ada();
        if context == "tainted" {
            store.hears(session, Channel::Web);
        }
        let call = Call { effect, leaves, policy: said(answer), ..call(ArgumentOrigin::Model) };
        assert_eq!(word(&proposes(&mut store, session, &call)), expected, "{context}: {call:?}");
    }
}

/// G17: a field that a server made fills a sink beside another sink that the user said, and supports nothing itself.
#[test]
fn g17_a_trusted_field_supports_no_call_that_the_user_did_not_ask_for() {
    use ArgumentOrigin::{Model, Trusted, User};
    let id = |origin| leaf(Some(Sink::Id), origin);
    let whom = |origin| leaf(Some(Sink::Recipient), origin);
    let plain = |origin| leaf(None, origin);
    let cases = [
        (vec![id(Trusted)], "ask"),
        (vec![id(Trusted), id(Trusted)], "ask"),
        (vec![id(Trusted), plain(User)], "ask"),
        (vec![id(Trusted), plain(Model)], "ask"),
        (vec![id(Trusted), whom(Model)], "ask"),
        (vec![id(Trusted), whom(User), whom(Model)], "ask"),
        (vec![id(Trusted), whom(User)], "allow"),
        (vec![id(Trusted), id(Trusted), whom(User), plain(Model)], "allow"),
        (vec![whom(User)], "allow"),
    ];
    for (leaves, expected) in cases {
        for effect in [ToolEffect::Reads, ToolEffect::Writes] {
            let (mut store, _, session) = tainted();
            let call = Call { effect, leaves: leaves.clone(), ..call(Model) };
            assert_eq!(word(&proposes(&mut store, session, &call)), expected, "{call:?}");
        }
    }
    let (mut store, _, session) = tainted();
    let call = Call { leaves: vec![id(Trusted)], ..call(Model) };
    let Answer::Pending { because: Some(Refusal::Floor { arguments, .. }), .. } =
        proposes(&mut store, session, &call)
    else {
        panic!("it is asked about");
    };
    assert_eq!(arguments, ["to"], "the reviewer is told which value nobody asked for");
}

/// G17: a record of before, in which such a value counted as the user's, is still read and counted as it was written.
#[test]
fn g17_origins_of_older_records_are_read_as_they_were_written() {
    for (json, origin) in [
        (r#""user""#, ArgumentOrigin::User),
        (r#""trusted""#, ArgumentOrigin::Trusted),
        (r#"{"tool":{"from":[3]}}"#, ArgumentOrigin::Tool { from: vec![Seq(3)] }),
        (r#""model""#, ArgumentOrigin::Model),
    ] {
        assert_eq!(serde_json::from_str::<ArgumentOrigin>(json).unwrap(), origin);
        assert_eq!(serde_json::to_string(&origin).unwrap(), json);
    }
}

#[test]
fn a_call_out_of_nothing_is_as_good_as_tainted() {
    let (mut store, ada, _) = Store::with_ada();
    let session = store.open(ada.token(), 2);
    assert_eq!(word(&proposes(&mut store, session, &call(ArgumentOrigin::Model))), "ask");
    assert_eq!(store.log.last().unwrap().label.taint(), Taint::Tainted);
}

/// R40: the call is checked before anything runs, and only the witness of the decision names a call to run.
#[test]
fn only_an_allowed_call_has_a_witness() {
    for (origin, runs) in [(ArgumentOrigin::User, true), (ArgumentOrigin::Model, false)] {
        let (mut store, _, session) = tainted();
        let request = Request::Call(Box::new(call(origin)));
        let by = Actor::Session(session);
        let decided = store.state.decide(submitted(by, request), store.state.now()).unwrap();
        let id = EntryId::from_random([8; 16]);
        let (_, allowed) = store
            .state
            .commit(decided, id, vec![], Some(&session_key(session)))
            .unwrap()
            .into_parts();
        assert_eq!(allowed.is_some(), runs);
        if let Some(allowed) = allowed {
            assert_eq!(allowed.tool(), "send_mail");
            assert_eq!(allowed.arguments(), Value::New(digest(ARGUMENTS)));
        }
    }
}

#[test]
fn a_call_depends_on_the_entries_its_values_came_from() {
    let (mut store, _, session) = Store::with_ada();
    let page = store.hears(session, Channel::Web);
    let said = store.completes(session);
    let call = call(ArgumentOrigin::Tool { from: vec![page] });
    let Answer::Pending { because: Some(because), .. } = proposes(&mut store, session, &call)
    else {
        panic!("it is asked about");
    };
    let Refusal::Floor { arguments, entries } = because else { panic!("{because}") };
    assert_eq!((arguments, entries), (vec!["to".to_owned()], vec![page]));
    assert_eq!(store.log.last().unwrap().parents, [page, said]);
    let unknown =
        Call { leaves: vec![leaf(None, ArgumentOrigin::Tool { from: vec![Seq(99)] })], ..call };
    let request = Request::Call(Box::new(unknown));
    let refused = store.try_ask(Actor::Session(session), request);
    assert_eq!(refused, Err(AskError::UnknownEntry(Seq(99))));
}

#[test]
fn only_a_policy_that_the_owner_signed_waives_the_floor() {
    let (mut store, ada, session) = tainted();
    let policy = PolicyAnswer { waives_floor: true, ..said(Permission::Allow) };
    let waived = Call { policy: policy.clone(), ..call(ArgumentOrigin::Model) };
    assert_eq!(word(&proposes(&mut store, session, &waived)), "ask");
    let set = |version| {
        Request::Admin(AdminRequest::SetPolicy { version, text: Value::New(digest("permit")) })
    };
    let by_ada = store.ask(Actor::Principal(ada.in_person()), set(policy.version));
    assert_eq!(by_ada, Answer::Refused(Refusal::NeedsOwner));
    assert_eq!(store.by_owner(set(policy.version)), Answer::Done);
    assert_eq!(word(&proposes(&mut store, session, &waived)), "allow");
    assert_eq!(store.by_owner(set(Digest([9; 32]))), Answer::Done);
    assert_eq!(word(&proposes(&mut store, session, &waived)), "ask", "another policy is in force");
}

/// A call that waits, under its id, with the content that its reviewer is shown.
fn waiting(store: &mut Store, session: SessionId) -> (EntryId, Call) {
    assert_eq!(word(&proposes(store, session, &call(ArgumentOrigin::Model))), "ask");
    let record = store.log.last().expect("it was recorded");
    let proposal = record.id;
    let arguments = Value::New(digest(ARGUMENTS)).content(record.seq);
    let again = Call {
        arguments: Value::Of(arguments),
        approval: Some(proposal),
        ..call(ArgumentOrigin::Model)
    };
    (proposal, again)
}

/// Why a call with an approval does not run, or that it runs.
fn using(store: &mut Store, session: SessionId, call: &Call) -> &'static str {
    match proposes(store, session, call) {
        Answer::Done => "runs",
        Answer::Refused(refusal) => refusal.word(),
        Answer::Pending { .. } | Answer::Value { .. } | Answer::NotFound => "something else",
    }
}

#[test]
fn an_approval_holds_for_one_call_once() {
    let (mut store, ada, session) = tainted();
    let (proposal, again) = waiting(&mut store, session);
    assert_eq!(using(&mut store, session, &again), "not approved");
    let other_text = store.approves(ada.in_person(), proposal, "{}");
    assert_eq!(other_text, Answer::Refused(Refusal::OtherContent { proposal }));
    assert_eq!(store.approves(ada.in_person(), proposal, ARGUMENTS), Answer::Done);

    let edited = Call { arguments: Value::New(digest(ARGUMENTS)), ..again.clone() };
    assert_eq!(
        using(&mut store, session, &edited),
        "other content",
        "equal bytes, another arrival"
    );
    let renamed = Call { tool: "send_money".into(), ..again.clone() };
    assert_eq!(using(&mut store, session, &renamed), "other content");
    let remade = Call { manifest: Digest([3; 32]), ..again.clone() };
    assert_eq!(using(&mut store, session, &remade), "other content");
    let policy = PolicyAnswer { version: Digest([9; 32]), ..said(Permission::Allow) };
    let repoliced = Call { policy, ..again.clone() };
    assert_eq!(using(&mut store, session, &repoliced), "other policy");
    let forbidden = Call { policy: said(Permission::Deny), ..again.clone() };
    assert_eq!(using(&mut store, session, &forbidden), "policy denies");

    assert_eq!(using(&mut store, session, &again), "runs");
    assert_eq!(using(&mut store, session, &again), "used up");
    let twice = store.approves(ada.in_person(), proposal, ARGUMENTS);
    assert_eq!(twice, Answer::Refused(Refusal::NotPending { proposal }));
}

#[test]
fn an_approval_holds_in_its_session_only() {
    let (mut store, ada, session) = tainted();
    let (proposal, again) = waiting(&mut store, session);
    assert_eq!(store.approves(ada.in_person(), proposal, ARGUMENTS), Answer::Done);
    let other = store.open(ada.token(), 2);
    store.hears(other, Channel::Web);
    let request = Request::Call(Box::new(again.clone()));
    let elsewhere = store.try_ask(Actor::Session(other), request);
    assert!(matches!(elsewhere, Err(AskError::UnknownContent(_))), "{elsewhere:?}");
    let sent_again = Call { arguments: Value::New(digest(ARGUMENTS)), ..again };
    assert_eq!(using(&mut store, other, &sent_again), "other content");
}

#[test]
fn an_approval_expires() {
    let limits = Limits { proposal_ttl_ms: 10, ..Limits::default() };
    let mut store = Store::with_limits(limits);
    let ada = store.knows("ada", Role::User, &Tenant::main(), 7);
    let session = store.open(ada.token(), 1);
    store.hears(session, Channel::Web);
    let (late, _) = waiting(&mut store, session);
    store.clock += 20;
    let refused = store.approves(ada.in_person(), late, ARGUMENTS);
    assert_eq!(refused, Answer::Refused(Refusal::Expired { proposal: late }));
    let (proposal, again) = waiting(&mut store, session);
    assert_eq!(store.approves(ada.in_person(), proposal, ARGUMENTS), Answer::Done);
    store.clock += 20;
    assert_eq!(using(&mut store, session, &again), "expired");
}

#[test]
fn nobody_approves_their_own_call_and_no_agent_approves_any() {
    let (mut store, ada, _) = Store::with_ada();
    let session = store.open(ada.in_person(), 2);
    store.hears(session, Channel::Web);
    let (proposal, _) = waiting(&mut store, session);
    let agent = store.knows("bot", Role::Agent, &Tenant::main(), 8);
    let stranger = store.knows("eve", Role::Reviewer, &"elsewhere".parse().unwrap(), 9);
    for (who, rule) in [
        (ada.in_person(), Refusal::OwnProposal),
        (ada.token(), Refusal::NeedsReviewer),
        (agent.token(), Refusal::NeedsReviewer),
        (stranger.in_person(), Refusal::NeedsReviewer),
    ] {
        let refused = store.approves(who, proposal, ARGUMENTS);
        assert_eq!(refused, Answer::Refused(rule));
    }
    let reviewer = store.knows("rex", Role::Reviewer, &Tenant::main(), 10);
    assert_eq!(store.approves(reviewer.in_person(), proposal, ARGUMENTS), Answer::Done);
}

#[test]
fn what_was_turned_down_or_taken_back_does_not_run() {
    let (mut store, ada, session) = tainted();
    let (proposal, again) = waiting(&mut store, session);
    assert_eq!(store.denies(ada.in_person(), proposal), Answer::Done);
    assert_eq!(using(&mut store, session, &again), "turned down");
    let (proposal, again) = waiting(&mut store, session);
    assert_eq!(store.approves(ada.in_person(), proposal, ARGUMENTS), Answer::Done);
    assert_eq!(store.denies(ada.in_person(), proposal), Answer::Done);
    assert_eq!(using(&mut store, session, &again), "turned down");
}

#[test]
fn a_reviewer_is_not_flooded() {
    let (mut store, _, session) = tainted();
    let answers: Vec<&str> = (0..70)
        .map(|_| word(&proposes(&mut store, session, &call(ArgumentOrigin::Model))))
        .collect();
    assert_eq!(answers.iter().filter(|answer| **answer == "ask").count(), 64);
    assert_eq!(answers.last(), Some(&"deny"));
}

#[test]
fn the_log_decides_every_call_again() {
    let (mut store, ada, session) = tainted();
    let (proposal, again) = waiting(&mut store, session);
    store.approves(ada.in_person(), proposal, ARGUMENTS);
    assert_eq!(using(&mut store, session, &again), "runs");
    let mut state = State::default();
    for record in &store.log {
        state.recount(record).unwrap();
    }
    let mut forged = store.log.last().unwrap().clone();
    forged.seq = Seq(state.len());
    assert!(state.recount(&forged).is_err(), "an approval that was used is none");
    assert_eq!(Refusal::UsedUp { proposal }.rule(), Rule::Approval);
}
