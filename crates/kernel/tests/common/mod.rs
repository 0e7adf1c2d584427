//! A store in memory, driven by a clock that ticks once per request.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test file uses its part")]

use custody_kernel::digest::Digest;
use custody_kernel::id::{EntryId, PrincipalId, SessionId, StoreId, Timestamp};
use custody_kernel::label::Channel;
use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::{Scope, Tenant};
use custody_kernel::principal::{Authority, Principal, Role, challenge_bytes};
use custody_kernel::record::{Answer, EntryKind, Genesis, LogKey, Record, Request, Value};
use custody_kernel::state::{Actor, AskError, Asked, State};
use ed25519_dalek::{Signer, SigningKey};

pub struct Store {
    pub state: State,
    pub log: Vec<Record>,
    pub clock: u64,
    pub owner: Authority,
}

pub fn human(name: &str, role: Role, key: &SigningKey, id: u8) -> Principal {
    Principal {
        id: PrincipalId::from_random([id; 16]),
        name: name.into(),
        role,
        tenant: Tenant::main(),
        public_key: Some(Digest(key.verifying_key().to_bytes())),
        token_hash: Some(Digest::of(name.as_bytes())),
    }
}

/// The authority of a human who is present.
pub fn prove(principal: &Principal, key: &SigningKey) -> Authority {
    let challenge = [5; 32];
    let signature = key.sign(&challenge_bytes(&challenge));
    Authority::by_signature(principal, &challenge, &signature).unwrap()
}

/// A user named `ada`, whose token is `ada`.
pub fn user() -> (Principal, SigningKey) {
    let key = SigningKey::from_bytes(&[7; 32]);
    (human("ada", Role::User, &key, 7), key)
}

impl Store {
    pub fn new() -> Self {
        Self::with_limits(Limits { changes: Some(3), ..Limits::default() })
    }

    pub fn with_limits(limits: Limits) -> Self {
        let key = SigningKey::from_bytes(&[1; 32]);
        let owner = human("owner", Role::Owner, &key, 1);
        let authority = prove(&owner, &key);
        let log_key = LogKey { public_key: Digest([2; 32]), certificate: String::new() };
        let store = StoreId::from_random([9; 16]);
        let mut this = Self { state: State::default(), log: vec![], clock: 0, owner: authority };
        let genesis = Genesis { store, owner, log_key, limits };
        assert_eq!(this.by_owner(Request::Found(Box::new(genesis))), Answer::Done);
        this
    }

    pub fn try_ask(&mut self, by: Actor, request: Request) -> Result<Answer, AskError> {
        self.clock += 1;
        let asked = Asked { by, at: Timestamp(self.clock), request };
        let decided = self.state.decide(asked)?;
        let answer = decided.answer().clone();
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.state.len().to_be_bytes());
        let record = self.state.commit(decided, EntryId::from_random(id), vec![]).unwrap();
        self.log.push(record);
        Ok(answer)
    }

    pub fn ask(&mut self, by: Actor, request: Request) -> Answer {
        self.try_ask(by, request).unwrap()
    }

    pub fn by_owner(&mut self, request: Request) -> Answer {
        self.ask(Actor::Principal(self.owner.clone()), request)
    }

    pub fn open(&mut self, authority: Authority, id: u8) -> SessionId {
        let session = SessionId::from_random([id; 16]);
        let request = Request::OpenSession { session, alias: None };
        assert_eq!(self.ask(Actor::Principal(authority), request), Answer::Done);
        session
    }

    pub fn hears(&mut self, session: SessionId, channel: Channel) {
        let request = Request::Observe {
            kind: EntryKind::Message,
            channel,
            lowered: false,
            content: None,
            origin: None,
            parents: vec![],
        };
        assert_eq!(self.ask(Actor::Session(session), request), Answer::Done);
    }

    /// Writes the key's own name as its value.
    pub fn writes(&mut self, session: SessionId, scope: Scope, key: &str, queue: bool) -> Answer {
        let value = Value::New(Digest::of(key.as_bytes()));
        let key = key.parse().unwrap();
        let request = Request::Write { scope, key, value, depends_on: vec![], queue };
        self.ask(Actor::Session(session), request)
    }

    pub fn last_id(&self) -> EntryId {
        self.log.last().unwrap().id
    }
}
