//! One request, from its client to its vendor and back.

use std::io::{self, Read as _};
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use custody_gateway::proxy::{Connection, ModelExchange, Outcome, ProxyError, Streaming};
use custody_gateway::wire::{Dialect, Filtered};
use futures_util::StreamExt as _;
use tokio::sync::mpsc;

use crate::address::{UpstreamError, checked_upstream};
use crate::connections::{Guarded, RefusedCredential, Route};
use crate::credential::Shown;
use crate::incoming::Incoming;
use crate::log;
use crate::shared::{MAX_BODY_BYTES, Shared, json_response};
use crate::times::Times;
use crate::upstream::{forwarded, vendor};

/// The longest answer that is read as a whole.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// How many pieces of a stream wait for a slow client.
const WAITING_PIECES: usize = 16;

/// The headers in which hosts name their conversations.
const CONVERSATION_HEADERS: [&str; 3] =
    ["x-custody-session", "x-claude-code-session-id", "session-id"];

/// What a request wants of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// An answer.
    Answer,
    /// A shorter history, to send in place of the one in the request.
    History,
}

/// Why a request has no answer of its vendor's.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    #[error("bodies in the encoding `{0}` are not read; send them as they are, or in gzip")]
    Encoding(String),
    #[error("the body is damaged, or is longer than {MAX_BODY_BYTES} bytes when decoded")]
    Decoding,
    #[error("the settings of the connection are wrong: {0}")]
    Address(#[from] UpstreamError),
    #[error("the vendor cannot be reached")]
    Upstream(#[source] reqwest::Error),
    #[error("the vendor's answer broke off, or is longer than {MAX_ANSWER_BYTES} bytes")]
    Answer,
    #[error("the vendor's answer is not understood, so nothing of it goes on: {0}")]
    NotUnderstood(#[source] ProxyError),
    #[error("the vendor encoded its answer although it was asked not to")]
    Encoded,
    #[error("the vendor streams what it was asked for as a whole")]
    Streamed,
    #[error("the service failed")]
    Thread,
}

impl Failed {
    fn status(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Proxy(ProxyError::Wire(_)) | Self::Decoding => {
                (StatusCode::BAD_REQUEST, "invalid_request_error")
            }
            Self::Proxy(ProxyError::Undecidable(_)) => (StatusCode::FORBIDDEN, "permission_error"),
            Self::Encoding(_) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid_request_error"),
            Self::Address(_)
            | Self::Upstream(_)
            | Self::Answer
            | Self::NotUnderstood(_)
            | Self::Streamed
            | Self::Encoded => (StatusCode::BAD_GATEWAY, "api_error"),
            Self::Proxy(ProxyError::Record(_)) | Self::Thread => {
                (StatusCode::SERVICE_UNAVAILABLE, "api_error")
            }
        }
    }
}

/// An error in the vendor's own form.
pub(crate) fn error(dialect: Dialect, status: StatusCode, kind: &str, message: &str) -> Response {
    json_response(status, &dialect.error(kind, &format!("Custody: {message}")))
}

/// Passes a request on that makes no model say anything, and its answer.
pub(crate) async fn pass(
    shared: &Shared,
    guarded: Guarded,
    dialect: Dialect,
    incoming: Incoming,
) -> Response {
    let mut times = incoming.times;
    let passed = async {
        let (headers, body) = (incoming.headers.clone(), incoming.body.clone());
        let decoded = times.on_thread(move || decoded(&headers, &body)).await;
        let body = decoded.ok_or(Failed::Thread)??;
        times.upstream(send(shared, &guarded, dialect, &incoming, body)).await
    };
    match passed.await {
        Ok(answer) => as_it_comes(answer),
        Err(failed) => refuse(&guarded, dialect, times, &failed),
    }
}

/// Records a request, passes it on, and passes on of its answer what may.
pub(crate) async fn run(
    shared: &Arc<Shared>,
    shown: Shown,
    (dialect, wanted): (Dialect, Wanted),
    incoming: Incoming,
) -> Result<Response, RefusedCredential> {
    let mut times = incoming.times;
    let (opening, headers, body) =
        (Arc::clone(shared), incoming.headers.clone(), incoming.body.clone());
    // On one thread: each change of threads is a wait for a processor.
    let begun = times.on_thread(move || {
        let guarded = shown.open(&opening)?;
        let begun = begin(&guarded.connection, dialect, &headers, &body);
        Ok((guarded, begun))
    });
    let (guarded, begun) = begun.await.unwrap_or(Err(RefusedCredential::Thread))?;
    let exchanged = match begun {
        Ok(begun) => {
            exchanged(shared, &guarded, (dialect, wanted), &incoming, begun, &mut times).await
        }
        Err(failed) => Err(failed),
    };
    Ok(exchanged.unwrap_or_else(|failed| refuse(&guarded, dialect, times, &failed)))
}

/// Records a request. Returns what goes on of it.
fn begin(
    connection: &Arc<Connection>,
    dialect: Dialect,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<(ModelExchange, Vec<u8>), Failed> {
    let body = decoded(headers, body)?;
    let name = CONVERSATION_HEADERS.iter().find_map(|name| headers.get(*name));
    let name = name.and_then(|name| name.to_str().ok());
    let exchange = ModelExchange::begin(connection, dialect, name, &body)?;
    Ok((exchange, body))
}

fn refuse(guarded: &Guarded, dialect: Dialect, times: Times, failed: &Failed) -> Response {
    let (status, kind) = failed.status();
    let line = log::Line {
        connection: guarded.connection.name(),
        wire: dialect.as_str(),
        status: status.as_u16(),
        times,
        outcome: None,
        error: Some(failed.to_string()),
    };
    line.write();
    error(dialect, status, kind, &failed.to_string())
}

async fn exchanged(
    shared: &Arc<Shared>,
    guarded: &Guarded,
    (dialect, wanted): (Dialect, Wanted),
    incoming: &Incoming,
    (mut exchange, body): (ModelExchange, Vec<u8>),
    times: &mut Times,
) -> Result<Response, Failed> {
    if let Some(asked) = exchange.intent_request().map(<[u8]>::to_vec) {
        let stated = stated(shared, guarded, dialect, incoming, asked);
        let stated = times.upstream(stated).await;
        let declared = times.on_thread(move || exchange.declare(stated).map(|_| exchange));
        exchange = declared.await.ok_or(Failed::Thread)??;
    }
    let answer = times.upstream(send(shared, guarded, dialect, incoming, body)).await?;
    let status = answer.status();
    if !status.is_success() {
        log_line(guarded, dialect, status, *times, None);
        return Ok(as_it_comes(answer));
    }
    if answer.headers().contains_key(header::CONTENT_ENCODING) {
        return Err(Failed::Encoded);
    }
    let kind = answer.headers().get(header::CONTENT_TYPE);
    let is_stream = kind
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.starts_with("text/event-stream"));
    if is_stream {
        if wanted == Wanted::History {
            return Err(Failed::Streamed);
        }
        return Ok(streamed(guarded, dialect, exchange, answer, *times));
    }
    let (status, headers) = (answer.status(), forwarded(answer.headers()));
    let body = times.upstream(whole(answer)).await?;
    let answered = times.on_thread(move || match wanted {
        Wanted::Answer => exchange.answer(body),
        Wanted::History => exchange.history(body),
    });
    let answered = answered.await;
    let (body, outcome) = answered.ok_or(Failed::Thread)?.map_err(|error| match error {
        ProxyError::Wire(_) => Failed::NotUnderstood(error),
        ProxyError::Undecidable(_) | ProxyError::Record(_) => error.into(),
    })?;
    log_line(guarded, dialect, status, *times, Some(&outcome));
    Ok(response(status, headers, Body::from(body)))
}

fn log_line(
    guarded: &Guarded,
    dialect: Dialect,
    status: StatusCode,
    times: Times,
    outcome: Option<&Outcome>,
) {
    let (connection, wire, status) = (guarded.connection.name(), dialect.as_str(), status.as_u16());
    log::Line { connection, wire, status, times, outcome, error: None }.write();
}

async fn send(
    shared: &Shared,
    guarded: &Guarded,
    dialect: Dialect,
    incoming: &Incoming,
    body: Vec<u8>,
) -> Result<reqwest::Response, Failed> {
    let Route { base, allows_link_local } = &guarded.route;
    let base = base.as_deref().unwrap_or(vendor(dialect)).trim_end_matches('/');
    let path = incoming.uri.path();
    let start = path.find("/v1").unwrap_or(path.len());
    let path = path.get(start..).unwrap_or_default();
    let mut url = checked_upstream(&format!("{base}{path}"), *allows_link_local)?;
    url.set_query(incoming.uri.query());
    let Incoming { method, headers, .. } = incoming;
    let sent = shared.upstream.send(url, *allows_link_local, method.clone(), headers, body).await;
    // The error names the address, which may hold a key of the vendor's.
    sent.map_err(|error| Failed::Upstream(error.without_url()))
}

/// What a model answers that is asked for the calls that it means to make, at the address of the request itself; `None`
/// if it does not.
async fn stated(
    shared: &Shared,
    guarded: &Guarded,
    dialect: Dialect,
    incoming: &Incoming,
    asked: Vec<u8>,
) -> Option<Vec<u8>> {
    let answer = send(shared, guarded, dialect, &incoming.unstreamed()?, asked).await.ok()?;
    let is_answer =
        answer.status().is_success() && !answer.headers().contains_key(header::CONTENT_ENCODING);
    if is_answer { whole(answer).await.ok() } else { None }
}

/// The body of a request without its encoding.
fn decoded(headers: &HeaderMap, body: &Bytes) -> Result<Vec<u8>, Failed> {
    let encoding = headers.get(header::CONTENT_ENCODING).map(|it| it.to_str().unwrap_or("?"));
    match encoding {
        None | Some("identity") => Ok(body.to_vec()),
        Some("gzip") => {
            let limit = u64::try_from(MAX_BODY_BYTES).unwrap_or(u64::MAX);
            let mut decoded = Vec::new();
            let mut reader = flate2::read::MultiGzDecoder::new(body.as_ref()).take(limit + 1);
            reader.read_to_end(&mut decoded).map_err(|_| Failed::Decoding)?;
            if decoded.len() > MAX_BODY_BYTES { Err(Failed::Decoding) } else { Ok(decoded) }
        }
        Some(other) => Err(Failed::Encoding(other.chars().take(32).collect())),
    }
}

async fn whole(answer: reqwest::Response) -> Result<Vec<u8>, Failed> {
    let mut pieces = answer.bytes_stream();
    let mut body = Vec::new();
    while let Some(piece) = pieces.next().await {
        body.extend_from_slice(&piece.map_err(|_| Failed::Answer)?);
        if body.len() > MAX_ANSWER_BYTES {
            return Err(Failed::Answer);
        }
    }
    Ok(body)
}

/// Passes an answer on that nothing is decided of.
fn as_it_comes(answer: reqwest::Response) -> Response {
    let (status, mut headers) = (answer.status(), forwarded(answer.headers()));
    if let Some(length) = answer.headers().get(header::CONTENT_LENGTH) {
        headers.insert(header::CONTENT_LENGTH, length.clone());
    }
    response(status, headers, Body::from_stream(answer.bytes_stream()))
}

fn response(status: StatusCode, headers: HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// A piece of an answer on its way to the client; an error breaks its connection off.
type Piece = io::Result<Bytes>;

/// Passes a streamed answer on, piece by piece.
fn streamed(
    guarded: &Guarded,
    dialect: Dialect,
    exchange: ModelExchange,
    answer: reqwest::Response,
    mut times: Times,
) -> Response {
    let (status, headers) = (answer.status(), forwarded(answer.headers()));
    let (pieces, received) = mpsc::channel::<Piece>(WAITING_PIECES);
    let connection = Arc::clone(&guarded.connection);
    tokio::spawn(async move {
        let ended = pump(exchange.stream(), answer, &pieces, &mut times).await;
        let (outcome, error) = match ended {
            Ok(outcome) => (Some(outcome), None),
            Err(failed) => (None, Some(failed.to_string())),
        };
        let (connection, wire, status) = (connection.name(), dialect.as_str(), status.as_u16());
        let outcome = outcome.as_ref();
        log::Line { connection, wire, status, times, outcome, error }.write();
    });
    let body = futures_util::stream::unfold(received, |mut received| async {
        received.recv().await.map(|piece| (piece, received))
    });
    response(status, headers, Body::from_stream(body))
}

/// Moves pieces from the vendor to the client until there are no more, or one of them is gone.
async fn pump(
    mut streaming: Streaming,
    answer: reqwest::Response,
    pieces: &mpsc::Sender<Piece>,
    times: &mut Times,
) -> Result<Outcome, Failed> {
    let dialect = streaming.dialect();
    let mut from = answer.bytes_stream();
    let (mut is_cut, mut is_broken) = (false, false);
    while let Some(piece) = times.upstream(from.next()).await {
        let Ok(piece) = piece else {
            (is_cut, is_broken) = (true, true);
            break;
        };
        let pushed = times.on_thread(move || {
            let filtered = streaming.push(&piece);
            (streaming, filtered)
        });
        let (back, filtered) = pushed.await.ok_or(Failed::Thread)?;
        streaming = back;
        let is_over = filtered.cut.is_some();
        let is_received = send_on(dialect, filtered, pieces).await;
        if is_over || !is_received {
            is_cut = true;
            break;
        }
    }
    drop(from);
    let ended = times.on_thread(move || streaming.end(is_cut)).await;
    match ended.ok_or(Failed::Thread)? {
        Ok((filtered, outcome)) => {
            send_on(dialect, filtered, pieces).await;
            if is_broken {
                // As it broke off here, so that no client takes it for whole.
                drop(pieces.send(Err(io::ErrorKind::ConnectionAborted.into())).await);
            }
            Ok(outcome)
        }
        Err(error) => {
            let event = dialect.error_event("api_error", "Custody: the record cannot be kept");
            drop(pieces.send(Ok(Bytes::from(event))).await);
            Err(error.into())
        }
    }
}

/// Sends on what may go, and why nothing more does. Whether anybody receives it.
async fn send_on(dialect: Dialect, filtered: Filtered, pieces: &mpsc::Sender<Piece>) -> bool {
    let Filtered { mut bytes, cut } = filtered;
    if let Some(cut) = cut {
        bytes.extend(dialect.error_event("api_error", &format!("Custody: {cut}")));
    }
    bytes.is_empty() || pieces.send(Ok(Bytes::from(bytes))).await.is_ok()
}
