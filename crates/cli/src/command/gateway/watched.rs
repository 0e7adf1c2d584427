//! Files that the owner adopts, as long as Custody needs them to be what they are.

use std::path::Path;

use custody_kernel::key::Key;
use custody_kernel::label::Channel;
use custody_kernel::memory::item::Mode;
use custody_kernel::namespace::{Namespace, Scope, Tenant};
use custody_kernel::principal::Authority;
use custody_kernel::record::AdminRequest;
use custody_runtime::ingress::Observation;
use custody_runtime::store::Receipt;
use custody_runtime::watch::adopt_file;
use custody_runtime::{Session, Store};

use super::sign::accepted;

/// The key of the item that holds the settings of a connection's host.
pub(super) fn settings_key(connection: &str, path: &Path) -> anyhow::Result<Key> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("settings");
    Ok(format!("hosts/{connection}/{name}").parse()?)
}

/// Takes a file for the value of its item, whether or not the item is locked, and locks it.
pub(super) fn adopt(
    store: &Store,
    owner: &Authority,
    key: &Key,
    path: &Path,
) -> anyhow::Result<()> {
    let is_there = has_item(store, key)?;
    if is_there {
        accepted(&set_mode(store, owner, key, Mode::Open)?)?;
    }
    let adopted = adopt_file(store, owner, key.clone(), path).map_err(anyhow::Error::from);
    // Locked again whatever became of it.
    if is_there {
        accepted(&set_mode(store, owner, key, Mode::Immutable)?)?;
    }
    accepted(&adopted?)
}

/// Takes what a watched file holds after Custody's change of it was taken back; nothing, if there is no file any more.
pub(super) fn release(
    store: &Store,
    owner: &Authority,
    key: &Key,
    path: &Path,
) -> anyhow::Result<()> {
    if !has_item(store, key)? {
        return Ok(());
    }
    if path.exists() {
        return adopt(store, owner, key, path);
    }
    accepted(&set_mode(store, owner, key, Mode::Open)?)?;
    let session = Session::open(store, owner, Some("custody hook".into()))?;
    session.observe(Observation::message(Channel::System, format!("delete {key}"))).wait()?;
    let deleted = session.delete(Scope::Shared, key.clone()).wait();
    session.close()?;
    accepted(&deleted?)
}

fn has_item(store: &Store, key: &Key) -> anyhow::Result<bool> {
    let namespace = Namespace::shared(Tenant::main());
    Ok(store.state(|state| state.item(&namespace, key).is_some())?)
}

fn set_mode(store: &Store, owner: &Authority, key: &Key, mode: Mode) -> anyhow::Result<Receipt> {
    let (tenant, scope, key) = (Tenant::main(), Scope::Shared, key.clone());
    Ok(store.ask(owner, AdminRequest::SetMode { tenant, scope, key, mode })?)
}
