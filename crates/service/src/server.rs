//! Addresses, and what answers them.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use custody_gateway::proxy::hook;
use custody_gateway::wire::Dialect;
use custody_runtime::Store;
use custody_runtime::advice::Advisor;
use serde_json::json;
use tokio::net::TcpListener;

use crate::connections::{Connections, Guarded, RefusedCredential};
use crate::exchange::{self, Incoming};
use crate::log;
use crate::shared::{MAX_BODY_BYTES, Shared, json_response};
use crate::times::Times;
use crate::upstream::Upstream;

/// How long what runs may go on when the service is asked to end.
const GRACE: Duration = Duration::from_secs(10);
/// What the log calls an event of Claude Code's hooks.
const HOOK_WIRE: &str = "claude-code-hook";

/// Why the service does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Anybody could reach it, and nothing would be encrypted.
    #[error("`{0}` is reached from other machines, and there is no TLS yet; listen on 127.0.0.1")]
    NotLoopback(SocketAddr),
    /// The address is taken, or cannot be had.
    #[error("cannot listen on `{address}`: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        cause: std::io::Error,
    },
    /// The way to vendors cannot be prepared.
    #[error("cannot prepare to reach vendors: {0}")]
    Upstream(#[from] reqwest::Error),
    /// It ended by itself.
    #[error("the service ended: {0}")]
    Io(#[from] std::io::Error),
}

/// A service that listens.
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
}

impl Server {
    /// Listens on `address` for the connections that `settings` and the owner's signed settings name.
    ///
    /// # Errors
    /// [`ServerError`] when it cannot.
    pub async fn bind(
        address: SocketAddr,
        store: Store,
        settings: PathBuf,
        advisor: Option<Arc<dyn Advisor>>,
    ) -> Result<Self, ServerError> {
        if !address.ip().is_loopback() {
            return Err(ServerError::NotLoopback(address));
        }
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|cause| ServerError::Listen { address, cause })?;
        let connections = Connections::new(store.clone(), settings, advisor);
        let shared = Arc::new(Shared { connections, upstream: Upstream::new()?, store });
        Ok(Self { listener, shared })
    }

    /// The address it listens on.
    ///
    /// # Errors
    /// When the socket is gone.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `end`, and then what has begun. Closes the sessions last.
    ///
    /// # Errors
    /// [`ServerError::Io`] when the socket fails.
    pub async fn run(
        self,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServerError> {
        let shared = Arc::clone(&self.shared);
        let (ending, ended) = tokio::sync::oneshot::channel();
        // Pieces of a stream are small: each would wait until the client confirms the one before.
        let listener = self.listener.tap_io(|stream| {
            // Without it the service is only slower.
            drop(stream.set_nodelay(true));
        });
        let serving = axum::serve(listener, router(self.shared)).with_graceful_shutdown(async {
            end.await;
            // Nobody waits for it when the service has ended already.
            let _ = ending.send(());
        });
        let out_of_time = async {
            // An error says that the service ended without being asked to.
            if ended.await.is_ok() {
                tokio::time::sleep(GRACE).await;
            }
        };
        let served = tokio::select! {
            served = async { serving.await } => served,
            () = out_of_time => Ok(()),
        };
        // Sessions are closed on a thread that may wait for the disk.
        drop(tokio::task::spawn_blocking(move || shared.connections.close()).await);
        Ok(served?)
    }
}

fn router(shared: Arc<Shared>) -> Router {
    let vendors = Router::new()
        .route("/openai/v1/chat/completions", post(openai))
        .route("/openai/v1/models", get(pass_openai))
        .route("/anthropic/v1/messages", post(anthropic))
        .route("/anthropic/v1/messages/count_tokens", post(pass_anthropic))
        .route("/anthropic/v1/models", get(pass_anthropic));
    Router::new()
        .merge(vendors)
        .route("/c/{token}/openai/v1/chat/completions", post(openai_at))
        .route("/c/{token}/openai/v1/models", get(pass_openai_at))
        .route("/hook/claude-code", post(claude_code))
        .route("/healthz", get(healthy))
        .route("/readyz", get(ready))
        .fallback(unknown)
        .layer(axum::middleware::from_fn(only_from_here))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(shared)
}

type Here = State<Arc<Shared>>;

async fn openai(here: Here, incoming: Incoming) -> Response {
    chat(here, Dialect::OpenAiChat, Shown::header(&incoming), incoming).await
}

async fn openai_at(here: Here, Path(key): Path<String>, incoming: Incoming) -> Response {
    chat(here, Dialect::OpenAiChat, Shown::address(key), incoming).await
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

/// The key that a request shows, if any, and where.
struct Shown {
    key: Option<String>,
    is_in_address: bool,
}

impl Shown {
    fn header(incoming: &Incoming) -> Self {
        Self { key: incoming.key(), is_in_address: false }
    }

    fn address(key: String) -> Self {
        Self { key: Some(key), is_in_address: true }
    }
}

/// A request that is recorded and whose answer is decided.
async fn chat(
    State(shared): Here,
    dialect: Dialect,
    shown: Shown,
    mut incoming: Incoming,
) -> Response {
    match guarded(&shared, shown, &mut incoming.times).await {
        Ok(guarded) => exchange::run(&shared, guarded, dialect, incoming).await,
        Err(error) => refused(dialect, &error),
    }
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
    let (status, kind) = match error {
        RefusedCredential::Store(_) | RefusedCredential::Tools(_) => {
            (StatusCode::SERVICE_UNAVAILABLE, "api_error")
        }
        RefusedCredential::Unsigned(_) => (StatusCode::FORBIDDEN, "permission_error"),
        RefusedCredential::Missing | RefusedCredential::Unknown | RefusedCredential::InAddress => {
            (StatusCode::UNAUTHORIZED, "authentication_error")
        }
    };
    exchange::error(dialect, status, kind, &error.to_string())
}

/// Looks a credential up on a thread that may wait for the store.
async fn guarded(
    shared: &Arc<Shared>,
    shown: Shown,
    times: &mut Times,
) -> Result<Guarded, RefusedCredential> {
    let Shown { key, is_in_address } = shown;
    let token = key.ok_or(RefusedCredential::Missing)?;
    let shared = Arc::clone(shared);
    let found = times.on_thread(move || shared.connections.of_token(&token, is_in_address));
    found.await.unwrap_or(Err(RefusedCredential::Unknown))
}

async fn claude_code(State(shared): Here, incoming: Incoming) -> Response {
    let mut times = incoming.times;
    let guarded = match guarded(&shared, Shown::header(&incoming), &mut times).await {
        Ok(guarded) => guarded,
        Err(error) => return refused(Dialect::AnthropicMessages, &error),
    };
    let connection = Arc::clone(&guarded.connection);
    let answered = times.on_thread(move || hook::answer(&connection, &incoming.body)).await;
    let (status, body, error) = match answered {
        Some(Ok(answer)) => (StatusCode::OK, answer.body(), None),
        Some(Err(error)) => {
            let error = error.to_string();
            (StatusCode::SERVICE_UNAVAILABLE, json!({ "error": error }), Some(error))
        }
        None => (StatusCode::INTERNAL_SERVER_ERROR, json!({ "error": "failed" }), None),
    };
    let line = log::Line {
        connection: guarded.connection.name(),
        wire: HOOK_WIRE,
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
    let store = shared.store.clone();
    let looked = tokio::task::spawn_blocking(move || store.state(|state| state.store().is_some()));
    match looked.await {
        Ok(Ok(true)) => json_response(StatusCode::OK, &json!({ "status": "ready" })),
        _ => {
            let body = json!({ "status": "degraded", "why": "the record cannot be read" });
            json_response(StatusCode::SERVICE_UNAVAILABLE, &body)
        }
    }
}

async fn unknown(request: Request) -> Response {
    if request.headers().contains_key(header::UPGRADE) {
        let body = json!({ "error": { "message": "WebSocket is not supported; use HTTP" } });
        return json_response(StatusCode::UPGRADE_REQUIRED, &body);
    }
    let path = request.uri().path();
    let path = if path.starts_with("/c/") { "/c/…" } else { path };
    let message =
        format!("Custody does not pass `{path}` on, because nobody could decide what it does");
    json_response(StatusCode::NOT_FOUND, &json!({ "error": { "message": message } }))
}

/// Refuses what a page in a browser sends, and what was sent to another name that leads here.
async fn only_from_here(request: Request, next: axum::middleware::Next) -> Response {
    let headers = request.headers();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let is_local = ["127.0.0.1", "localhost", "[::1]"].contains(&name);
    if !is_local || headers.contains_key(header::ORIGIN) {
        let body = json!({ "error": { "message": "requests of web pages are not taken" } });
        return json_response(StatusCode::FORBIDDEN, &body);
    }
    next.run(request).await
}
