//! The connections that are open, by the credential that a request shows.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use custody_gateway::mcp::ServerPins;
use custody_gateway::proxy::Connection;
use custody_gateway::proxy::instruction_files::INSTRUCTIONS;
use custody_kernel::principal::{Authority, Role};
use custody_log::PrincipalId;
use custody_policy::Manifests;
use custody_runtime::advice::Advisor;
use custody_runtime::session::search::VectorModel;
use custody_runtime::tools::Gate;
use custody_runtime::{PrincipalError, Store, StoreError};

use crate::in_force::{SettingsInForce, SignedMoment};
use crate::settings::{ConnectionEntry, SignedSettingsError};

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
    /// What the owner signed cannot be read.
    #[error(transparent)]
    Settings(#[from] SignedSettingsError),
    /// Nobody knows what became of the request.
    #[error("the service failed")]
    Thread,
}

impl RefusedCredential {
    /// The status of HTTP that says so, and what vendors call such an error.
    pub(crate) fn status(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Store(_) | Self::Tools(_) | Self::Settings(_) | Self::Thread => {
                (StatusCode::SERVICE_UNAVAILABLE, "api_error")
            }
            Self::Unsigned(_) => (StatusCode::FORBIDDEN, "permission_error"),
            Self::Missing | Self::Unknown | Self::InAddress => {
                (StatusCode::UNAUTHORIZED, "authentication_error")
            }
        }
    }
}

/// What is installed besides, for the sessions of all connections.
#[derive(Clone, Default)]
pub struct SessionModels {
    /// Looks at what enters.
    pub advisor: Option<Arc<dyn Advisor>>,
    /// Searches memory by meaning.
    pub vectors: Option<Arc<dyn VectorModel>>,
}

/// All connections of a service.
pub(crate) struct Connections {
    store: Store,
    models: SessionModels,
    open: Mutex<Open>,
}

struct Open {
    connections: HashMap<PrincipalId, (ConnectionEntry, Arc<Connection>)>,
    settings: SettingsInForce,
}

/// A connection and where its requests go.
pub(crate) struct Guarded {
    pub(crate) connection: Arc<Connection>,
    pub(crate) route: Route,
}

/// Where the requests of a connection go.
pub(crate) struct Route {
    /// The upstream, if not the vendor.
    pub(crate) base: Option<String>,
    /// Whether it may be at an address that no vendor has.
    pub(crate) allows_link_local: bool,
}

impl Connections {
    pub(crate) fn new(store: Store, file: PathBuf, models: SessionModels) -> Self {
        let open = Open { connections: HashMap::new(), settings: SettingsInForce::new(file) };
        Self { store, models, open: Mutex::new(open) }
    }

    /// The connection whose credential `token` is.
    pub(crate) fn of_token(
        &self,
        token: &str,
        is_in_address: bool,
    ) -> Result<Guarded, RefusedCredential> {
        let seen = self.store.authenticate_token_and(token, |state, holder| {
            (holder.name.clone(), SignedMoment::of(state))
        });
        let (authority, (name, moment)) = match seen {
            Ok(seen) => seen,
            Err(PrincipalError::Store(error)) => return Err(error.into()),
            Err(_) => return Err(RefusedCredential::Unknown),
        };
        if is_in_address && authority.who().role != Role::Agent {
            return Err(RefusedCredential::InAddress);
        }
        let id = authority.who().principal.ok_or(RefusedCredential::Unknown)?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Open { connections, settings } = &mut *open;
        let entry = settings.now(&self.store, moment)?.connection.get(&name);
        let entry = entry.ok_or_else(|| RefusedCredential::Unsigned(name.clone()))?;
        let ConnectionEntry { upstream: base, allow_link_local, .. } = entry;
        let route = Route { base: base.clone(), allows_link_local: *allow_link_local };
        if let Some((known, connection)) = connections.get_mut(&id)
            && known.tools == entry.tools
        {
            if known != entry {
                connection.set(entry.settings());
                *known = entry.clone();
            }
            return Ok(Guarded { connection: Arc::clone(connection), route });
        }
        let connection = Arc::new(self.connection(&name, authority, entry)?);
        let before = connections.insert(id, (entry.clone(), Arc::clone(&connection)));
        drop(open);
        if let Some((_, before)) = before {
            before.close();
        }
        Ok(Guarded { connection, route })
    }

    /// What the owner pinned of the MCP server `server`.
    pub(crate) fn pins(&self, server: &str) -> Result<Option<ServerPins>, SignedSettingsError> {
        let moment = self.store.state(SignedMoment::of)?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(open.settings.now(&self.store, moment)?.server.get(server).cloned())
    }

    fn connection(
        &self,
        name: &str,
        authority: Authority,
        entry: &ConnectionEntry,
    ) -> Result<Connection, RefusedCredential> {
        let tools = tools(entry).ok_or_else(|| RefusedCredential::Tools(name.to_owned()))?;
        let (store, gate) = (self.store.clone(), Gate::new(tools, None));
        let mut connection = Connection::new(name, store, authority, gate, entry.settings());
        let SessionModels { advisor, vectors } = self.models.clone();
        if let Some(advisor) = advisor {
            connection = connection.with_advisor(advisor);
        }
        if let Some(vectors) = vectors {
            connection = connection.with_vectors(vectors);
        }
        Ok(connection)
    }

    /// Closes every session.
    pub(crate) fn close(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, (_, connection)) in open.connections.drain() {
            connection.close();
        }
    }
}

/// The manifests of a connection's own tools, or of the known hosts', and of the same tools where they write
/// instruction files.
fn tools(entry: &ConnectionEntry) -> Option<Manifests> {
    let tools = Manifests::parse(entry.tools.as_deref().unwrap_or(HOST_TOOLS)).ok()?;
    Some(tools.with_texts_as_sinks(INSTRUCTIONS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_of_the_known_hosts_can_be_read() {
        let tools = tools(&ConnectionEntry::default()).unwrap();
        let write = tools.get("instructions/Write").unwrap();
        assert!(write.arguments["content"].sink.is_some());
        assert!(tools.get("instructions/apply_patch").is_some());
        assert!(tools.get("instructions/Bash").is_none(), "a human is asked about a shell");
    }
}
