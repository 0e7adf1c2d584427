//! Changing the settings of the gateway: written to their file and adopted by the owner, so that they are signed.

use std::path::Path;

use anyhow::{Context as _, bail};
use custody_kernel::key::Key;
use custody_kernel::memory::item::Mode;
use custody_kernel::namespace::{Namespace, Scope, Tenant};
use custody_kernel::principal::Authority;
use custody_kernel::record::AdminRequest;
use custody_runtime::Store;
use custody_runtime::store::Receipt;
use custody_runtime::watch::adopt_file;
use custody_service::settings::{GatewaySettings, SETTINGS_KEY};

use super::whole_file;

/// What stands above the settings in their file.
const HEAD: &str = "# The connections of `custody serve`. What allows more than before holds only after `custody connect` or\n\
                    # `custody enforce`, which the owner signs; what allows less holds at once.\n\n";

/// Writes the settings and adopts them. The file before stays if anything fails.
pub(super) fn sign(
    store: &Store,
    owner: &Authority,
    path: &Path,
    settings: &GatewaySettings,
) -> anyhow::Result<()> {
    let before = std::fs::read(path).ok();
    whole_file::write(path, format!("{HEAD}{}", toml::to_string(settings)?).as_bytes())?;
    let adopted = adopt(store, owner, path);
    if adopted.is_err() {
        match before {
            Some(before) => whole_file::write(path, &before)?,
            None => std::fs::remove_file(path).context("could not remove the file")?,
        }
    }
    adopted
}

fn adopt(store: &Store, owner: &Authority, path: &Path) -> anyhow::Result<()> {
    let key: Key = SETTINGS_KEY.parse()?;
    let namespace = Namespace::shared(Tenant::main());
    let is_there = store.state(|state| state.item(&namespace, &key).is_some())?;
    if is_there {
        accepted(&set_mode(store, owner, &key, Mode::Open)?)?;
    }
    let adopted = adopt_file(store, owner, key.clone(), path).map_err(anyhow::Error::from);
    // Locked again whatever became of it.
    if is_there {
        accepted(&set_mode(store, owner, &key, Mode::Immutable)?)?;
    }
    accepted(&adopted?)
}

fn set_mode(store: &Store, owner: &Authority, key: &Key, mode: Mode) -> anyhow::Result<Receipt> {
    let (tenant, scope, key) = (Tenant::main(), Scope::Shared, key.clone());
    Ok(store.ask(owner, AdminRequest::SetMode { tenant, scope, key, mode })?)
}

/// Fails with the reason of a refusal.
pub(super) fn accepted(receipt: &Receipt) -> anyhow::Result<()> {
    match receipt.answer.refusal() {
        None => Ok(()),
        Some(refusal) => bail!("refused: {refusal}"),
    }
}
