//! Adapters on the record: what is produced under which weights, and what an eviction means for a host.

#![allow(clippy::unwrap_used, reason = "a helper of a test may fail it")]

mod common;

use common::{Actor, Store, is_taken, produced, session_key, write};
use custody_arguments::{ArgumentOrigin, RecordedArgument, ToolEffect};
use custody_kernel::adapter::{Adapt, AdapterChange, Name};
use custody_kernel::evidence::{Evidence, Finding};
use custody_kernel::kind::EntryKind;
use custody_kernel::label::Channel;
use custody_kernel::memory::refusal::Refusal;
use custody_kernel::namespace::{Scope, Tenant};
use custody_kernel::principal::{Authority, Role};
use custody_kernel::record::{AdminRequest, Answer, ObservationKind, Record, Request, Value};
use custody_kernel::state::{AskError, State};
use custody_kernel::step::{Indicated, PlanEffects, Recover, RecoveryStep};
use custody_kernel::tool::call::{Call, Permission, PolicyAnswer};
use custody_log::{Digest, IncidentId, Seq, SessionId};

const A: Digest = Digest([0xa; 32]);
const B: Digest = Digest([0xb; 32]);

fn host() -> Name {
    "vllm-1".parse().unwrap()
}

fn adapt(change: AdapterChange) -> Request {
    Request::Admin(AdminRequest::Adapt(Box::new(Adapt { host: host(), change })))
}

fn load(weights: Digest, made_from: Vec<Seq>) -> Request {
    adapt(AdapterChange::Load { weights, name: "finance".parse().unwrap(), made_from })
}

fn unload(weights: Digest) -> Request {
    adapt(AdapterChange::Unload { weights })
}

fn fuse(weights: &[Digest]) -> Request {
    adapt(AdapterChange::Fuse { weights: weights.to_vec() })
}

/// A session on the host.
fn open(store: &mut Store, authority: Authority, id: u8) -> SessionId {
    let session = SessionId::from_random([id; 16]);
    let request = Request::Admin(AdminRequest::OpenSession {
        session,
        alias: None,
        host: Some(host()),
        key: Some(Digest(session_key(session).verifying_key().to_bytes())),
    });
    assert_eq!(store.ask(Actor::Principal(authority), request), Answer::Done);
    store.hears(session, Channel::User);
    session
}

fn last(store: &Store) -> &Record {
    store.log.last().unwrap()
}

/// What the model says next is recorded with these weights.
fn speaks_under(store: &mut Store, session: SessionId) -> Vec<Digest> {
    store.completes(session);
    last(store).weights.clone()
}

fn writes(store: &mut Store, session: SessionId, key: &str) -> Answer {
    let value = Value::New(Digest::of(key.as_bytes()));
    store.ask(Actor::Session(session), write(Scope::Shared, key, value))
}

/// An incident whose plan evicts `weights`.
fn evict(store: &mut Store, weights: &[Digest]) -> IncidentId {
    let id = IncidentId::from_random([3; 16]);
    let mut take = |step| {
        let request =
            Request::Admin(AdminRequest::Recover(Box::new(Recover { incident: id, step })));
        assert_eq!(store.by_owner(request), Answer::Done);
    };
    let finding = Finding { entry: Seq(1), indicator: 0, by: Evidence::Hash };
    let indicators = Value::New(Digest([1; 32]));
    take(RecoveryStep::Open(Indicated { indicators, findings: vec![finding] }));
    take(RecoveryStep::Apply(PlanEffects {
        plan: Digest([2; 32]),
        text: Value::New(Digest([4; 32])),
        flagged: vec![],
        quarantined: vec![],
        purged: vec![Seq(1)],
        evicted: weights.to_vec(),
        remaining: 0,
    }));
    id
}

/// (R10, R11, R12, R13)
#[test]
fn what_a_model_says_is_recorded_with_the_weights_it_carries() {
    let (mut store, ada, plain) = Store::with_ada();
    let session = open(&mut store, ada.token(), 2);
    assert_eq!(speaks_under(&mut store, session), []);
    store.by_owner(load(B, vec![]));
    store.by_owner(load(A, vec![]));
    assert_eq!(last(&store).weights, [A, B]);
    assert_eq!(speaks_under(&mut store, session), [A, B]);
    assert_eq!(speaks_under(&mut store, plain), [], "its model runs somewhere else");
    store.by_owner(fuse(&[A]));
    let base = last(&store).weights[0];
    assert_eq!(speaks_under(&mut store, session), [base, B]);
    store.by_owner(unload(B));
    assert_eq!(speaks_under(&mut store, session), [base]);
    store.by_owner(load(B, vec![]));
    assert_eq!(speaks_under(&mut store, session), [base, B]);
    store.observes(session, produced(ObservationKind::ToolCall));
    assert_eq!(last(&store).weights, [base, B]);
    assert_eq!(writes(&mut store, session, "note"), Answer::Done);
    assert_eq!(last(&store).weights, [base, B]);
    store.hears(session, Channel::User);
    assert_eq!(last(&store).weights, [], "what was said to the model is not the model's");
}

#[test]
fn what_is_not_there_can_neither_be_unloaded_nor_fused() {
    let (mut store, _, _) = Store::with_ada();
    let owner = Actor::Principal(store.owner.clone());
    let mut ask = |request| store.try_ask(owner.clone(), request);
    assert!(matches!(ask(unload(A)), Err(AskError::NotLoaded(_))));
    assert!(matches!(ask(fuse(&[A])), Err(AskError::NotLoaded(_))));
    assert_eq!(ask(fuse(&[])), Err(AskError::NothingToFuse));
    assert_eq!(ask(load(A, vec![Seq(999)])), Err(AskError::UnknownEntry(Seq(999))));
    assert_eq!(ask(load(A, vec![])), Ok(Answer::Done));
    assert_eq!(ask(fuse(&[A])), Ok(Answer::Done));
    let base = store.log.last().unwrap().weights[0];
    let mut ask = |request| store.try_ask(owner.clone(), request);
    assert_eq!(ask(load(B, vec![])), Ok(Answer::Done));
    assert_eq!(ask(fuse(&[B])), Err(AskError::BaseNotNamed(base)));
    assert_eq!(ask(fuse(&[base])), Err(AskError::NothingToFuse));
    assert_eq!(ask(fuse(&[base, B])), Ok(Answer::Done));
}

#[test]
fn only_the_owner_says_what_a_host_carries() {
    let (mut store, ada, session) = Store::with_ada();
    let answer = store.ask(Actor::Principal(ada.in_person()), load(A, vec![]));
    assert!(matches!(answer, Answer::Refused(Refusal::NeedsOwner)), "{answer:?}");
    assert_eq!(last(&store).weights, []);
    assert_eq!(store.state.hosts().count(), 0);
    assert!(!is_taken(&store, &Actor::Session(session), &load(A, vec![])));
}

#[test]
fn an_adapter_trained_on_untrusted_text_taints_whatever_its_model_says() {
    let (mut store, ada, _) = Store::with_ada();
    let early = open(&mut store, ada.token(), 2);
    let web = store.hears(early, Channel::Web);
    let before = open(&mut store, ada.token(), 3);
    assert_eq!(writes(&mut store, before, "before"), Answer::Done);

    store.by_owner(load(A, vec![web]));
    assert_eq!((last(&store).parents.clone(), last(&store).label.is_tainted()), (vec![web], true));
    let after = open(&mut store, ada.token(), 4);
    for session in [before, after] {
        let answer = writes(&mut store, session, "after");
        assert!(matches!(answer, Answer::Refused(Refusal::Tainted { .. })), "{answer:?}");
        store.completes(session);
        assert!(last(&store).label.is_tainted());
    }
    store.by_owner(unload(A));
    let later = open(&mut store, ada.token(), 5);
    assert_eq!(writes(&mut store, later, "later"), Answer::Done);

    store.by_owner(load(A, vec![web]));
    store.by_owner(fuse(&[A]));
    let fused = open(&mut store, ada.token(), 6);
    let answer = writes(&mut store, fused, "fused");
    assert!(matches!(answer, Answer::Refused(Refusal::Tainted { .. })), "{answer:?}");
}

#[test]
fn evicted_weights_are_loaded_nowhere_again_and_taint_the_host_until_they_are_gone() {
    let (mut store, ada, _) = Store::with_ada();
    store.by_owner(load(A, vec![]));
    let session = open(&mut store, ada.token(), 2);
    assert_eq!(writes(&mut store, session, "before"), Answer::Done);
    let incident = evict(&mut store, &[A]);
    assert_eq!(store.state.loads_left(A), 1, "a host unloads, not a plan");
    let other = open(&mut store, ada.token(), 3);
    for session in [session, other] {
        let answer = writes(&mut store, session, "since");
        assert!(matches!(answer, Answer::Refused(Refusal::Tainted { .. })), "{answer:?}");
    }
    store.by_owner(unload(A));
    let eviction = store.state.eviction(A).unwrap();
    assert_eq!((eviction.incident, eviction.unloaded), (incident, 1));
    let answer = store.by_owner(load(A, vec![]));
    assert_eq!(answer, Answer::Refused(Refusal::Evicted { weights: A, incident }));
    let clean = open(&mut store, ada.token(), 4);
    assert_eq!(writes(&mut store, clean, "clean"), Answer::Done);
}

#[test]
fn what_a_held_adapter_produces_is_held_with_it() {
    let (mut store, ada, _) = Store::with_ada();
    store.by_owner(load(A, vec![]));
    let loaded = store.last_seq();
    let session = open(&mut store, ada.token(), 2);
    let id = IncidentId::from_random([3; 16]);
    let finding = Finding { entry: loaded, indicator: 0, by: Evidence::Hash };
    let indicated = Indicated { indicators: Value::New(Digest([1; 32])), findings: vec![finding] };
    for step in [RecoveryStep::Open(indicated), RecoveryStep::Contain { members: vec![loaded] }] {
        let request =
            Request::Admin(AdminRequest::Recover(Box::new(Recover { incident: id, step })));
        assert_eq!(store.by_owner(request), Answer::Done);
    }
    let said = store.completes(session);
    assert!(store.state.is_out(said));
}

#[test]
fn a_log_with_adapters_folds_and_recounts_to_the_same_state() {
    let (mut store, ada, _) = Store::with_ada();
    store.by_owner(load(A, vec![]));
    let session = open(&mut store, ada.token(), 2);
    store.completes(session);
    store.by_owner(fuse(&[A]));
    store.completes(session);
    evict(&mut store, &[A]);
    store.completes(session);
    let (mut folded, mut recounted) = (State::default(), State::default());
    for record in &store.log {
        let read = Record::from_bytes(&record.to_bytes().unwrap()).unwrap();
        assert_eq!(read, *record);
        folded.fold(&read).unwrap();
        recounted.recount(&read).unwrap();
    }
    for state in [&folded, &recounted] {
        assert_eq!(state.state_hash(), store.state.state_hash());
        assert_eq!(state.eviction(A), store.state.eviction(A));
    }
    // A record that says of other weights what it was made under is no record of this log.
    let at = store.log.iter().rposition(|record| !record.weights.is_empty()).unwrap();
    let mut lie = store.log[at].clone();
    lie.weights = vec![B];
    let mut before = State::default();
    for record in &store.log[..at] {
        before.fold(record).unwrap();
    }
    assert!(before.fold(&lie).is_err());
}

#[test]
fn certificates_tell_loads_unloads_and_fusions_apart() {
    assert_eq!(EntryKind::of(&load(A, vec![])), EntryKind::AdapterLoad);
    assert_eq!(EntryKind::of(&unload(A)), EntryKind::AdapterUnload);
    assert_eq!(EntryKind::of(&fuse(&[A])), EntryKind::AdapterFuse);
}

/// A call of a tool with one argument that came from these entries.
fn call(from: Vec<Seq>) -> Request {
    let (waives_floor, extracts, by) = (false, vec![], vec![]);
    let (version, answer) = (Digest([7; 32]), Permission::Allow);
    let origin = ArgumentOrigin::Tool { from };
    Request::Call(Box::new(Call {
        tool: "send".into(),
        effect: ToolEffect::Writes,
        known: true,
        manifest: Digest([6; 32]),
        arguments: Value::New(Digest([5; 32])),
        leaves: vec![RecordedArgument { path: "body".into(), sink: None, origin }],
        policy: PolicyAnswer { version, answer, waives_floor, extracts, by },
        local_policy: None,
        intent: None,
        approval: None,
    }))
}

#[test]
fn a_session_of_another_tenant_on_a_tainted_host_is_asked_about_its_calls() {
    let (mut store, ada, session) = Store::with_ada();
    let web = store.hears(session, Channel::Web);
    let tenant: Tenant = "acme".parse().unwrap();
    let bob = store.knows("bob", Role::User, &tenant, 8);
    let before = open(&mut store, bob.token(), 2);
    store.by_owner(load(A, vec![web]));
    let loaded = store.last_seq();
    let after = open(&mut store, bob.token(), 3);
    for session in [before, after] {
        let heard = store.hears(session, Channel::User);
        let answer = store.ask(Actor::Session(session), call(vec![heard]));
        assert_eq!(answer.word(), "pending", "{answer:?}");
        assert!(last(&store).label.is_tainted() && last(&store).parents.contains(&loaded));
        let names = |entry| Err(AskError::UnknownEntry(entry));
        for others in [loaded, web] {
            let answer = store.try_ask(Actor::Session(session), call(vec![others]));
            assert_eq!(answer, names(others), "what is another tenant's cannot be named");
        }
    }
    let own = open(&mut store, ada.token(), 4);
    assert_eq!(store.ask(Actor::Session(own), call(vec![loaded])).word(), "pending");
}
