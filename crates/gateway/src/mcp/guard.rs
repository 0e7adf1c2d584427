//! What stands between a host and one of its MCP servers.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use custody_arguments::Arguments;
use custody_kernel::label::Channel;
use custody_log::Digest;
use custody_runtime::StoreError;
use custody_runtime::ingress::Observation;
use custody_runtime::tools::{GateError, Output};
use serde_json::{Value, json};

use super::announced::{Entry, Pinned, ServerPins, digest, entries};
use super::message::{self, Message, Passage, call_id, tool_result};
use super::texts::{all_texts, tool_output};
use crate::approval_code::ApprovalCode;
use crate::proxy::{Connection, Conversation, Judgement, Surface, judge};
use crate::wire::WireCall;

/// The most requests of a host that wait for one server.
const MAX_WAITING: usize = 4_096;
/// The longest name of a server.
const MAX_NAME: usize = 64;

/// The name that the operator gave a server: that before the `/` in the names of its tools.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerName(String);

/// The text is no name of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name of a server; write 1 to {MAX_NAME} letters, digits, `-`, `_` and `.`")]
pub struct ServerNameError(String);

impl FromStr for ServerName {
    type Err = ServerNameError;

    fn from_str(text: &str) -> Result<Self, ServerNameError> {
        let is_name = (1..=MAX_NAME).contains(&text.len())
            && text.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c));
        if is_name {
            Ok(Self(text.to_owned()))
        } else {
            Err(ServerNameError(text.chars().take(MAX_NAME).collect()))
        }
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Guards the calls of one running server.
#[derive(Debug)]
pub struct McpGuard {
    connection: Arc<Connection>,
    server: ServerName,
    /// The conversation of calls that are part of no other one.
    conversation: String,
    /// What the owner pinned of the server, if anything.
    pins: Option<ServerPins>,
    /// The requests of the host that the server has not answered, by their ids.
    waiting: HashMap<String, Waiting>,
    /// The tools that the server listed.
    listed: BTreeSet<String>,
    /// What of its announcements is recorded.
    recorded: BTreeSet<Digest>,
    /// Calls whose server asked the host for more, by the state that the host sends back with it.
    continued: HashMap<Digest, (Digest, OpenCall)>,
}

/// What a request of the host asks for.
#[derive(Debug)]
enum Waiting {
    /// A tool call that went on, with the digest of what it asks for.
    Call(Digest, OpenCall),
    /// Something that the server says of itself.
    Announcement,
    /// Texts that a model may read.
    Texts,
    /// Nothing that a model reads.
    Other,
}

/// Whose result a call's is.
#[derive(Debug, Clone)]
enum OpenCall {
    /// That of a call of another conversation, in which its result is recorded.
    Joined,
    /// That of a call that was decided here, by its id.
    Own(String),
}

impl McpGuard {
    /// A guard for a server of `connection`, one of whose processes is called `process`, and that was started by a
    /// command of the digest `command`.
    pub fn new(
        connection: Arc<Connection>,
        server: ServerName,
        process: &str,
        pins: Option<ServerPins>,
        command: Option<Digest>,
    ) -> Self {
        let conversation = format!("mcp/{server}/{process}");
        let is_pinned = pins.as_ref().is_none_or(|pins| pins.command == command);
        if !is_pinned {
            connection.gate().distrust(&server.0);
        }
        let (waiting, continued) = (HashMap::new(), HashMap::new());
        let (listed, recorded) = (BTreeSet::new(), BTreeSet::new());
        Self { connection, server, conversation, pins, waiting, listed, recorded, continued }
    }

    /// What becomes of a message of the host's.
    pub fn pass_from_client(&mut self, line: &str) -> Passage {
        let (id, method, params) = match Message::parse(line) {
            Ok(Message::Request { id, method, params }) => (id, method, params),
            Ok(Message::Notification { method, params }) => {
                if method == "notifications/cancelled"
                    && let Some(id) = params.get("requestId")
                {
                    self.waiting.remove(&id.to_string());
                }
                return Passage::on();
            }
            // What the host answers to a question of the server's.
            Ok(Message::Response { .. }) => return Passage::on(),
            Err(error) => {
                let code = message::PARSE_ERROR;
                return Passage::answered(&message::error(&Value::Null, code, &error.to_string()));
            }
        };
        let key = id.to_string();
        if self.waiting.contains_key(&key) || self.waiting.len() >= MAX_WAITING {
            let text = "another request has the id, or too many wait for the server";
            return Passage::answered(&message::error(&id, message::INVALID_REQUEST, text));
        }
        let waiting = match method.as_str() {
            "tools/call" => match self.call(&id, &params) {
                Ok(Ok(waiting)) => waiting,
                Ok(Err(text)) => {
                    return Passage::answered(&message::result(
                        &id,
                        &tool_result(&text, None, true),
                    ));
                }
                Err(error) => return unrecorded(&id, &error),
            },
            "initialize"
            | "server/discover"
            | "tools/list"
            | "prompts/list"
            | "resources/list"
            | "resources/templates/list" => Waiting::Announcement,
            "prompts/get"
            | "resources/read"
            | "completion/complete"
            | "tasks/get"
            | "tasks/result" => Waiting::Texts,
            _ => Waiting::Other,
        };
        self.waiting.insert(key, waiting);
        Passage::on()
    }

    /// What becomes of a message of the server's.
    pub fn pass_from_server(&mut self, line: &str) -> Passage {
        match Message::parse(line) {
            Ok(Message::Notification { .. }) => Passage::on(),
            Ok(Message::Request { id, params, .. }) => match self.observe(&all_texts(&params)) {
                Ok(()) => Passage::on(),
                Err(error) => unrecorded(&id, &error),
            },
            Ok(Message::Response { id, outcome }) => self.response(&id, &outcome),
            Err(error) => Passage::dropped(format!("`{}`: {error}", self.server)),
        }
    }

    fn response(&mut self, id: &Value, outcome: &Result<Value, Value>) -> Passage {
        let Some(waiting) = self.waiting.remove(&id.to_string()) else {
            return Passage::dropped(format!("`{}` answered what nobody asked", self.server));
        };
        let recorded = match (waiting, outcome) {
            (Waiting::Call(asked, call), outcome) => self.returned(asked, call, outcome),
            (Waiting::Announcement, Ok(result)) => self.announced(result),
            (Waiting::Texts, Ok(result)) => self.observe(&all_texts(result)),
            (_, Err(error)) => self.observe(&all_texts(error)),
            (Waiting::Other, Ok(_)) => Ok(()),
        };
        match recorded {
            Ok(()) => Passage::on(),
            Err(error) => {
                let (instead, text) = message::unrecorded(id, &error);
                Passage { instead: Some(instead), note: Some(text), ..Passage::default() }
            }
        }
    }

    /// Decides a tool call. It goes on, or this text stands for its result.
    fn call(&mut self, id: &Value, params: &Value) -> Result<Result<Waiting, String>, GateError> {
        let Some(name) = params.get("name").and_then(Value::as_str) else {
            return Ok(Err("[Custody] The call names no tool.".to_owned()));
        };
        let tool = format!("{}/{name}", self.server);
        let given = params.get("arguments").filter(|given| !given.is_null());
        let arguments = given.map_or_else(|| "{}".to_owned(), Value::to_string);
        let made = call_id(params);
        if !self.listed.contains(name) {
            // Its server says nothing of it, so nobody knows what it does.
            self.connection.gate().distrust(&tool);
        }
        let asked = digest(&json!({ "tool": tool, "arguments": given }));
        if let Some(call) = self.continues(asked, params) {
            return Ok(Ok(Waiting::Call(asked, call)));
        }
        if self.listed.contains(name)
            && let Ok(read) = Arguments::parse(&arguments)
            && self.connection.join(Surface::Mcp, &tool, &read, made).is_some()
        {
            return Ok(Ok(Waiting::Call(asked, OpenCall::Joined)));
        }
        let call_id = made.map_or_else(|| format!("mcp:{id}"), str::to_owned);
        let call = WireCall { id: call_id.clone(), name: tool, arguments };
        let conversation = self.conversation()?;
        let mut settings = (*self.connection.settings()).clone();
        // Nobody else asks about a call that no hook saw.
        settings.host_asks = false;
        let gate = self.connection.gate();
        Ok(match judge(&conversation, &settings, gate, Surface::Mcp, &call)? {
            Judgement::Allowed => Ok(Waiting::Call(asked, OpenCall::Own(call_id))),
            Judgement::Asked { proposal, because } => {
                let because = because.map_or(String::new(), |because| format!(" {because}."));
                Err(format!(
                    "[Custody] This call of `{}` waits for approval and was not made.{because} Its code is {}. To approve \
                     it, run: custody session approve {proposal}. Then make the same call again.",
                    call.name,
                    ApprovalCode::of(proposal)
                ))
            }
            Judgement::Denied { because, .. } => {
                Err(format!("[Custody] This call of `{}` was not made: {because}.", call.name))
            }
        })
    }

    /// The call that goes on with what its server asked the host for: the same, with the state that the server sent.
    fn continues(&mut self, asked: Digest, params: &Value) -> Option<OpenCall> {
        let state = params.get("requestState").map(digest)?;
        self.continued.remove(&state).filter(|(before, _)| *before == asked).map(|(_, call)| call)
    }

    /// Records what a call brought back.
    fn returned(
        &mut self,
        asked: Digest,
        call: OpenCall,
        outcome: &Result<Value, Value>,
    ) -> Result<(), GateError> {
        let result = match outcome {
            Ok(result) | Err(result) => result,
        };
        let kind = result.get("resultType").and_then(Value::as_str);
        if kind == Some("input_required") {
            self.observe(&all_texts(result))?;
            if let Some(state) = result.get("requestState")
                && self.continued.len() < MAX_WAITING
            {
                self.continued.insert(digest(state), (asked, call));
            }
            return Ok(());
        }
        let OpenCall::Own(id) = call else { return Ok(()) };
        let conversation = self.conversation()?;
        let structured = result.get("structuredContent").cloned();
        let output = Output { text: tool_output(result), structured };
        conversation.record_output(self.connection.gate(), &id, output)
    }

    /// Compares what a server says of itself with what the owner pinned, and records what nobody pinned as its word.
    fn announced(&mut self, result: &Value) -> Result<(), GateError> {
        let tools = result.get("tools").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let names = tools.iter().filter_map(|tool| tool.get("name")?.as_str());
        self.listed.extend(names.map(str::to_owned));
        let pins = self.pins.as_ref().map(ServerPins::tools);
        let gate = self.connection.gate();
        let told = gate.announce_pinned(&self.server.0, tools, pins.as_ref(), digest);
        let found = entries(result);
        let is_changed = found.iter().any(|entry| self.is_changed(entry));
        if is_changed {
            gate.distrust(&self.server.0);
        }
        let unpinned = told.iter().zip(tools).filter(|(told, _)| !told.pinned);
        let mut words: Vec<String> = unpinned.map(|(_, tool)| tool.to_string()).collect();
        if found.iter().any(|entry| !entry.key.starts_with("tool ") && !self.is_pinned(entry)) {
            let mut rest = result.clone();
            if let Some(object) = rest.as_object_mut() {
                object.remove("tools");
            }
            words.push(all_texts(&rest));
        }
        let words = words.join("\n");
        if words.is_empty() || !self.recorded.insert(Digest::of(words.as_bytes())) {
            return Ok(());
        }
        self.observe(&words)
    }

    fn is_pinned(&self, entry: &Entry) -> bool {
        self.pins.as_ref().is_some_and(|pins| pins.compare(entry) == Pinned::Same)
    }

    /// Whether a server that the owner pinned says something else than then. A new prompt or resource changes no tool.
    fn is_changed(&self, entry: &Entry) -> bool {
        let compared = self.pins.as_ref().map(|pins| pins.compare(entry));
        let is_new = compared == Some(Pinned::Unlisted) && entry.key == "instructions";
        !entry.key.starts_with("tool ") && (compared == Some(Pinned::Changed) || is_new)
    }

    /// Records what the server said outside a result.
    fn observe(&self, text: &str) -> Result<(), GateError> {
        if text.is_empty() {
            return Ok(());
        }
        let said = Observation::message(Channel::Tool, text).from(self.server.0.clone());
        self.conversation()?.session.observe(said).wait()?;
        Ok(())
    }

    fn conversation(&self) -> Result<Arc<Conversation>, StoreError> {
        self.connection.named(&self.conversation)
    }
}

/// A request that cannot be recorded goes nowhere.
fn unrecorded(id: &Value, error: &GateError) -> Passage {
    let (reply, text) = message::unrecorded(id, error);
    Passage { reply: Some(reply), note: Some(text), ..Passage::default() }
}
