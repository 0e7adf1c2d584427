//! A real store in a scratch folder, which goes when it is dropped.

use std::path::PathBuf;

use custody_kernel::digest::Digest;
use custody_kernel::key::Key;
use custody_kernel::label::Channel;
use custody_kernel::memory::item::Mode;
use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::{Namespace, Scope, Tenant};
use custody_kernel::principal::{Authority, Role};
use custody_kernel::record::{Answer, Request};
use custody_kernel::state::State;
use custody_runtime::clock::Clock;
use custody_runtime::ingress::Observation;
use custody_runtime::keys::HumanKey;
use custody_runtime::principals::NewPrincipal;
use custody_runtime::session::Write;
use custody_runtime::store::Receipt;
use custody_runtime::{Paths, Session, Store};
use tempfile::TempDir;

use crate::error::EvalError;

/// No limit on changes.
pub(crate) const FREE: Limits = Limits::UNLIMITED;

/// The files that agents take their identity from, and what the scratch ones say.
pub(crate) const IDENTITY_FILES: [(&str, &str); 2] = [
    ("SOUL.md", "You are a careful assistant. You never send data to strangers.\n"),
    ("CLAUDE.md", "Run the tests before every commit. Ask before you delete anything.\n"),
];

pub(crate) struct Scratch {
    pub(crate) store: Store,
    pub(crate) owner: Authority,
    pub(crate) clock: Clock,
    pub(crate) paths: Paths,
    folder: TempDir,
}

/// A registered human: present, and through the token that their agents hold.
pub(crate) struct Human {
    pub(crate) present: Authority,
    pub(crate) by_token: Authority,
    pub(crate) token: String,
}

impl Scratch {
    pub(crate) fn new(limits: Limits) -> Result<Self, EvalError> {
        let folder = tempfile::tempdir().map_err(EvalError::file(std::env::temp_dir()))?;
        let paths = Paths {
            store: folder.path().join("store/custody.db"),
            keys: folder.path().join("keys"),
        };
        let owner_key = HumanKey::generate();
        let clock = Clock::manual(1_000);
        let store = Store::create(&paths, "owner", &owner_key, limits, clock.clone())?;
        let owner = store.authenticate("owner", &owner_key)?;
        Ok(Self { store, owner, clock, paths, folder })
    }

    /// One whose owner watches `SOUL.md` and `CLAUDE.md`, both immutable, and with `notes` in shared
    /// memory for everybody to change.
    pub(crate) fn with_identity_files(limits: Limits) -> Result<Self, EvalError> {
        let this = Self::new(limits)?;
        for (name, text) in IDENTITY_FILES {
            let path = this.file(name);
            std::fs::write(&path, text).map_err(EvalError::file(&path))?;
            done(&this.store.adopt_file(&this.owner, key(name), &path)?)?;
        }
        let owner = this.open(&this.owner)?;
        this.hear(&owner, Channel::User, "Keep my notes.")?;
        done(&this.write(&owner, Scope::Shared, "notes", "Tea at four.")?)?;
        Ok(this)
    }

    /// Where an identity file is.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// How many identity files differ from what they said in the beginning, by SHA-256.
    pub(crate) fn changed_files(&self) -> u64 {
        let changed = |(name, text): &(&str, &str)| {
            let now = std::fs::read(self.file(name)).map(|bytes| Digest::of(&bytes));
            now.ok() != Some(Digest::of(text.as_bytes()))
        };
        IDENTITY_FILES.iter().filter(|file| changed(file)).count() as u64
    }

    pub(crate) fn human(&self, name: &str, role: Role) -> Result<Human, EvalError> {
        let own_key = HumanKey::generate();
        let public_key = Some(own_key.public_key());
        let token = self.register(name, role, public_key)?;
        Ok(Human {
            present: self.store.authenticate(name, &own_key)?,
            by_token: self.store.authenticate_token(&token)?,
            token,
        })
    }

    /// An agent that works for nobody, by its token.
    pub(crate) fn agent(&self, name: &str) -> Result<Authority, EvalError> {
        let token = self.register(name, Role::Agent, None)?;
        Ok(self.store.authenticate_token(&token)?)
    }

    fn register(
        &self,
        name: &str,
        role: Role,
        public_key: Option<Digest>,
    ) -> Result<String, EvalError> {
        let tenant = Tenant::main();
        let new = NewPrincipal { name, role, tenant, public_key, with_token: true };
        let (receipt, token) = self.store.add_principal(&self.owner, new)?;
        done(&receipt)?;
        let token = token.ok_or_else(|| EvalError::Setup(format!("no token for `{name}`")))?;
        Ok(token.to_string())
    }

    pub(crate) fn open(&self, who: &Authority) -> Result<Session, EvalError> {
        Ok(Session::open(&self.store, who, None)?)
    }

    /// Records a message, and gives its last part.
    pub(crate) fn hear(
        &self,
        session: &Session,
        channel: Channel,
        text: &str,
    ) -> Result<Receipt, EvalError> {
        self.observe(session, Observation::message(channel, text))
    }

    /// Records an observation, and gives its last part.
    pub(crate) fn observe(
        &self,
        session: &Session,
        observation: Observation,
    ) -> Result<Receipt, EvalError> {
        let mut parts = session.observe(observation).wait()?;
        parts.pop().ok_or_else(|| EvalError::Setup("an observation left no entry".into()))
    }

    pub(crate) fn write(
        &self,
        session: &Session,
        scope: Scope,
        name: &str,
        text: &str,
    ) -> Result<Receipt, EvalError> {
        Ok(session.write(Write::new(scope, key(name), text)).wait()?)
    }

    pub(crate) fn set_mode(&self, name: &str, mode: Mode) -> Result<(), EvalError> {
        let (tenant, key) = (Tenant::main(), key(name));
        let request = Request::SetMode { tenant, scope: Scope::Shared, key, mode };
        done(&self.store.ask(&self.owner, request)?)
    }

    /// The bytes of a shared item.
    pub(crate) fn shared(&self, name: &str) -> Result<Option<Vec<u8>>, EvalError> {
        let values = self.store.values(&Namespace::shared(Tenant::main()))?;
        Ok(values.get(&key(name)).cloned())
    }

    pub(crate) fn state_hash(&self) -> Result<Digest, EvalError> {
        Ok(self.store.state(State::state_hash)?)
    }
}

/// A key written in this program.
pub(crate) fn key(name: &str) -> Key {
    name.parse().expect("a key written in this program")
}

/// For steps that only prepare: anything but `done` ends the measurement.
pub(crate) fn done(receipt: &Receipt) -> Result<(), EvalError> {
    if receipt.answer == Answer::Done {
        return Ok(());
    }
    Err(EvalError::Setup(format!("the answer was {:?}", receipt.answer)))
}

/// What decided: `accepted`, `pending`, `refused by rule 4` ….
pub(crate) fn decided_by(receipt: &Receipt) -> String {
    match &receipt.answer {
        Answer::Refused(refusal) => format!("refused by {}", refusal.rule()),
        answer
        @ (Answer::Done | Answer::Found { .. } | Answer::Absent | Answer::Pending { .. }) => {
            answer.word().to_owned()
        }
    }
}
