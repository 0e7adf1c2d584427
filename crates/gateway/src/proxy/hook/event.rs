//! What a hook reports, whichever host it is of.

use serde_json::Value;

use super::HookError;

/// An event of a host's hook.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HookEvent {
    /// The host's name for the conversation.
    pub(super) session: String,
    /// The agent within the conversation that it is of, if not the main one.
    pub(super) subagent: Option<String>,
    /// The working folder.
    pub(super) folder: Option<String>,
    pub(super) kind: EventKind,
}

impl HookEvent {
    /// The agent that an event is of: the end of one within the conversation may not name it.
    pub(super) fn subagent_of(event: &str, id: Option<String>) -> Option<String> {
        if event == "SubagentStop" { Some(id.unwrap_or_default()) } else { id }
    }
}

/// What happens, or is about to.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum EventKind {
    /// A conversation begins, or one of before goes on.
    Start {
        /// Whether nothing was said in it before.
        is_new: bool,
    },
    /// A prompt is about to go to the model.
    Prompt {
        text: String,
        /// Whether a person typed it, as far as the host says.
        is_typed: bool,
    },
    /// An instruction file was loaded.
    Instructions { path: String },
    /// A call is about to run.
    BeforeCall { call: HookCall, input: Value },
    /// A call ran.
    AfterCall { call: HookCall, input: Option<Value>, result: HookResult },
    /// The turn is over.
    Stop { said: Option<String> },
    /// Nothing that is looked at.
    Other,
}

/// Which call an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HookCall {
    /// The host's id of it. Some hosts give none.
    pub(super) id: Option<String>,
    /// The tool as manifests name it, or as `mcp__server__tool`.
    pub(super) tool: String,
}

/// What a call brought back.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HookResult {
    /// As the model reads it, or as near to that as the host reports.
    pub(super) text: String,
    pub(super) structured: Option<Value>,
}

impl HookResult {
    /// A result of which the host reports `value`, or `error` when there is none.
    pub(super) fn of(value: Option<Value>, error: Option<String>) -> Self {
        let text = match &value {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => error.unwrap_or_default(),
        };
        Self { text, structured: value }
    }
}

/// A field that the event `event` needs.
pub(super) fn needed<T>(
    value: Option<T>,
    event: &str,
    field: &'static str,
) -> Result<T, HookError> {
    value.ok_or_else(|| HookError::Missing { event: event.to_owned(), field })
}

/// Arguments that some hosts report as JSON in a string.
pub(super) fn unfolded(input: Value) -> Value {
    match &input {
        Value::String(text) => serde_json::from_str(text).unwrap_or(input),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            input
        }
    }
}
