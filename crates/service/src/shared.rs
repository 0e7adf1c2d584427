//! What every request uses.

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use custody_runtime::Store;

use crate::connections::Connections;
use crate::upstream::Upstream;

/// The longest body that is read, decoded.
pub(crate) const MAX_BODY_BYTES: usize = 32 << 20;

/// What every request uses.
pub(crate) struct Shared {
    pub(crate) connections: Connections,
    pub(crate) upstream: Upstream,
    pub(crate) store: Store,
}

/// An answer of the service's own.
pub(crate) fn json_response(status: StatusCode, body: &serde_json::Value) -> Response {
    let body = Body::from(body.to_string());
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
