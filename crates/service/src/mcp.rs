//! The running MCP servers of hosts: each message comes here before it goes on.

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use custody_gateway::mcp::{McpGuard, MemoryServer, Passage, ServerName};
use custody_gateway::proxy::Connection;
use serde::Deserialize;
use serde_json::json;

use crate::connections::{Guarded, RefusedCredential};
use crate::credential::{Here, Shown, guarded};
use crate::guards::Running;
use crate::incoming::Incoming;
use crate::log;
use crate::shared::{Shared, json_response};

/// The longest name that a process gives itself.
const MAX_PROCESS: usize = 64;
/// The header with the digest of a server's command.
const COMMAND_HEADER: &str = "x-custody-command";

/// Where a message stands.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Place {
    server: String,
    process: String,
    /// `client`, `server`, or `memory` for the host's messages to the memory.
    from: String,
}

/// Why a message is not taken.
#[derive(Debug, thiserror::Error)]
enum Unanswered {
    #[error(transparent)]
    Credential(#[from] RefusedCredential),
    #[error("the address names no server, no process, or nobody that a message is from")]
    Place,
    #[error("the message is not UTF-8")]
    Encoding,
    #[error("the service failed")]
    Thread,
}

/// Takes a message and says what becomes of it.
pub(crate) async fn message(
    State(shared): Here,
    Path(place): Path<Place>,
    incoming: Incoming,
) -> Response {
    match passed(&shared, place, incoming).await {
        Ok(passage) => {
            let body = json!({
                "goes_on": passage.goes_on, "instead": passage.instead, "reply": passage.reply
            });
            if let Some(note) = passage.note {
                log::note(&note);
            }
            json_response(StatusCode::OK, &body)
        }
        Err(error) => {
            let status = match &error {
                Unanswered::Credential(error) => error.status().0,
                Unanswered::Place | Unanswered::Encoding => StatusCode::BAD_REQUEST,
                Unanswered::Thread => StatusCode::INTERNAL_SERVER_ERROR,
            };
            json_response(status, &json!({ "error": { "message": error.to_string() } }))
        }
    }
}

async fn passed(
    shared: &Arc<Shared>,
    place: Place,
    mut incoming: Incoming,
) -> Result<Passage, Unanswered> {
    let shown = Shown::header(&incoming);
    let guarded = guarded(shared, shown, &mut incoming.times).await?;
    let server: ServerName = place.server.parse().map_err(|_| Unanswered::Place)?;
    let is_process = (1..=MAX_PROCESS).contains(&place.process.len())
        && place.process.bytes().all(|c| c.is_ascii_alphanumeric());
    if !is_process {
        return Err(Unanswered::Place);
    }
    let Incoming { headers, body, .. } = incoming;
    let text = String::from_utf8(body.into()).map_err(|_| Unanswered::Encoding)?;
    let shared = Arc::clone(shared);
    let answered = tokio::task::spawn_blocking(move || {
        shared.passage(&guarded, &server, &place, &headers, &text)
    });
    answered.await.map_err(|_| Unanswered::Thread)?
}

impl Shared {
    fn passage(
        &self,
        guarded: &Guarded,
        server: &ServerName,
        place: &Place,
        headers: &HeaderMap,
        text: &str,
    ) -> Result<Passage, Unanswered> {
        let Guarded { connection, .. } = guarded;
        if place.from == "memory" {
            let memory = MemoryServer::new(Arc::clone(connection), server.clone(), &place.process);
            return Ok(memory.answer(text));
        }
        let guard = self.guard(connection, server, place, headers)?;
        let mut guard = guard.lock().unwrap_or_else(PoisonError::into_inner);
        match place.from.as_str() {
            "client" => Ok(guard.pass_from_client(text)),
            "server" => Ok(guard.pass_from_server(text)),
            _ => Err(Unanswered::Place),
        }
    }

    fn guard(
        &self,
        connection: &Arc<Connection>,
        server: &ServerName,
        place: &Place,
        headers: &HeaderMap,
    ) -> Result<Arc<Mutex<McpGuard>>, RefusedCredential> {
        let running = Running {
            connection: connection.name().to_owned(),
            server: place.server.clone(),
            process: place.process.clone(),
        };
        self.mcp.of(running, connection, || {
            let pins = self.connections.pins(&place.server)?;
            let command = headers.get(COMMAND_HEADER).and_then(|command| command.to_str().ok());
            let command = command.and_then(|command| serde_json::from_value(json!(command)).ok());
            let (made, server) = (Arc::clone(connection), server.clone());
            Ok(McpGuard::new(made, server, &place.process, pins, command))
        })
    }
}
