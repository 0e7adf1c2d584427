//! The guarded memory as an MCP server: remember, recall, list, forget.
//!
//! What a call remembers or reads belongs to the conversation that made it. That is the one in which a hook or the
//! proxy decided the same call; without one, nobody knows what the model had read, and what it wants to remember waits
//! for a human, unless the owner signed that this client's text is the user's.

use std::sync::Arc;

use custody_arguments::Arguments;
use custody_kernel::key::Key;
use custody_runtime::StoreError;
use custody_runtime::ingress::Observation;
use custody_runtime::session::search::FOUND_AT_ONCE;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::guard::ServerName;
use super::message::{self, Message, Passage, call_id, tool_result};
use crate::lines::{FOUND_BY_DEFAULT, MemoryOperation, WriteLine};
use crate::proxy::{Connection, Conversation, Surface, of_unseen_call};

/// The revisions that are spoken, the newest first.
const REVISIONS: [&str; 3] = ["2026-07-28", "2025-11-25", "2025-06-18"];
/// The members of `_meta` that revision 2026-07-28 puts into each request and result.
const REVISION: &str = "io.modelcontextprotocol/protocolVersion";
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The revision that a request asks for is not spoken (2026-07-28, "Versioning").
const UNSUPPORTED_REVISION: i32 = -32_022;
/// The memory of one host's process.
#[derive(Debug)]
pub struct MemoryServer {
    connection: Arc<Connection>,
    server: ServerName,
    conversation: String,
}

/// What a call of a tool of the memory gives.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    key: Option<Key>,
    text: Option<String>,
    query: Option<String>,
    limit: Option<usize>,
    after: Option<Key>,
    #[serde(default)]
    shared: bool,
}

impl MemoryServer {
    /// The memory for `process` of a host, which calls the server `server`.
    pub fn new(connection: Arc<Connection>, server: ServerName, process: &str) -> Self {
        let conversation = format!("mcp/{server}/{process}");
        Self { connection, server, conversation }
    }

    /// Answers a message of the host's.
    pub fn answer(&self, line: &str) -> Passage {
        let (id, method, params) = match Message::parse(line) {
            Ok(Message::Request { id, method, params }) => (id, method, params),
            Ok(Message::Notification { .. } | Message::Response { .. }) => {
                return Passage::default();
            }
            Err(error) => {
                let code = message::PARSE_ERROR;
                return Passage::answered(&message::error(&Value::Null, code, &error.to_string()));
            }
        };
        if let Some(wanted) = params.pointer("/_meta").and_then(|meta| meta.get(REVISION))
            && !REVISIONS.iter().any(|known| wanted == known)
        {
            let mut error = message::error(&id, UNSUPPORTED_REVISION, "the revision is not spoken");
            error["error"]["data"] = json!({ "supported": REVISIONS, "requested": wanted });
            return Passage::answered(&error);
        }
        let result = match method.as_str() {
            "initialize" => initialized(&params),
            "server/discover" => discovered(),
            "ping" => json!({}),
            "tools/list" => cached(json!({ "tools": tools() })),
            "tools/call" => match self.call(&params) {
                Ok(result) => result,
                Err(error) => {
                    let (reply, text) = message::unrecorded(&id, &error);
                    return Passage { reply: Some(reply), note: Some(text), ..Passage::default() };
                }
            },
            _ => {
                let text = "the memory has tools and nothing else";
                return Passage::answered(&message::error(&id, message::METHOD_NOT_FOUND, text));
            }
        };
        Passage::answered(&message::result(&id, &result))
    }

    fn call(&self, params: &Value) -> Result<Value, StoreError> {
        let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
        let given = params.get("arguments").cloned().unwrap_or_else(|| json!({}));
        let text = given.to_string();
        let operation = match serde_json::from_value::<Given>(given) {
            Ok(given) => operation(name, given),
            Err(error) => Err(error.to_string()),
        };
        let operation = match operation {
            Ok(operation) => operation,
            Err(why) => return Ok(tool_result(&format!("[Custody] {why}"), None, true)),
        };
        let (conversation, call) = self.conversation_of(name, &text, params)?;
        let answer = for_model(operation.answer(&conversation.session));
        let is_error =
            answer.contains_key("error") || answer.get("decision") == Some(&json!("deny"));
        let answer = Value::Object(answer);
        let text = answer.to_string();
        if let Some(call) = call {
            // What was read is recorded already, with where it came from.
            conversation.note_output(&call, &text);
        }
        Ok(tool_result(&text, Some(answer), is_error))
    }

    /// The conversation that made a call, and the id of the call there: one in which it was decided. Without one, that
    /// of the process, in which what the model gives is untrusted.
    fn conversation_of(
        &self,
        name: &str,
        arguments: &str,
        params: &Value,
    ) -> Result<(Arc<Conversation>, Option<String>), StoreError> {
        let tool = format!("{}/{name}", self.server);
        if let Ok(read) = Arguments::parse(arguments)
            && let Some(joined) = self.connection.join(Surface::Mcp, &tool, &read, call_id(params))
        {
            return Ok((joined.conversation, Some(joined.id)));
        }
        let conversation = self.connection.named(&self.conversation)?;
        let ingress = of_unseen_call(&self.connection.settings());
        let said = Observation::message(ingress.channel, arguments).from(tool);
        conversation.session.observe(Observation { lowered: ingress.is_lowered, ..said }).wait()?;
        Ok((conversation, None))
    }
}

/// The answer without the reasons that are for people.
fn for_model(mut answer: Map<String, Value>) -> Map<String, Value> {
    if let Some(reasons) = answer.remove("reasons") {
        answer.insert("reason".into(), reasons["model"].clone());
    }
    answer
}

/// What a call asks of memory, or why it asks for nothing.
fn operation(name: &str, given: Given) -> Result<MemoryOperation, String> {
    let Given { key, text, query, limit, after, shared } = given;
    Ok(match (name, key, text, query) {
        ("remember", Some(key), Some(text), None) => {
            MemoryOperation::Write(WriteLine { shared, key, text, queue: true })
        }
        ("recall", Some(key), None, None) => MemoryOperation::Read { key, shared },
        ("recall", None, None, Some(query)) => {
            let limit = limit.unwrap_or(FOUND_BY_DEFAULT);
            if !(1..=FOUND_AT_ONCE).contains(&limit) {
                return Err(format!("`limit` is 1 to {FOUND_AT_ONCE}."));
            }
            MemoryOperation::Search { query, limit }
        }
        ("list", None, None, None) => MemoryOperation::List { shared, after },
        ("forget", Some(key), None, None) => MemoryOperation::Delete { key, shared },
        ("remember", ..) => return Err("`remember` takes a `key` and a `text`.".to_owned()),
        ("recall", ..) => return Err("`recall` takes either a `key` or a `query`.".to_owned()),
        ("list", ..) => return Err("`list` takes `shared` and `after` alone.".to_owned()),
        ("forget", ..) => return Err("`forget` takes a `key`.".to_owned()),
        _ => return Err("the memory has the tools remember, recall, list and forget.".to_owned()),
    })
}

fn server_info() -> Value {
    json!({ "name": "custody-memory", "title": "Guarded memory", "version": env!("CARGO_PKG_VERSION") })
}

const INSTRUCTIONS: &str = "A memory that records where each text came from. Remember what the user asked for; what \
                            pages and tools said is refused or waits for a human.";

/// The handshake of the revisions before 2026-07-28.
fn initialized(params: &Value) -> Value {
    let wanted = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    let legacy = REVISIONS.iter().skip(1);
    let revision = legacy.clone().find(|known| **known == wanted).or_else(|| legacy.clone().next());
    json!({
        "protocolVersion": revision,
        "capabilities": { "tools": {} },
        "serverInfo": server_info(),
        "instructions": INSTRUCTIONS,
    })
}

fn discovered() -> Value {
    cached(json!({
        "supportedVersions": REVISIONS,
        "capabilities": { "tools": {} },
        "instructions": INSTRUCTIONS,
        "_meta": { SERVER_INFO: server_info() },
    }))
}

/// A result that stays the same as long as the process runs.
fn cached(mut result: Value) -> Value {
    result["resultType"] = "complete".into();
    result["ttlMs"] = 3_600_000.into();
    result["cacheScope"] = "public".into();
    result
}

fn tools() -> Value {
    let key =
        json!({ "type": "string", "description": "The name of the item, as in `travel.seat`" });
    let shared = json!({
        "type": "boolean",
        "description": "Whether every conversation of the tenant has it; otherwise this one alone"
    });
    json!([
        tool(
            "remember",
            "Keep a text under a key. Answers with the decision: what the user did not say may be refused, or wait \
             for a human.",
            &json!({ "key": key, "text": { "type": "string" }, "shared": shared }),
            &["key", "text"],
            false,
        ),
        tool(
            "recall",
            "Read an item by its key, or find items by what they mean. Answers with where each came from.",
            &json!({
                "key": key, "query": { "type": "string" }, "shared": shared,
                "limit": { "type": "integer", "minimum": 1, "maximum": FOUND_AT_ONCE }
            }),
            &[],
            true,
        ),
        tool(
            "list",
            "List the keys, a page at a time.",
            &json!({ "shared": shared, "after": { "type": "string", "description": "The last key of the page before" } }),
            &[],
            true,
        ),
        tool(
            "forget",
            "Delete an item. Its history stays in the record.",
            &json!({ "key": key, "shared": shared }),
            &["key"],
            false,
        ),
    ])
}

fn tool(
    name: &str,
    description: &str,
    properties: &Value,
    required: &[&str],
    reads: bool,
) -> Value {
    json!({
        "name": name,
        "description": description,
        "inputSchema": {
            "type": "object", "properties": properties, "required": required, "additionalProperties": false
        },
        "annotations": { "readOnlyHint": reads, "openWorldHint": false },
    })
}
