//! Codex: events on standard input, denials by exit code. Its JSON answers are not used: one unknown field, a missing
//! reason or `ask` in them lets the call run.
//!
//! Source: Codex documentation, "Hooks"; behaviour measured with 0.169.0.

use serde::Deserialize;
use serde_json::Value;

use super::super::conversation::{DecidedCall, Surface};
use super::HookError;
use super::event::{EventKind, HookCall, HookEvent, HookResult, needed};
use super::host::Moment;
use crate::wire::WireCall;

pub(super) const EVENTS: [&str; 6] =
    ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SubagentStop"];

/// What hooks call a tool and the argument that they name of it, and what the tool and that argument are called in an
/// answer of the model, where the call may have more arguments.
const ON_WIRE: [(&str, &str, &str); 3] = [
    ("Bash", "exec_command", "cmd"),
    ("Bash", "shell_command", "command"),
    ("apply_patch", "apply_patch", "input"),
];

/// The call as the model made it, where `proxied` is that call in an answer that came by the proxy: hooks report its
/// text only.
pub(super) fn on_wire(reported: &WireCall, proxied: &DecidedCall) -> Option<WireCall> {
    let made = proxied.arguments.as_ref().filter(|_| proxied.asked_by.contains(&Surface::Proxy));
    let made: Value = serde_json::from_str(made?.canonical()).ok()?;
    let told: Value = serde_json::from_str(&reported.arguments).ok()?;
    let text = told.get("command")?.as_str()?;
    let judged = proxied.tool.rsplit('/').next()?;
    let (_, wire, _) = ON_WIRE.iter().find(|(tool, wire, argument)| {
        let is_named = *tool == reported.name && *wire == judged;
        is_named && made.get(argument).and_then(Value::as_str) == Some(text)
    })?;
    Some(WireCall { name: (*wire).to_owned(), arguments: made.to_string(), ..reported.clone() })
}

#[derive(Debug, Deserialize)]
struct Report {
    session_id: String,
    hook_event_name: String,
    agent_id: Option<String>,
    cwd: Option<String>,
    source: Option<String>,
    prompt: Option<String>,
    tool_name: Option<String>,
    tool_input: Option<Value>,
    tool_use_id: Option<String>,
    tool_response: Option<Value>,
    last_assistant_message: Option<String>,
}

pub(super) fn moment(event: &str) -> Moment {
    match event {
        "UserPromptSubmit" => Moment::Prompt,
        "PreToolUse" => Moment::BeforeCall,
        "PostToolUse" => Moment::AfterCall,
        _ => Moment::Report,
    }
}

pub(super) fn parse(body: &[u8]) -> Result<HookEvent, HookError> {
    let report: Report = serde_json::from_slice(body)?;
    let event = report.hook_event_name;
    let kind = match event.as_str() {
        "SessionStart" => {
            let is_new = matches!(report.source.as_deref(), Some("startup" | "clear"));
            EventKind::Start { is_new }
        }
        "UserPromptSubmit" => {
            // What an agent asks of another one is the model's.
            let is_typed = report.agent_id.is_none();
            EventKind::Prompt { text: needed(report.prompt, &event, "prompt")?, is_typed }
        }
        "PreToolUse" => {
            let tool = needed(report.tool_name, &event, "tool_name")?;
            let input = needed(report.tool_input, &event, "tool_input")?;
            let id = needed(report.tool_use_id, &event, "tool_use_id")?;
            EventKind::BeforeCall { call: HookCall { id: Some(id), tool }, input }
        }
        "PostToolUse" => {
            let tool = needed(report.tool_name, &event, "tool_name")?;
            let call = HookCall { id: report.tool_use_id, tool };
            let result = HookResult::of(report.tool_response, None);
            EventKind::AfterCall { call, input: report.tool_input, result }
        }
        "Stop" | "SubagentStop" => EventKind::Stop { said: report.last_assistant_message },
        _ => EventKind::Other,
    };
    let subagent = HookEvent::subagent_of(&event, report.agent_id);
    Ok(HookEvent { session: report.session_id, subagent, folder: report.cwd, kind })
}
