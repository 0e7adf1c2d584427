//! Whose certificate it should be. A key comes from the command line or from the store, never from the certificate.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use custody_keys::public_key;
use custody_runtime::{OpenError, Store};
use ed25519_dalek::VerifyingKey;

use crate::context::GlobalContext;

/// The largest key file that is read, in bytes.
const MAX_KEY_BYTES: u64 = 4 << 10;

/// The key that a certificate must be signed with.
#[derive(Debug, clap::Args)]
pub(super) struct KeyArgs {
    /// The owner's public key: 64 hexadecimal digits, as `custody keys show` prints them
    #[arg(long, value_name = "HEX")]
    key: Option<String>,
    /// A file with the owner's public key, in hexadecimal or PEM
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    key_file: Option<PathBuf>,
}

/// Where a key came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Source {
    /// The command line.
    Option,
    /// The store.
    Store,
}

/// A key, and the store that the certificate is compared with, if there is one.
pub(super) struct Trusted {
    pub(super) key: VerifyingKey,
    pub(super) source: Source,
    pub(super) store: Option<Store>,
}

impl KeyArgs {
    /// The key that was given.
    pub(super) fn given(&self) -> anyhow::Result<Option<VerifyingKey>> {
        let (text, what) = match (&self.key, &self.key_file) {
            (None, None) => return Ok(None),
            (Some(text), _) => (text.clone(), "--key".to_owned()),
            (None, Some(file)) => {
                let what = file.display().to_string();
                (read(file).with_context(|| format!("could not read `{what}`"))?, what)
            }
        };
        let key = public_key::parse(&text).with_context(|| format!("`{what}` is of no use"))?;
        Ok(Some(key))
    }

    /// The key that was given, else the store's owner's. The store is opened where it was named, or where its key
    /// is needed.
    pub(super) fn trusted(&self, context: &GlobalContext) -> anyhow::Result<Trusted> {
        let given = self.given()?;
        if let (Some(key), false) = (given, context.names_store()) {
            return Ok(Trusted { key, source: Source::Option, store: None });
        }
        let store = match context.open_existing() {
            Err(OpenError::NoKeys(_)) if given.is_none() && !context.names_store() => bail!(
                "whose certificate should it be? Give the owner's public key with --key, or name the store \
                 with --store"
            ),
            opened => opened?,
        };
        match given {
            Some(key) => Ok(Trusted { key, source: Source::Option, store: Some(store) }),
            None => {
                Ok(Trusted { key: owner_key(&store)?, source: Source::Store, store: Some(store) })
            }
        }
    }
}

/// The public key of a store's owner.
fn owner_key(store: &Store) -> anyhow::Result<VerifyingKey> {
    let key = store.state(|state| state.owner().and_then(|owner| owner.public_key))?;
    let key = key.context("the store's owner has no key")?;
    Ok(public_key::parse(&key.to_string())?)
}

fn read(file: &PathBuf) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    std::fs::File::open(file)?.take(MAX_KEY_BYTES).read_to_string(&mut text)?;
    Ok(text)
}
