//! Bugs found in the kernel, each under the name of its cause.

mod common;

use common::{Person, Store, set_mode};
use custody_kernel::digest::Digest;
use custody_kernel::id::{EntryId, SessionId, StoreId, Timestamp};
use custody_kernel::label::Channel;
use custody_kernel::memory::item::Mode;
use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::{Scope, Tenant};
use custody_kernel::principal::{Authority, Credential, Role, Who};
use custody_kernel::record::{By, Genesis, LogKey, Request};
use custody_kernel::state::{Actor, AskError, Asked, State};

#[test]
fn an_authority_ends_with_the_registration_it_was_proven_from() {
    let (mut store, ada, session) = Store::with_ada();
    let ruth = store.knows("ruth", Role::Reviewer, &Tenant::main(), 8);
    store.hears(session, Channel::Web);
    store.writes(session, Scope::Shared, "facts", true);
    let proposal = store.last_id();
    let reviewer = ruth.in_person();
    store.by_owner(Request::RevokePrincipal { principal: ruth.principal.id });
    store.by_owner(Request::RevokePrincipal { principal: ada.principal.id });

    let approve = Request::Approve { proposal, shown: Some(Digest::of(b"facts")) };
    let open = Request::OpenSession { session, alias: None };
    for (who, request) in [(reviewer, approve), (ada.token(), open)] {
        let answer = store.try_ask(Actor::Principal(who), request);
        assert!(matches!(answer, Err(AskError::Unproven(..))), "{answer:?}");
    }
}

#[test]
fn a_principal_made_up_by_the_caller_is_nobody() {
    let (mut store, ada, _) = Store::with_ada();
    let stranger = Person::new("stranger", Role::Owner, &Tenant::main(), 66);
    let mut promoted = ada.clone();
    promoted.principal.role = Role::Owner;
    let mut moved = ada;
    moved.principal.tenant = "other".parse().unwrap();
    for person in [stranger, promoted, moved] {
        let by = Actor::Principal(person.in_person());
        let answer = store.try_ask(by, set_mode(Tenant::main(), "SOUL.md", Mode::Open));
        assert!(matches!(answer, Err(AskError::Unproven(..))), "{:?}", person.principal);
    }
}

#[test]
fn a_recount_refuses_an_owner_whom_the_store_never_knew() {
    let mut store = Store::new();
    store.sets("SOUL.md", Mode::Immutable);
    let mut record = store.log.pop().unwrap();
    let By::Principal(who) = record.by.clone() else { panic!("the owner asked") };
    let mut before = State::default();
    for record in &store.log {
        before.recount(record).unwrap();
    }
    let forgeries = [
        Who { principal: None, ..who.clone() },
        Who { role: Role::Reviewer, ..who.clone() },
        Who { credential: Credential::None, ..who },
    ];
    for forged in forgeries {
        record.by = By::Principal(forged);
        assert!(before.clone().recount(&record).is_err(), "{:?}", record.by);
    }
}

#[test]
fn a_second_principal_cannot_take_the_id_of_the_first() {
    let mut store = Store::new();
    let owner = store.state.owner().unwrap().clone();
    let mut impostor = Person::new("impostor", Role::Agent, &Tenant::main(), 3).principal;
    impostor.id = owner.id;
    let by = Actor::Principal(store.owner.clone());
    let answer = store.try_ask(by, Request::AddPrincipal(Box::new(impostor)));
    assert!(matches!(answer, Err(AskError::DuplicatePrincipal(_))), "{answer:?}");
    assert_eq!(store.state.owner(), Some(&owner));
}

#[test]
fn nothing_but_its_founding_can_be_the_first_record_of_a_store() {
    let owner = Person::new("owner", Role::Owner, &Tenant::main(), 1);
    let user = Person::new("ada", Role::User, &Tenant::main(), 7);
    let found = |owner: &Person| {
        Request::Found(Box::new(Genesis {
            store: StoreId::from_random([9; 16]),
            owner: owner.principal.clone(),
            log_key: LogKey { public_key: Digest([2; 32]), certificate: String::new() },
            limits: Limits::default(),
        }))
    };
    let open = Request::OpenSession { session: SessionId::from_random([1; 16]), alias: None };
    let nobody = Authority::unproven(Tenant::main());
    let first = [
        (nobody.clone(), open),
        (nobody, found(&owner)),
        (owner.token(), found(&owner)),
        (user.in_person(), found(&user)),
        (user.in_person(), found(&owner)),
        (owner.in_person(), found(&user)),
    ];
    let mut state = State::default();
    let asked =
        |by: Authority, request| Asked { by: Actor::Principal(by), at: Timestamp(1), request };
    for (by, request) in first {
        let answer = state.decide(asked(by, request)).map(|decided| decided.answer().clone());
        assert_eq!(answer, Err(AskError::NotFounded));
    }
    let decided = state.decide(asked(owner.in_person(), found(&owner))).unwrap();
    state.commit(decided, EntryId::from_random([0; 16]), vec![]).unwrap();
    assert_eq!(state.owner(), Some(&owner.principal));
}
