//! Claude Code: events by HTTP, answers as JSON; but for the beginning of a conversation, for which it makes no request
//! and runs a program.
//!
//! Source: Claude Code documentation, "Hooks"; behaviour measured with 2.1.331.

use serde::Deserialize;
use serde_json::{Value, json};

use super::event::{EventKind, HookCall, HookEvent, HookResult, needed};
use super::host::Moment;
use super::{HookAnswer, HookError};

/// The event that comes from a program.
pub(super) const START: &str = "SessionStart";

pub(super) const EVENTS: [&str; 8] = [
    START,
    "UserPromptSubmit",
    "InstructionsLoaded",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "SubagentStop",
];

#[derive(Debug, Deserialize)]
struct Report {
    session_id: String,
    hook_event_name: String,
    agent_id: Option<String>,
    cwd: Option<String>,
    prompt: Option<String>,
    /// Who submitted a prompt, which some versions do not say; or how a conversation begins.
    source: Option<String>,
    tool_name: Option<String>,
    tool_input: Option<Value>,
    tool_use_id: Option<String>,
    tool_response: Option<Value>,
    error: Option<String>,
    file_path: Option<String>,
    last_assistant_message: Option<String>,
}

pub(super) fn moment(event: &str) -> Moment {
    match event {
        "UserPromptSubmit" => Moment::Prompt,
        "PreToolUse" => Moment::BeforeCall,
        "PostToolUse" | "PostToolUseFailure" => Moment::AfterCall,
        _ => Moment::Report,
    }
}

pub(super) fn parse(body: &[u8]) -> Result<HookEvent, HookError> {
    let report: Report = serde_json::from_slice(body)?;
    let event = report.hook_event_name;
    let kind = match event.as_str() {
        START => {
            let is_new = matches!(report.source.as_deref(), Some("startup" | "clear"));
            EventKind::Start { is_new }
        }
        "UserPromptSubmit" => {
            let is_typed = report.source.as_deref().is_none_or(|source| source == "user");
            EventKind::Prompt { text: needed(report.prompt, &event, "prompt")?, is_typed }
        }
        "InstructionsLoaded" => {
            EventKind::Instructions { path: needed(report.file_path, &event, "file_path")? }
        }
        "PreToolUse" => {
            let tool = needed(report.tool_name, &event, "tool_name")?;
            let input = needed(report.tool_input, &event, "tool_input")?;
            // Without an id the call is joined with no other.
            let id = Some(report.tool_use_id.unwrap_or_default());
            EventKind::BeforeCall { call: HookCall { id, tool }, input }
        }
        "PostToolUse" | "PostToolUseFailure" => {
            let tool = needed(report.tool_name, &event, "tool_name")?;
            let id = Some(report.tool_use_id.unwrap_or_default());
            let result = HookResult::of(report.tool_response, report.error);
            EventKind::AfterCall { call: HookCall { id, tool }, input: report.tool_input, result }
        }
        "Stop" | "SubagentStop" => EventKind::Stop { said: report.last_assistant_message },
        _ => EventKind::Other,
    };
    let subagent = HookEvent::subagent_of(&event, report.agent_id);
    Ok(HookEvent { session: report.session_id, subagent, folder: report.cwd, kind })
}

/// The body of an answer. Only a denial, a question and a block say anything: the host takes `allow` for more than
/// that nothing stands against it.
pub(super) fn body(answer: &HookAnswer) -> Value {
    match answer {
        HookAnswer::Nothing => json!({}),
        HookAnswer::Deny(reason) => pre_tool_use("deny", reason),
        HookAnswer::Ask(reason) => pre_tool_use("ask", reason),
        HookAnswer::BlockPrompt(reason) => json!({ "decision": "block", "reason": reason }),
    }
}

fn pre_tool_use(decision: &str, reason: &str) -> Value {
    json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": reason,
    } })
}
