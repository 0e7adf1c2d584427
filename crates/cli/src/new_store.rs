//! A new store: its database, the keys of its owner and its log, and the first signed head.

use std::fs;

use anyhow::{bail, ensure};
use custody_kernel::memory::rate::Limits;
use custody_keys::{Existing, HumanKey, KeyFolder};
use custody_runtime::clock::Clock;
use custody_runtime::store::checked_name;
use custody_runtime::{OpenError, Paths, Store};

use crate::credential::{confirm, new_passphrase};

/// The name of the owner when none is given.
pub(crate) const OWNER: &str = "owner";

/// Offers to create the store at its first use.
pub(crate) fn offer(paths: &Paths) -> anyhow::Result<Store> {
    ensure_none(paths)?;
    let question = format!("There is no store at {} yet. Make one now?", paths.store.display());
    if !confirm(&question)? {
        return Err(OpenError::NoKeys(paths.keys.clone()).into());
    }
    let store = create(paths, OWNER)?;
    anstream::eprintln!(
        "Made {}; its keys are in {}. See `custody keys show`.",
        paths.store.display(),
        paths.keys.display()
    );
    Ok(store)
}

/// Creates the store and its keys. Asks for the owner's passphrase, twice, on the terminal.
pub(crate) fn create(paths: &Paths, owner: &str) -> anyhow::Result<Store> {
    let keys = KeyFolder::new(&paths.keys);
    let owner = checked_name(owner)?;
    if keys.humans().contains(&owner) {
        let question = format!(
            "{} has a key of {owner} already, of a store that is not here. Replace it?",
            keys.path().display()
        );
        ensure!(confirm(&question)?, OpenError::KeysExist(keys.path().into()));
    }
    let passphrase = new_passphrase(&owner)?;
    let key = HumanKey::generate();
    keys.store_human(&owner, &key, &passphrase, Existing::Replace)?;
    Ok(Store::create(paths, &owner, &key, Limits::default(), Clock::System)?)
}

/// Fails if a store was created here before: nothing may be replaced once a head was signed, whatever else is missing.
pub(crate) fn ensure_none(paths: &Paths) -> anyhow::Result<()> {
    match Store::open(paths, Clock::System) {
        Ok(_) => Err(OpenError::KeysExist(paths.keys.clone()).into()),
        Err(OpenError::NoKeys(_)) if head_is_signed(&KeyFolder::new(&paths.keys)) => bail!(
            "the store exists, but its log key is missing from `{}`; restore it, or run `custody \
             ledger adopt`",
            paths.keys.display()
        ),
        Err(OpenError::NoKeys(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn head_is_signed(keys: &KeyFolder) -> bool {
    match fs::read(keys.head()) {
        Ok(bytes) => bytes.iter().any(|byte| *byte != b'\n'),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}
