//! What every request uses.

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use custody_runtime::Store;

use crate::connections::Connections;
use crate::guards::McpGuards;
use crate::upstream::Upstream;

/// The longest body that is read, decoded.
pub(crate) const MAX_BODY_BYTES: usize = 32 << 20;

/// What every request uses.
pub(crate) struct Shared {
    pub(crate) connections: Connections,
    pub(crate) upstream: Upstream,
    pub(crate) store: Store,
    /// The names under which other machines reach the service.
    pub(crate) host_names: Vec<String>,
    pub(crate) mcp: McpGuards,
}

impl Shared {
    /// Why the record cannot be kept, whichever surface noticed; nothing while it can. May wait for the store.
    pub(crate) fn degraded(&self) -> Option<&'static str> {
        let is_read = self.store.state(|state| state.store().is_some());
        match is_read {
            Ok(true) if self.store.is_failing() => {
                Some("the record could not be written, so nothing goes on")
            }
            Ok(true) => None,
            Ok(false) | Err(_) => Some("the record cannot be read, so nothing goes on"),
        }
    }

    /// Whether `host`, as in the header of that name, is a name of the service. A page of another name that leads
    /// here has its own name there.
    pub(crate) fn is_called(&self, host: &str) -> bool {
        let has_port =
            host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
        let name = has_port.map_or(host, |(name, _)| name);
        let is_local = ["127.0.0.1", "localhost", "[::1]"].contains(&name);
        is_local || self.host_names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// An answer of the service's own.
pub(crate) fn json_response(status: StatusCode, body: &serde_json::Value) -> Response {
    let body = Body::from(body.to_string());
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
