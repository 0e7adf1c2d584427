//! A request, read to its end.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use crate::times::Times;
use crate::upstream::KEY_HEADER;

/// How long a client may take to send the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// A request as it came in.
pub(crate) struct Incoming {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Since its head was read.
    pub(crate) times: Times,
}

impl<S: Send + Sync> FromRequest<S> for Incoming {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let times = Times::begin();
        let (parts, body) = request.into_parts();
        let Parts { method, uri, headers, .. } = parts.clone();
        let body = Bytes::from_request(Request::from_parts(parts, body), state);
        let body = tokio::time::timeout(BODY_TIMEOUT, body).await;
        let body = body.map_err(|_| StatusCode::REQUEST_TIMEOUT.into_response())?;
        let body = body.map_err(IntoResponse::into_response)?;
        Ok(Self { method, uri, headers, body, times })
    }
}

impl Incoming {
    /// The same without a body and for an answer that comes as a whole, of which Google's address says whether it does.
    pub(crate) fn unstreamed(&self) -> Option<Self> {
        let query = self.uri.query().unwrap_or_default();
        let kept: Vec<&str> = query.split('&').filter(|pair| *pair != "alt=sse").collect();
        let path = self.uri.path().replace(":streamGenerateContent", ":generateContent");
        let uri = format!("{path}?{}", kept.join("&")).trim_end_matches('?').parse().ok()?;
        let mut headers = self.headers.clone();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let (method, body, times) = (self.method.clone(), Bytes::new(), self.times);
        Some(Self { method, uri, headers, body, times })
    }

    /// The key of a connection, if the request shows exactly one.
    pub(crate) fn key(&self) -> Option<String> {
        let mut keys = self.headers.get_all(KEY_HEADER).iter();
        match (keys.next(), keys.next()) {
            (Some(key), None) => key.to_str().ok().map(str::to_owned),
            _ => None,
        }
    }
}
