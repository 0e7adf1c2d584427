//! Declared intents in the monitor: who may declare what, and how often it counts (G12).

#![allow(clippy::unwrap_used, reason = "a helper of a test may fail it")]

mod common;

use common::{Actor, Store, digest, verdict};
use custody_arguments::{ArgumentOrigin, IntentRef, RecordedArgument, Sink, ToolEffect};
use custody_kernel::label::Channel;
use custody_kernel::namespace::Tenant;
use custody_kernel::principal::Role;
use custody_kernel::record::{Answer, Record, Request, SessionRequest, Value};
use custody_kernel::state::{AskError, State};
use custody_kernel::tool::call::{Call, Permission, PolicyAnswer};
use custody_kernel::tool::intent::{IntentDeclaration, IntentTerms, MAX_INTENT_MS};
use custody_log::{Digest, Seq, SessionId, Timestamp};

fn declaration(count: u32, expires: u64, for_session: Option<SessionId>) -> Request {
    let terms = vec![IntentTerms { count, expires: Timestamp(expires) }];
    let text = Value::New(digest("[…]"));
    let declaration = IntentDeclaration { text, terms, for_session };
    Request::Session(SessionRequest::DeclareIntents(Box::new(declaration)))
}

/// A call whose sink a page named, and that the intent `named` covers.
fn call(named: Option<IntentRef>) -> Request {
    let origin = ArgumentOrigin::Model;
    let leaf = RecordedArgument { path: "to".into(), sink: Some(Sink::Recipient), origin };
    let (waives_floor, extracts, by) = (false, vec![], vec![]);
    let (version, answer) = (Digest([1; 32]), Permission::Allow);
    Request::Call(Box::new(Call {
        tool: "send_mail".into(),
        effect: ToolEffect::Writes,
        known: true,
        manifest: Digest([2; 32]),
        arguments: Value::New(digest("{}")),
        leaves: vec![leaf],
        policy: PolicyAnswer { version, answer, waives_floor, extracts, by },
        local_policy: None,
        intent: named,
        approval: None,
    }))
}

fn calls(store: &mut Store, session: SessionId, named: IntentRef) -> String {
    verdict(&store.ask(Actor::Session(session), call(Some(named))))
}

/// Ada's session with an intent for `count` calls, in which a page was read since.
fn declared(count: u32) -> (Store, SessionId, IntentRef) {
    let (mut store, _, session) = Store::with_ada();
    store.observes(session, declaration(count, 100_000, None));
    let named = IntentRef { declared: store.last_seq(), index: 0 };
    store.hears(session, Channel::Web);
    (store, session, named)
}

#[test]
fn g12_an_intent_covers_as_many_calls_as_it_says() {
    let (mut store, session, named) = declared(2);
    assert_eq!(verdict(&store.ask(Actor::Session(session), call(None))), "pending");
    assert_eq!(calls(&mut store, session, named), "accepted");
    assert_eq!(calls(&mut store, session, named), "accepted");
    assert_eq!(calls(&mut store, session, named), "pending", "it is used up");
    let (mut folded, mut recounted) = (State::default(), State::default());
    for record in &store.log {
        assert_eq!(Record::from_bytes(&record.to_bytes().unwrap()).unwrap(), *record);
        folded.fold(record).unwrap();
        recounted.recount(record).unwrap();
    }
    let at = store.state.now();
    for state in [&store.state, &folded, &recounted] {
        assert!(!state.may_use_intent(session, named, at));
    }
}

#[test]
fn g12_an_intent_covers_nothing_once_it_expired_or_was_never_declared() {
    let (mut store, session, named) = declared(2);
    let unknown = IntentRef { index: 1, ..named };
    assert_eq!(calls(&mut store, session, unknown), "pending");
    let elsewhere = IntentRef { declared: Seq(0), index: 0 };
    assert_eq!(calls(&mut store, session, elsewhere), "pending");
    store.clock = 100_000;
    assert_eq!(calls(&mut store, session, named), "pending");
}

#[test]
fn g12_nothing_is_declared_after_untrusted_text_or_in_an_empty_context() {
    let (mut store, ada, session) = Store::with_ada();
    let empty = store.open(ada.token(), 2);
    let answer = store.ask(Actor::Session(empty), declaration(1, 10, None));
    assert_eq!(verdict(&answer), "floor", "nobody knows whose wish it would be");
    store.hears(session, Channel::Web);
    let answer = store.ask(Actor::Session(session), declaration(1, 10, None));
    assert_eq!(verdict(&answer), "floor");
    let named = IntentRef { declared: store.last_seq(), index: 0 };
    assert_eq!(calls(&mut store, session, named), "pending", "what was refused covers nothing");
    let longest = store.clock + 1 + MAX_INTENT_MS;
    let clean = store.open(ada.token(), 3);
    store.hears(clean, Channel::User);
    let asked = store.try_ask(Actor::Session(clean), declaration(1, longest + 10, None));
    assert_eq!(asked, Err(AskError::IntentTooLong));
}

#[test]
fn g12_a_clean_session_declares_for_a_tainted_one_of_the_same_principal_only() {
    let (mut store, ada, tainted) = Store::with_ada();
    store.hears(tainted, Channel::Web);
    let side = store.open(ada.token(), 2);
    store.hears(side, Channel::User);
    let answer = store.ask(Actor::Session(side), declaration(1, 100_000, Some(tainted)));
    assert_eq!(answer, Answer::Done);
    let named = IntentRef { declared: store.last_seq(), index: 0 };
    assert_eq!(calls(&mut store, side, named), "accepted", "its own context is clean");
    assert!(store.state.may_use_intent(tainted, named, store.state.now()));
    assert!(!store.state.may_use_intent(side, named, store.state.now()));
    assert_eq!(calls(&mut store, tainted, named), "accepted");

    let bob = store.knows("bob", Role::User, &Tenant::main(), 8);
    let strange = store.open(bob.token(), 4);
    store.hears(strange, Channel::User);
    let asked = store.try_ask(Actor::Session(strange), declaration(1, 100_000, Some(tainted)));
    assert_eq!(asked, Err(AskError::UnknownSession(tainted)));
    let in_person = store.open(ada.in_person(), 5);
    store.hears(in_person, Channel::User);
    let asked = store.try_ask(Actor::Session(in_person), declaration(1, 100_000, Some(tainted)));
    assert_eq!(
        asked,
        Err(AskError::UnknownSession(tainted)),
        "another credential is another asker"
    );
}
