//! Addresses, and what answers them.

use std::future::Future;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use axum::routing::{any, get, post};
use custody_gateway::proxy::hook::{self, HookHost};
use custody_gateway::wire::Dialect;
use custody_runtime::Store;
use serde_json::json;
use tokio::net::TcpListener;

use crate::connections::{Connections, RefusedCredential, SessionModels};
use crate::credential::{Here, Shown, guarded};
use crate::exchange::{self, Wanted};
use crate::guards::McpGuards;
use crate::incoming::Incoming;
use crate::model_method::ModelMethod;
use crate::shared::{MAX_BODY_BYTES, Shared, json_response};
use crate::tls::{CertificateInUse, TlsError, TlsFiles};
use crate::upstream::{Upstream, UpstreamOptions, UpstreamOptionsError};
use crate::{listener, log, mcp};

/// The header that says that the record cannot be kept.
const STATUS_HEADER: &str = "x-custody-status";
/// The state of a service whose record cannot be kept.
const DEGRADED: &str = "degraded";

/// Where the service listens, and how it reaches vendors.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The address.
    pub address: SocketAddr,
    /// The certificate, without which only this machine may reach it.
    pub tls: Option<TlsFiles>,
    /// The names under which other machines reach it.
    pub host_names: Vec<String>,
    /// The way to vendors.
    pub upstream: UpstreamOptions,
}

/// Why the service does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Anybody could reach it, and nothing would be encrypted.
    #[error(
        "`{0}` is reached from other machines, so it needs a certificate; see --tls-cert, or listen on 127.0.0.1"
    )]
    NotLoopback(SocketAddr),
    /// Its certificate is none.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Another program has the address.
    #[error(
        "another program listens on `{0}`, perhaps another `custody serve`; give another one with --listen"
    )]
    Taken(SocketAddr),
    /// The address cannot be had.
    #[error("cannot listen on `{address}`: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        cause: std::io::Error,
    },
    /// The way to vendors cannot be prepared.
    #[error(transparent)]
    Upstream(#[from] UpstreamOptionsError),
}

/// A service that listens.
pub struct Server {
    listener: TcpListener,
    tls: Option<Arc<CertificateInUse>>,
    shared: Arc<Shared>,
}

impl Server {
    /// Listens for the connections that the file `settings` and the owner's signed settings name.
    ///
    /// # Errors
    /// [`ServerError`] when it cannot.
    pub async fn bind(
        options: ServerOptions,
        store: Store,
        settings: PathBuf,
        models: SessionModels,
    ) -> Result<Self, ServerError> {
        let ServerOptions { address, tls, host_names, upstream } = options;
        // Fails when a provider is installed already, which is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        if tls.is_none() && !address.ip().is_loopback() {
            return Err(ServerError::NotLoopback(address));
        }
        let tls = tls.map(CertificateInUse::new).transpose()?.map(Arc::new);
        let upstream = Upstream::new(&upstream)?;
        let listener = TcpListener::bind(address).await.map_err(|cause| {
            let is_taken = cause.kind() == ErrorKind::AddrInUse;
            if is_taken {
                ServerError::Taken(address)
            } else {
                ServerError::Listen { address, cause }
            }
        })?;
        let connections = Connections::new(store.clone(), settings, models);
        let shared = Arc::new(Shared {
            connections,
            upstream,
            store,
            host_names,
            mcp: McpGuards::default(),
        });
        Ok(Self { listener, tls, shared })
    }

    /// The address it listens on.
    ///
    /// # Errors
    /// When the socket is gone.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `end`, and then what has begun. Closes the sessions last.
    pub async fn run(self, end: impl Future<Output = ()>) {
        let shared = Arc::clone(&self.shared);
        listener::serve(self.listener, self.tls, router(self.shared), end).await;
        // Sessions are closed on a thread that may wait for the disk.
        drop(tokio::task::spawn_blocking(move || shared.connections.close()).await);
    }
}

fn router(shared: Arc<Shared>) -> Router {
    let vendors = Router::new()
        .route("/openai/v1/chat/completions", post(openai))
        .route("/openai/v1/responses", post(responses).fallback(unknown))
        .route("/openai/v1/responses/compact", post(compact))
        .route("/openai/v1/embeddings", post(pass_openai))
        .route("/openai/v1/models", get(pass_openai))
        .route("/gemini/v1/models", get(pass_gemini))
        .route("/gemini/v1/models/{*method}", any(gemini))
        .route("/gemini/v1beta/models", get(pass_gemini))
        .route("/gemini/v1beta/models/{*method}", any(gemini))
        .route("/anthropic/v1/messages", post(anthropic))
        .route("/anthropic/v1/messages/count_tokens", post(pass_anthropic))
        .route("/anthropic/v1/models", get(pass_anthropic));
    Router::new()
        .merge(vendors)
        .route("/c/{token}/openai/v1/chat/completions", post(openai_at))
        .route("/c/{token}/openai/v1/responses", post(responses_at).fallback(unknown))
        .route("/c/{token}/openai/v1/responses/compact", post(compact_at))
        .route("/c/{token}/openai/v1/embeddings", post(pass_openai_at))
        .route("/c/{token}/openai/v1/models", get(pass_openai_at))
        .route("/c/{token}/gemini/v1/models", get(pass_gemini_at))
        .route("/c/{token}/gemini/v1/models/{*method}", any(gemini_at))
        .route("/c/{token}/gemini/v1beta/models", get(pass_gemini_at))
        .route("/c/{token}/gemini/v1beta/models/{*method}", any(gemini_at))
        .route("/hook/{host}", post(hook))
        .route("/mcp/{server}/{process}/{from}", post(mcp::message))
        .route("/healthz", get(healthy))
        .route("/readyz", get(ready))
        .fallback(unknown)
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&shared), only_from_here))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&shared), mark_degraded))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(shared)
}

async fn openai(here: Here, incoming: Incoming) -> Response {
    chat(here, Dialect::OpenAiChat, Shown::header(&incoming), incoming).await
}

async fn openai_at(here: Here, Path(key): Path<String>, incoming: Incoming) -> Response {
    chat(here, Dialect::OpenAiChat, Shown::address(key), incoming).await
}

async fn responses(here: Here, incoming: Incoming) -> Response {
    chat(here, Dialect::OpenAiResponses, Shown::header(&incoming), incoming).await
}

async fn responses_at(here: Here, Path(key): Path<String>, incoming: Incoming) -> Response {
    chat(here, Dialect::OpenAiResponses, Shown::address(key), incoming).await
}

async fn compact(here: Here, incoming: Incoming) -> Response {
    history(here, Shown::header(&incoming), incoming).await
}

async fn compact_at(here: Here, Path(key): Path<String>, incoming: Incoming) -> Response {
    history(here, Shown::address(key), incoming).await
}

async fn gemini(here: Here, incoming: Incoming) -> Response {
    let shown = Shown::header(&incoming);
    generate(here, shown, incoming).await
}

async fn gemini_at(
    here: Here,
    Path((key, _)): Path<(String, String)>,
    incoming: Incoming,
) -> Response {
    generate(here, Shown::address(key), incoming).await
}

async fn pass_gemini(here: Here, incoming: Incoming) -> Response {
    pass(here, Dialect::Gemini, Shown::header(&incoming), incoming).await
}

async fn pass_gemini_at(here: Here, Path(key): Path<String>, incoming: Incoming) -> Response {
    pass(here, Dialect::Gemini, Shown::address(key), incoming).await
}

/// A request to one of Google's models, which says in its address what it wants.
async fn generate(here: Here, shown: Shown, incoming: Incoming) -> Response {
    match ModelMethod::of(&incoming.method, &incoming.uri) {
        ModelMethod::Answer => chat(here, Dialect::Gemini, shown, incoming).await,
        ModelMethod::NoAnswer => pass(here, Dialect::Gemini, shown, incoming).await,
        ModelMethod::OtherStream => {
            let why = "streams are decided as server-sent events only; ask with ?alt=sse";
            let (status, kind) = (StatusCode::BAD_REQUEST, "invalid_request_error");
            exchange::error(Dialect::Gemini, status, kind, why)
        }
        ModelMethod::Unknown => not_passed(&incoming.headers, &incoming.uri),
    }
}

async fn anthropic(here: Here, incoming: Incoming) -> Response {
    chat(here, Dialect::AnthropicMessages, Shown::header(&incoming), incoming).await
}

async fn pass_openai(here: Here, incoming: Incoming) -> Response {
    pass(here, Dialect::OpenAiChat, Shown::header(&incoming), incoming).await
}

async fn pass_openai_at(here: Here, Path(key): Path<String>, incoming: Incoming) -> Response {
    pass(here, Dialect::OpenAiChat, Shown::address(key), incoming).await
}

async fn pass_anthropic(here: Here, incoming: Incoming) -> Response {
    pass(here, Dialect::AnthropicMessages, Shown::header(&incoming), incoming).await
}

/// A request that is recorded and whose answer is decided.
async fn chat(here: Here, dialect: Dialect, shown: Shown, incoming: Incoming) -> Response {
    exchanged(here, (dialect, Wanted::Answer), shown, incoming).await
}

/// A request that is recorded and whose answer is a history, in which nothing runs.
async fn history(here: Here, shown: Shown, incoming: Incoming) -> Response {
    exchanged(here, (Dialect::OpenAiResponses, Wanted::History), shown, incoming).await
}

async fn exchanged(
    State(shared): Here,
    (dialect, wanted): (Dialect, Wanted),
    shown: Shown,
    incoming: Incoming,
) -> Response {
    let answered = exchange::run(&shared, shown, (dialect, wanted), incoming).await;
    answered.unwrap_or_else(|error| refused(dialect, &error))
}

/// A request that makes no model say anything.
async fn pass(
    State(shared): Here,
    dialect: Dialect,
    shown: Shown,
    mut incoming: Incoming,
) -> Response {
    match guarded(&shared, shown, &mut incoming.times).await {
        Ok(guarded) => exchange::pass(&shared, guarded, dialect, incoming).await,
        Err(error) => refused(dialect, &error),
    }
}

fn refused(dialect: Dialect, error: &RefusedCredential) -> Response {
    let (status, kind) = error.status();
    exchange::error(dialect, status, kind, &error.to_string())
}

/// An event of a coding agent's hook. Its name is in a header where the report does not hold it.
async fn hook(State(shared): Here, Path(host): Path<String>, incoming: Incoming) -> Response {
    let Some(host) = HookHost::of_name(&host) else {
        let body = json!({ "error": format!("`{host}` is no host whose hooks are answered") });
        return json_response(StatusCode::NOT_FOUND, &body);
    };
    let mut times = incoming.times;
    let guarded = match guarded(&shared, Shown::header(&incoming), &mut times).await {
        Ok(guarded) => guarded,
        Err(error) => return refused(Dialect::AnthropicMessages, &error),
    };
    let connection = Arc::clone(&guarded.connection);
    let answered = times.on_thread(move || {
        let event = incoming.headers.get(hook::EVENT_HEADER).and_then(|name| name.to_str().ok());
        hook::respond(&connection, host, event, &incoming.body)
    });
    let answered = answered.await;
    let (status, body, error) = match answered {
        Some(Ok(answer)) => (StatusCode::OK, answer, None),
        Some(Err(error)) => {
            let error = error.to_string();
            (StatusCode::SERVICE_UNAVAILABLE, json!({ "error": error }), Some(error))
        }
        None => (StatusCode::INTERNAL_SERVER_ERROR, json!({ "error": "failed" }), None),
    };
    let line = log::Line {
        connection: guarded.connection.name(),
        wire: &format!("{}-hook", host.name()),
        status: status.as_u16(),
        times,
        outcome: None,
        error,
    };
    line.write();
    json_response(status, &body)
}

async fn healthy() -> Response {
    json_response(StatusCode::OK, &json!({ "status": "running" }))
}

/// Whether the record can be kept.
async fn ready(State(shared): Here) -> Response {
    match degraded(shared).await {
        None => json_response(StatusCode::OK, &json!({ "status": "ready" })),
        Some(why) => {
            let body = json!({ "status": DEGRADED, "why": why });
            json_response(StatusCode::SERVICE_UNAVAILABLE, &body)
        }
    }
}

/// Why the record cannot be kept, asked on a thread that may wait for the store.
async fn degraded(shared: Arc<Shared>) -> Option<&'static str> {
    let looked = tokio::task::spawn_blocking(move || shared.degraded());
    looked.await.unwrap_or(Some("the service failed"))
}

/// Says in the head of an answer that nothing goes on because the record cannot be kept, so that programs need not read
/// the error, which has another form on each surface.
async fn mark_degraded(
    State(shared): Here,
    request: Request,
    next: axum::middleware::Next,
) -> Response {
    let mut response = next.run(request).await;
    if response.status() == StatusCode::SERVICE_UNAVAILABLE && degraded(shared).await.is_some() {
        response.headers_mut().insert(STATUS_HEADER, HeaderValue::from_static(DEGRADED));
    }
    response
}

async fn unknown(request: Request) -> Response {
    not_passed(request.headers(), request.uri())
}

fn not_passed(headers: &HeaderMap, uri: &Uri) -> Response {
    if headers.contains_key(header::UPGRADE) {
        let body = json!({ "error": { "message": "WebSocket is not supported; use HTTP" } });
        return json_response(StatusCode::UPGRADE_REQUIRED, &body);
    }
    let path = uri.path();
    let path = if path.starts_with("/c/") { "/c/…" } else { path };
    let message =
        format!("Custody does not pass `{path}` on, because nobody could decide what it does");
    json_response(StatusCode::NOT_FOUND, &json!({ "error": { "message": message } }))
}

/// Refuses what a page in a browser sends, and what was sent to another name that leads here.
async fn only_from_here(
    State(shared): Here,
    request: Request,
    next: axum::middleware::Next,
) -> Response {
    let headers = request.headers();
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_ours = hosts.next().is_none() && shared.is_called(host);
    if !is_ours || headers.contains_key(header::ORIGIN) {
        let body = json!({ "error": { "message": "requests of web pages are not taken" } });
        return json_response(StatusCode::FORBIDDEN, &body);
    }
    next.run(request).await
}
