//! The state machine as a whole: what is asked, what is answered, and that a stranger can recount it.

mod common;

use common::{Actor, Store, prove, user};
use custody_kernel::label::Channel;
use custody_kernel::memory::item::Mode;
use custody_kernel::namespace::{Namespace, Scope, Tenant};
use custody_kernel::principal::Authority;
use custody_kernel::record::{AdminRequest, Answer, Record, Request, SessionRequest};
use custody_kernel::state::State;
use custody_log::Digest;

#[test]
fn every_answer_of_a_log_can_be_recounted_and_none_can_be_altered() {
    let mut store = Store::new();
    let (ada, key) = user();
    store.by_owner(Request::Admin(AdminRequest::AddPrincipal(Box::new(ada.clone()))));
    let agent = store.open(Authority::by_token(&ada, b"ada").unwrap(), 1);
    store.hears(agent, Channel::User);
    assert_eq!(store.writes(agent, Scope::Session(agent), "notes", false), Answer::Done);
    let promote =
        Request::Session(SessionRequest::Promote { from: agent, key: "notes".parse().unwrap() });
    assert_eq!(store.ask(Actor::Session(agent), promote), Answer::Done);
    store.hears(agent, Channel::Web);
    assert_eq!(store.writes(agent, Scope::Shared, "notes", false).word(), "refused");
    assert_eq!(store.writes(agent, Scope::Shared, "facts", true).word(), "pending");
    let proposal = store.last_id();
    let approve =
        Request::Admin(AdminRequest::Approve { proposal, shown: Some(Digest::of(b"facts")) });
    assert_eq!(
        store.ask(Actor::Principal(prove(&ada, &key)), approve.clone()),
        Answer::Done,
        "the human behind the agent may review what the agent proposed"
    );
    let again = store.by_owner(approve);
    assert_eq!(again.word(), "refused", "an approval is used once");

    let mut recounted = State::default();
    for record in &store.log {
        let bytes = record.to_bytes().unwrap();
        recounted.recount(&Record::from_bytes(&bytes).unwrap()).unwrap();
    }
    assert_eq!(recounted.state_hash(), store.state.state_hash());

    let refused = store.log.iter().position(|record| record.answer.word() == "refused").unwrap();
    let mut forged = State::default();
    for record in &store.log[..refused] {
        forged.recount(record).unwrap();
    }
    let lie = Record { answer: Answer::Done, ..store.log[refused].clone() };
    assert!(forged.recount(&lie).is_err(), "an accepted record that the rules refuse is found");
}

#[test]
fn a_declassified_version_reads_clean_while_its_entry_stays_tainted() {
    let mut store = Store::new();
    let (ada, key) = user();
    store.by_owner(Request::Admin(AdminRequest::AddPrincipal(Box::new(ada.clone()))));
    let session = store.open(Authority::by_token(&ada, b"ada").unwrap(), 1);
    store.hears(session, Channel::Web);
    store.writes(session, Scope::Shared, "facts", true);
    let proposal = store.last_id();
    let shown = Some(Digest::of(b"facts"));
    let human = prove(&ada, &key);
    store.ask(
        Actor::Principal(human.clone()),
        Request::Admin(AdminRequest::Approve { proposal, shown }),
    );
    assert!(store.log.last().unwrap().label.is_tainted(), "the graph keeps the origin");

    let other = store.open(human, 2);
    let read = Request::Session(SessionRequest::Read {
        scope: Scope::Shared,
        key: "facts".parse().unwrap(),
    });
    assert!(matches!(store.ask(Actor::Session(other), read), Answer::Value { .. }));
    assert!(!store.state.session(other).unwrap().context.label().is_tainted());
    assert_eq!(store.writes(other, Scope::Shared, "summary", false), Answer::Done);
}

#[test]
fn an_immutable_shared_item_is_neither_changed_nor_shadowed_nor_imitated() {
    let mut store = Store::new();
    let owner = store.owner.clone();
    let session = store.open(owner, 1);
    store.hears(session, Channel::User);
    let tenant = Tenant::main();
    store.by_owner(Request::Admin(AdminRequest::SetMode {
        tenant: tenant.clone(),
        scope: Scope::Shared,
        key: "SOUL.md".parse().unwrap(),
        mode: Mode::Immutable,
    }));
    for scope in [Scope::Shared, Scope::Session(session)] {
        for key in ["SOUL.md", "soul.md", "SОUL.md"] {
            let answer = store.writes(session, scope, key, false);
            let rule = answer.refusal().map(|refusal| refusal.rule().to_string());
            assert_eq!(rule.as_deref(), Some("rule 3"), "{key} in {scope:?}");
        }
    }
    assert!(store.state.items_in(&Namespace::session(tenant, session)).is_empty());
}
