//! A real store in a scratch folder.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test file uses its part")]

use custody_kernel::key::Key;
use custody_kernel::label::Channel;
use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::{Namespace, Tenant};
use custody_kernel::principal::{Authority, Role};
use custody_runtime::clock::Clock;
use custody_runtime::ingress::Observation;
use custody_runtime::keys::HumanKey;
use custody_runtime::principals::NewPrincipal;
use custody_runtime::{Paths, Session, Store, StoreError};
use tempfile::TempDir;

pub struct Scratch {
    pub folder: TempDir,
    pub paths: Paths,
    pub owner_key: HumanKey,
    pub owner: Authority,
    pub store: Store,
    pub clock: Clock,
}

pub const FREE: Limits = Limits { changes: None, window_ms: 60_000, proposal_ttl_ms: 1_000 };

impl Scratch {
    pub fn new() -> Self {
        Self::with_limits(FREE)
    }

    pub fn with_limits(limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths {
            store: folder.path().join("store/custody.db"),
            keys: folder.path().join("keys"),
        };
        let owner_key = HumanKey::generate();
        let clock = Clock::manual(1_000);
        let store = Store::create(&paths, "owner", &owner_key, limits, clock.clone()).unwrap();
        let owner = store.authenticate("owner", &owner_key).unwrap();
        Self { folder, paths, owner_key, owner, store, clock }
    }

    pub fn reopen(&self) -> Result<Store, StoreError> {
        Store::open(&self.paths, self.clock.clone())
    }

    /// Registers a principal with a key and a token.
    pub fn add(&self, name: &str, role: Role) -> (HumanKey, String) {
        let key = HumanKey::generate();
        let public_key = role.is_human().then(|| key.public_key());
        let tenant = Tenant::main();
        let new = NewPrincipal { name, role, tenant, public_key, with_token: true };
        let (receipt, token) = self.store.add_principal(&self.owner, new).unwrap();
        assert_eq!(receipt.answer.refusal(), None);
        (key, token.unwrap().to_string())
    }

    /// A session that an agent runs for a user.
    pub fn session_for_user(&self, name: &str) -> Session {
        let (_, token) = self.add(name, Role::User);
        let authority = self.store.authenticate_token(&token).unwrap();
        Session::open(&self.store, &authority, None).unwrap()
    }
}

pub fn hears(session: &Session, channel: Channel, text: &str) {
    session.observe(Observation::message(channel, text)).wait().unwrap();
}

pub fn key(text: &str) -> Key {
    text.parse().unwrap()
}

pub fn shared() -> Namespace {
    Namespace::shared(Tenant::main())
}
