//! Scratch stores: real ones, in a temporary folder, with an owner who is this process.
//!
//! For demonstrations, replays of traces and measurements. Everything goes with the value.

use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::Tenant;
use custody_kernel::principal::{Authority, Role};
use custody_keys::HumanKey;
use custody_store::clock::Clock;
use custody_store::principals::{NewPrincipal, prove};
use custody_store::{OpenError, Paths, PrincipalError, Store, StoreError, Tampering};
use tempfile::TempDir;

/// A store that nobody will miss.
#[derive(Debug)]
pub struct Scratch {
    /// The store.
    pub store: Store,
    /// Its owner's authority.
    pub owner: Authority,
    /// Its owner's key.
    pub owner_key: HumanKey,
    /// Where it is.
    pub paths: Paths,
    // Dropped last, when nothing is open in it any more.
    folder: TempDir,
}

impl Scratch {
    /// Creates a store in a fresh temporary folder.
    ///
    /// # Errors
    /// As [`Store::create`].
    pub fn new(limits: Limits, clock: Clock) -> Result<Self, OpenError> {
        let folder = tempfile::tempdir().map_err(|cause| StoreError::File {
            doing: "create",
            path: std::env::temp_dir(),
            cause,
        })?;
        let paths =
            Paths { store: folder.path().join("custody.db"), keys: folder.path().join("keys") };
        let owner_key = HumanKey::generate();
        let store = Store::create(&paths, "owner", &owner_key, limits, clock)?;
        let owner = store.state(|state| state.owner().cloned())?;
        let owner = prove(&owner_key, &owner.ok_or(Tampering::MissingRecord(0))?)?;
        Ok(Self { store, owner, owner_key, paths, folder })
    }

    /// Adds a user of the main tenant, and returns what their agent shows: a token's authority. No human is proven by
    /// it.
    ///
    /// # Errors
    /// When the name is taken or is none.
    pub fn add_user(&self, name: &str) -> Result<Authority, PrincipalError> {
        let new = NewPrincipal {
            name,
            role: Role::User,
            tenant: Tenant::main(),
            public_key: None,
            with_token: true,
        };
        let (_, token) = self.store.add_principal(&self.owner, new)?;
        self.store.authenticate_token(&token.unwrap_or_default())
    }

    /// The temporary folder.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }
}
