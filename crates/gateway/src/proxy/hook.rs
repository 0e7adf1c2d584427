//! What Claude Code's hooks report and ask, in the conversation that its proxied requests go into too.
//!
//! The host decides nothing by what is said here but what its hooks are asked: whether a prompt and a tool call
//! may go on. A call that the proxy decided already is not decided a second time.
//!
//! Source: docs/reference/gateway.md, "Claude Code's hooks".

use std::io::Read as _;
use std::sync::Arc;

use custody_kernel::key::Key;
use custody_kernel::label::Channel;
use custody_kernel::namespace::Namespace;
use custody_runtime::ingress::Observation;
use custody_runtime::store::watch::FileState;
use custody_runtime::tools::{GateError, Output};
use custody_runtime::{Store, StoreError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::connection::Connection;
use super::conversation::{Conversation, Decided, Surface, tool_output};
use super::ingress::{Ingress, of_reported_prompt};
use super::judge::{Judgement, judge, tool_name};
use super::settings::{ConnectionSettings, GuardMode};
use crate::wire::{Block, WireCall, WireRole};

/// The most bytes of an instruction file that are read.
const MAX_INSTRUCTIONS: u64 = 1 << 20;

/// An event of a hook. What is not named here is not read.
#[derive(Debug, Deserialize)]
struct HookEvent {
    session_id: String,
    hook_event_name: String,
    prompt: Option<String>,
    /// Who submitted a prompt; some versions do not say.
    source: Option<String>,
    tool_name: Option<String>,
    tool_input: Option<Value>,
    tool_use_id: Option<String>,
    tool_response: Option<Value>,
    error: Option<String>,
    file_path: Option<String>,
    last_assistant_message: Option<String>,
}

/// What a hook answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookAnswer {
    /// Nothing stands against it. The host asks its user as it would without.
    Nothing,
    /// The call does not run.
    Deny(String),
    /// The host asks its user about the call.
    Ask(String),
    /// The prompt goes to no model.
    BlockPrompt(String),
}

/// Why an event is not answered. A host has to take that for a denial.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// It is no event.
    #[error("the event is not understood: {0}")]
    Event(#[from] serde_json::Error),
    /// Part of it is missing.
    #[error("the event `{event}` has no `{field}`")]
    Missing {
        /// The event.
        event: String,
        /// What it has not.
        field: &'static str,
    },
    /// The record cannot be read or written.
    #[error("the record cannot be kept: {0}")]
    Record(#[from] GateError),
    /// An instruction file cannot be compared with the record.
    #[error(transparent)]
    Watch(#[from] custody_runtime::store::WatchError),
}

impl From<StoreError> for HookError {
    fn from(error: StoreError) -> Self {
        Self::Record(error.into())
    }
}

impl HookAnswer {
    /// The body of the answer. Only a denial, a question and a block say anything: a host takes `allow` for more than
    /// that nothing stands against it.
    pub fn body(&self) -> Value {
        match self {
            Self::Nothing => json!({}),
            Self::Deny(reason) => pre_tool_use("deny", reason),
            Self::Ask(reason) => pre_tool_use("ask", reason),
            Self::BlockPrompt(reason) => json!({ "decision": "block", "reason": reason }),
        }
    }
}

fn pre_tool_use(decision: &str, reason: &str) -> Value {
    json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": reason,
    } })
}

/// Answers an event of a hook on a connection.
///
/// # Errors
/// [`HookError`] when it cannot be understood or recorded.
pub fn answer(connection: &Arc<Connection>, body: &[u8]) -> Result<HookAnswer, HookError> {
    let event: HookEvent = serde_json::from_slice(body)?;
    let conversation = connection.named(&event.session_id)?;
    let settings = connection.settings();
    let hook = Hook { connection, conversation: &conversation, settings: &settings };
    match event.hook_event_name.as_str() {
        "UserPromptSubmit" => hook.prompt(event),
        "InstructionsLoaded" => hook.instructions(event),
        "PreToolUse" => hook.before_call(event),
        "PostToolUse" | "PostToolUseFailure" => hook.after_call(event),
        "Stop" | "SubagentStop" => hook.stop(event),
        _ => Ok(HookAnswer::Nothing),
    }
}

/// A hook of one conversation.
struct Hook<'a> {
    connection: &'a Connection,
    conversation: &'a Conversation,
    settings: &'a ConnectionSettings,
}

impl Hook<'_> {
    fn prompt(&self, event: HookEvent) -> Result<HookAnswer, HookError> {
        let edited = self.edited_instructions()?;
        if let (Some((key, path)), GuardMode::Guard) = (edited, self.settings.mode) {
            return Ok(HookAnswer::BlockPrompt(format!(
                "{path} is not what its owner adopted. Put it back with `custody memory rollback {key} --apply`, or \
                 adopt what it holds now."
            )));
        }
        let is_typed = event.source.as_deref().is_none_or(|source| source == "user");
        let prompt = field(event.prompt, &event.hook_event_name, "prompt")?;
        let has_open_call = self.conversation.known().has_open_call();
        let Ingress { channel, is_lowered } =
            of_reported_prompt(self.settings, is_typed, has_open_call);
        let observation =
            Observation { lowered: is_lowered, ..Observation::message(channel, &prompt) };
        self.conversation.session.observe(observation).wait()?;
        self.conversation.known().note(&Block::text(WireRole::User, prompt));
        Ok(HookAnswer::Nothing)
    }

    /// An instruction file that this conversation loaded and that is not what its owner adopted.
    fn edited_instructions(&self) -> Result<Option<(Key, String)>, HookError> {
        let loaded = self.conversation.known().instructions.clone();
        for (namespace, key) in loaded {
            let report = self.connection.store().check_file_of(&namespace, &key)?;
            if report.state != FileState::Matches {
                return Ok(Some((key, report.watched.path)));
            }
        }
        Ok(None)
    }

    /// Records the text of an instruction file: what its owner adopted is the operator's, everything else a file.
    fn instructions(&self, event: HookEvent) -> Result<HookAnswer, HookError> {
        let path = field(event.file_path, &event.hook_event_name, "file_path")?;
        let mut adopted = None;
        if let Some((namespace, key)) = watched_at(self.connection.store(), &path)? {
            let report = self.connection.store().check_file_of(&namespace, &key)?;
            let is_adopted = report.state == FileState::Matches;
            adopted = report.recorded.filter(|_| is_adopted);
            self.conversation.known().instructions.insert((namespace, key));
        }
        let observation = match adopted {
            Some(text) => Observation::message(Channel::System, String::from_utf8_lossy(&text)),
            None => Observation::message(Channel::File, read(&path)),
        };
        self.conversation.session.observe(observation.from(path)).wait()?;
        Ok(HookAnswer::Nothing)
    }

    fn before_call(&self, event: HookEvent) -> Result<HookAnswer, HookError> {
        let name = field(event.tool_name, &event.hook_event_name, "tool_name")?;
        let input = field(event.tool_input, &event.hook_event_name, "tool_input")?;
        let id = event.tool_use_id.unwrap_or_default();
        let call = WireCall { id, name, arguments: input.to_string() };
        let gate = self.connection.gate();
        Ok(match judge(self.conversation, self.settings, gate, Surface::Hook, &call)? {
            Judgement::Allowed => HookAnswer::Nothing,
            Judgement::Asked { proposal, because } => {
                let because = because.map_or(String::new(), |because| format!(": {because}"));
                HookAnswer::Ask(format!("Custody asks about this call{because} [{proposal}]"))
            }
            Judgement::Denied { decision, because } => {
                let id = decision.map_or(String::new(), |id| format!(" [{id}]"));
                HookAnswer::Deny(format!("Custody: {because}{id}"))
            }
        })
    }

    /// What a call brought back. Where requests come by the proxy too, they bring it in the form that the model
    /// reads.
    fn after_call(&self, event: HookEvent) -> Result<HookAnswer, HookError> {
        let name = field(event.tool_name, &event.hook_event_name, "tool_name")?;
        let (decided, is_proxied) = {
            let known = self.conversation.known();
            let decided = event.tool_use_id.as_ref().and_then(|id| known.calls.get(id)).cloned();
            (decided, known.is_proxied)
        };
        if is_proxied {
            return Ok(HookAnswer::Nothing);
        }
        let structured = event.tool_response;
        let text = match &structured {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => event.error.unwrap_or_default(),
        };
        let session = &self.conversation.session;
        match decided.filter(|call| !call.is_answered).map(|call| call.decided) {
            Some(Decided::Allowed(decision)) => {
                let output = Output { text, structured };
                session.result(self.connection.gate(), decision, output).wait()?;
            }
            Some(Decided::Asked(_) | Decided::Observed) | None => {
                session.observe(tool_output(&text, tool_name(&name))).wait()?;
            }
        }
        let mut known = self.conversation.known();
        let id = event.tool_use_id.unwrap_or_default();
        if let Some(call) = known.calls.get_mut(&id) {
            call.is_answered = true;
        }
        Ok(HookAnswer::Nothing)
    }

    /// The turn is over: no call of it is open any more.
    fn stop(&self, event: HookEvent) -> Result<HookAnswer, HookError> {
        let is_proxied = {
            let mut known = self.conversation.known();
            let is_proxied = known.is_proxied;
            if !is_proxied {
                known.calls.values_mut().for_each(|call| call.is_answered = true);
            }
            is_proxied
        };
        if let (Some(said), false) = (event.last_assistant_message, is_proxied) {
            self.conversation.session.observe(Observation::completion(said)).wait()?;
        }
        Ok(HookAnswer::Nothing)
    }
}

fn field<T>(value: Option<T>, event: &str, field: &'static str) -> Result<T, HookError> {
    value.ok_or_else(|| HookError::Missing { event: event.to_owned(), field })
}

/// The watched item whose file stands at `path`.
fn watched_at(store: &Store, path: &str) -> Result<Option<(Namespace, Key)>, HookError> {
    let real = std::fs::canonicalize(path).ok();
    let real = real.as_deref().and_then(|path| path.to_str()).unwrap_or(path);
    Ok(store.state(|state| {
        let mut watched = state.watched();
        let found = watched.find(|watched| watched.path == real || watched.path == path);
        found.map(|watched| (watched.namespace.clone(), watched.key.clone()))
    })?)
}

/// The beginning of a file that a host loaded. One that cannot be read is known by its name.
fn read(path: &str) -> String {
    let mut text = Vec::new();
    let is_file = std::fs::metadata(path).is_ok_and(|data| data.is_file());
    if let Some(file) = is_file.then(|| std::fs::File::open(path).ok()).flatten() {
        // What was read before an error was loaded too.
        drop(file.take(MAX_INSTRUCTIONS).read_to_end(&mut text));
    }
    String::from_utf8_lossy(&text).into_owned()
}
