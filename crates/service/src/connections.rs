//! The connections that are open, by the credential that a request shows.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use custody_gateway::proxy::Connection;
use custody_kernel::memory::item::Version;
use custody_kernel::principal::Role;
use custody_log::{PrincipalId, Seq};
use custody_policy::Manifests;
use custody_runtime::advice::Advisor;
use custody_runtime::tools::Gate;
use custody_runtime::{PrincipalError, Store, StoreError};

use crate::settings::{ConnectionEntry, GatewaySettings, signed_version};

/// The manifests of the tools of the hosts that `custody connect` knows.
const HOST_TOOLS: &str = include_str!("hosts.toml");

/// Why a request is not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RefusedCredential {
    /// It shows none.
    #[error("send the key of a connection in the header `x-custody-key`; see `custody connect`")]
    Missing,
    /// Nobody has it.
    #[error("the key in `x-custody-key` is not that of a connection; see `custody connect`")]
    Unknown,
    /// It is not one that may stand in an address, where others read it.
    #[error("only the key of an agent may stand in the address; send this one as `x-custody-key`")]
    InAddress,
    /// The settings of the connection are not signed.
    #[error("the owner has not signed the settings of `{0}`; run `custody connect`")]
    Unsigned(String),
    /// Its tools cannot be read.
    #[error("the tools of `{0}` cannot be read; change them with `custody connect`")]
    Tools(String),
    /// The store cannot be read.
    #[error("the record cannot be read")]
    Store(#[from] StoreError),
}

/// All connections of a service.
pub(crate) struct Connections {
    store: Store,
    file: PathBuf,
    advisor: Option<Arc<dyn Advisor>>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    connections: HashMap<PrincipalId, (ConnectionEntry, Arc<Connection>)>,
    /// The settings on disk, as of the time when they were changed.
    read: Option<(SystemTime, GatewaySettings)>,
    /// The settings that the owner signed, by the entry that holds them.
    signed: Option<(Seq, GatewaySettings)>,
}

/// A connection and where its requests go.
pub(crate) struct Guarded {
    pub(crate) connection: Arc<Connection>,
    pub(crate) upstream: Option<String>,
}

impl Connections {
    pub(crate) fn new(store: Store, file: PathBuf, advisor: Option<Arc<dyn Advisor>>) -> Self {
        Self { store, file, advisor, open: Mutex::default() }
    }

    /// The connection whose credential `token` is.
    pub(crate) fn of_token(
        &self,
        token: &str,
        is_in_address: bool,
    ) -> Result<Guarded, RefusedCredential> {
        let authority = match self.store.authenticate_token(token) {
            Ok(authority) => authority,
            Err(PrincipalError::Store(error)) => return Err(error.into()),
            Err(_) => return Err(RefusedCredential::Unknown),
        };
        if is_in_address && authority.who().role != Role::Agent {
            return Err(RefusedCredential::InAddress);
        }
        let id = authority.who().principal.ok_or(RefusedCredential::Unknown)?;
        // Locked first, so that no request puts settings in force that another one has seen replaced.
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (name, version) = self.store.state(|state| {
            let principal = state.principal_by_id(id);
            (principal.map(|principal| principal.name.clone()), signed_version(state))
        })?;
        let name = name.ok_or(RefusedCredential::Unknown)?;
        let signed = self.signed(&mut open, version)?;
        let (in_force, _) =
            self.on_disk(&mut open).unwrap_or_else(|| signed.clone()).in_force(&signed);
        let entry = in_force.connection.get(&name);
        let entry = entry.ok_or_else(|| RefusedCredential::Unsigned(name.clone()))?;
        let upstream = entry.upstream.clone();
        if let Some((known, connection)) = open.connections.get_mut(&id)
            && known.tools == entry.tools
        {
            if known != entry {
                connection.set(entry.settings());
                *known = entry.clone();
            }
            return Ok(Guarded { connection: Arc::clone(connection), upstream });
        }
        let tools = tools(entry).ok_or_else(|| RefusedCredential::Tools(name.clone()))?;
        let gate = Gate::new(tools, None);
        let mut connection =
            Connection::new(&name, self.store.clone(), authority, gate, entry.settings());
        if let Some(advisor) = &self.advisor {
            connection = connection.with_advisor(Arc::clone(advisor));
        }
        let connection = Arc::new(connection);
        let before = open.connections.insert(id, (entry.clone(), Arc::clone(&connection)));
        if let Some((_, before)) = before {
            before.close();
        }
        Ok(Guarded { connection, upstream })
    }

    /// The settings that the owner signed, read again when there are others.
    fn signed(
        &self,
        open: &mut Open,
        version: Option<Version>,
    ) -> Result<GatewaySettings, StoreError> {
        let Some(version) = version else {
            return Ok(GatewaySettings::default());
        };
        if let Some((entry, settings)) = &open.signed
            && *entry == version.entry
        {
            return Ok(settings.clone());
        }
        let settings = GatewaySettings::of_version(&self.store, version)?.unwrap_or_default();
        open.signed = Some((version.entry, settings.clone()));
        Ok(settings)
    }

    /// The settings on disk, read again when the file changed. One that is not understood leaves those of before.
    fn on_disk(&self, open: &mut Open) -> Option<GatewaySettings> {
        let modified = std::fs::metadata(&self.file).and_then(|data| data.modified()).ok();
        if let Some(modified) = modified
            && open.read.as_ref().is_none_or(|(at, _)| *at != modified)
            && let Ok(text) = std::fs::read_to_string(&self.file)
        {
            match (GatewaySettings::parse(&text), &mut open.read) {
                (Ok(settings), read) => *read = Some((modified, settings)),
                (Err(error), read) => {
                    crate::log::note(&format!(
                        "`{}` {error}; what was in force stays",
                        self.file.display()
                    ));
                    if let Some((at, _)) = read {
                        *at = modified;
                    }
                }
            }
        }
        open.read.as_ref().map(|(_, settings)| settings.clone())
    }

    /// Closes every session.
    pub(crate) fn close(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, (_, connection)) in open.connections.drain() {
            connection.close();
        }
    }
}

/// The manifests of a connection's own tools, or of the known hosts'.
fn tools(entry: &ConnectionEntry) -> Option<Manifests> {
    Manifests::parse(entry.tools.as_deref().unwrap_or(HOST_TOOLS)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_of_the_known_hosts_can_be_read() {
        assert!(tools(&ConnectionEntry::default()).is_some());
    }
}
