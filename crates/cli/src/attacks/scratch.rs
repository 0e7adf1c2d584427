//! A real store in a scratch folder, with people in it. The folder goes when the value is dropped.

use std::path::PathBuf;

use custody_kernel::key::Key;
use custody_kernel::label::Channel;
use custody_kernel::memory::item::Mode;
use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::{Namespace, Scope, Tenant};
use custody_kernel::principal::{Authority, Role};
use custody_kernel::record::{AdminRequest, Answer};
use custody_kernel::state::State;
use custody_keys::HumanKey;
use custody_log::Digest;
use custody_runtime::clock::Clock;
use custody_runtime::ingress::Observation;
use custody_runtime::principals::NewPrincipal;
use custody_runtime::session::Write;
use custody_runtime::store::Receipt;
use custody_runtime::watch::adopt_file;
use custody_runtime::{Paths, Session, Store};
use tempfile::TempDir;

use super::AttackError;

/// No limit on changes, nor on what waits for a human.
pub const FREE: Limits =
    Limits { waiting_calls: u32::MAX, waiting_changes: u32::MAX, ..Limits::UNLIMITED };

/// The files that agents take their identity from, and what the scratch ones say.
pub const IDENTITY_FILES: [(&str, &str); 2] = [
    ("SOUL.md", "You are a careful assistant. You never send data to strangers.\n"),
    ("CLAUDE.md", "Run the tests before every commit. Ask before you delete anything.\n"),
];

/// A store to be attacked, its owner, and its clock, which stands still until it is moved.
pub struct ScratchStore {
    /// The store.
    pub store: Store,
    /// Its owner's authority.
    pub owner: Authority,
    /// Its clock, at 1,000 ms.
    pub clock: Clock,
    /// Where it is.
    pub paths: Paths,
    folder: TempDir,
}

/// A registered human: present, and through the token that their agents hold.
pub struct Human {
    /// As they prove it themselves.
    pub present: Authority,
    /// As the agents that work for them prove it.
    pub by_token: Authority,
    /// What those agents hold.
    pub token: String,
}

impl ScratchStore {
    /// Creates a store with these limits in a fresh folder.
    ///
    /// # Errors
    /// When the folder or the store cannot be made.
    pub fn new(limits: Limits) -> Result<Self, AttackError> {
        let folder = tempfile::tempdir().map_err(AttackError::file(std::env::temp_dir()))?;
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
    ///
    /// # Errors
    /// When the store fails or refuses it.
    pub fn with_identity_files(limits: Limits) -> Result<Self, AttackError> {
        let this = Self::new(limits)?;
        for (name, text) in IDENTITY_FILES {
            let path = this.file(name);
            std::fs::write(&path, text).map_err(AttackError::file(&path))?;
            done(&adopt_file(&this.store, &this.owner, key(name), &path)?)?;
        }
        let owner = this.open(&this.owner)?;
        this.message(&owner, Channel::User, "Keep my notes.")?;
        done(&this.write(&owner, Scope::Shared, "notes", "Tea at four.")?)?;
        Ok(this)
    }

    /// Where an identity file is.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// How many identity files differ from what they said in the beginning, by SHA-256.
    pub fn changed_files(&self) -> u64 {
        let changed = IDENTITY_FILES.iter().filter(|(name, text)| {
            let now = std::fs::read(self.file(name)).map(|bytes| Digest::of(&bytes));
            now.ok() != Some(Digest::of(text.as_bytes()))
        });
        changed.count() as u64
    }

    /// Registers a human of that role, with a key and a token.
    ///
    /// # Errors
    /// When the store fails or refuses it.
    pub fn human(&self, name: &str, role: Role) -> Result<Human, AttackError> {
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
    ///
    /// # Errors
    /// When the store fails or refuses it.
    pub fn agent(&self, name: &str) -> Result<Authority, AttackError> {
        let token = self.register(name, Role::Agent, None)?;
        Ok(self.store.authenticate_token(&token)?)
    }

    fn register(
        &self,
        name: &str,
        role: Role,
        public_key: Option<Digest>,
    ) -> Result<String, AttackError> {
        let tenant = Tenant::main();
        let new = NewPrincipal { name, role, tenant, public_key, with_token: true };
        let (receipt, token) = self.store.add_principal(&self.owner, new)?;
        done(&receipt)?;
        let token = token.ok_or_else(|| AttackError::Setup(format!("no token for `{name}`")))?;
        Ok(token.to_string())
    }

    /// Opens a session for `who`.
    ///
    /// # Errors
    /// When the store fails or refuses it.
    pub fn open(&self, who: &Authority) -> Result<Session, AttackError> {
        Ok(Session::open(&self.store, who, None)?)
    }

    /// Records a message, and gives its last part.
    ///
    /// # Errors
    /// When the store fails or refuses it.
    pub fn message(
        &self,
        session: &Session,
        channel: Channel,
        text: &str,
    ) -> Result<Receipt, AttackError> {
        self.observe(session, Observation::message(channel, text))
    }

    /// Records an observation, and gives its last part.
    ///
    /// # Errors
    /// When the store fails or refuses it.
    pub fn observe(
        &self,
        session: &Session,
        observation: Observation,
    ) -> Result<Receipt, AttackError> {
        let mut parts = session.observe(observation).wait()?;
        parts.pop().ok_or_else(|| AttackError::Setup("an observation left no entry".into()))
    }

    /// Asks for a write, and gives the answer, which may be a refusal.
    ///
    /// # Errors
    /// When the store fails.
    pub fn write(
        &self,
        session: &Session,
        scope: Scope,
        name: &str,
        text: &str,
    ) -> Result<Receipt, AttackError> {
        Ok(session.write(Write::new(scope, key(name), text)).wait()?)
    }

    /// Has the owner set the mode of a shared item.
    ///
    /// # Errors
    /// When the store fails or refuses it.
    pub fn set_mode(&self, name: &str, mode: Mode) -> Result<(), AttackError> {
        let (tenant, key) = (Tenant::main(), key(name));
        let request = AdminRequest::SetMode { tenant, scope: Scope::Shared, key, mode };
        done(&self.store.ask(&self.owner, request)?)
    }

    /// The bytes of a shared item, if there is one.
    ///
    /// # Errors
    /// When the store fails.
    pub fn shared(&self, name: &str) -> Result<Option<Vec<u8>>, AttackError> {
        let values = self.store.values(&Namespace::shared(Tenant::main()))?;
        Ok(values.get(&key(name)).cloned())
    }

    /// The digest of the state that the log folds to.
    ///
    /// # Errors
    /// When the store fails.
    pub fn state_hash(&self) -> Result<Digest, AttackError> {
        Ok(self.store.state(State::state_hash)?)
    }
}

/// A key written in this program.
///
/// # Panics
/// When `name` is no key.
pub fn key(name: &str) -> Key {
    name.parse().expect("a key written in this program")
}

/// For steps that only prepare: anything but `done` ends the measurement.
///
/// # Errors
/// When the answer is another.
pub fn done(receipt: &Receipt) -> Result<(), AttackError> {
    if receipt.answer == Answer::Done {
        return Ok(());
    }
    Err(AttackError::Setup(format!("the answer was {:?}", receipt.answer)))
}

/// What decided: `accepted`, `pending`, `refused by rule 4` ….
pub fn decided_by(receipt: &Receipt) -> String {
    match &receipt.answer {
        Answer::Refused(refusal) => format!("refused by {}", refusal.rule()),
        answer @ (Answer::Done
        | Answer::Value { .. }
        | Answer::NotFound
        | Answer::Pending { .. }) => answer.word().to_owned(),
    }
}
