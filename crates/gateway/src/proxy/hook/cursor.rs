//! Cursor: events on standard input, every answer as JSON. With `failClosed` an empty answer is a denial.
//!
//! Source: Cursor documentation, "Hooks". The editor is not run by this project, so nothing here is measured.

use serde::Deserialize;
use serde_json::{Value, json};

use super::event::{EventKind, HookCall, HookEvent, HookResult, needed, unfolded};
use super::host::{HookOutput, Moment, one_line};
use super::{HookAnswer, HookError};

pub(super) const EVENTS: [&str; 5] =
    ["beforeSubmitPrompt", "preToolUse", "postToolUse", "postToolUseFailure", "stop"];

#[derive(Debug, Deserialize)]
struct Report {
    conversation_id: String,
    hook_event_name: String,
    workspace_roots: Option<Vec<String>>,
    cwd: Option<String>,
    prompt: Option<String>,
    tool_name: Option<String>,
    tool_input: Option<Value>,
    tool_use_id: Option<String>,
    tool_output: Option<Value>,
    error_message: Option<String>,
}

pub(super) fn moment(event: &str) -> Moment {
    match event {
        "beforeSubmitPrompt" => Moment::Prompt,
        "preToolUse" => Moment::BeforeCall,
        "postToolUse" | "postToolUseFailure" => Moment::AfterCall,
        _ => Moment::Report,
    }
}

pub(super) fn parse(body: &[u8]) -> Result<HookEvent, HookError> {
    let report: Report = serde_json::from_slice(body)?;
    let event = report.hook_event_name;
    let kind = match event.as_str() {
        "beforeSubmitPrompt" => {
            let text = needed(report.prompt, &event, "prompt")?;
            EventKind::Prompt { text, is_typed: true }
        }
        "preToolUse" => {
            let tool = tool(&needed(report.tool_name, &event, "tool_name")?);
            let input = unfolded(needed(report.tool_input, &event, "tool_input")?);
            EventKind::BeforeCall { call: HookCall { id: report.tool_use_id, tool }, input }
        }
        "postToolUse" | "postToolUseFailure" => {
            let tool = tool(&needed(report.tool_name, &event, "tool_name")?);
            let call = HookCall { id: report.tool_use_id, tool };
            let result = HookResult::of(report.tool_output.map(unfolded), report.error_message);
            EventKind::AfterCall { call, input: report.tool_input.map(unfolded), result }
        }
        "stop" => EventKind::Stop { said: None },
        _ => EventKind::Other,
    };
    let folder = report.cwd.or_else(|| report.workspace_roots?.into_iter().next());
    Ok(HookEvent { session: report.conversation_id, subagent: None, folder, kind })
}

/// The name of a tool: `MCP:server:tool` is an MCP server's.
fn tool(name: &str) -> String {
    let parts = name.strip_prefix("MCP:").and_then(|rest| rest.split_once(':'));
    parts.map_or_else(|| name.to_owned(), |(server, tool)| format!("{server}/{tool}"))
}

pub(super) fn output(moment: Moment, answer: &HookAnswer) -> HookOutput {
    let value = match (moment, answer) {
        (Moment::Prompt, HookAnswer::Nothing) => json!({ "continue": true }),
        (Moment::BeforeCall, HookAnswer::Nothing) => json!({ "permission": "allow" }),
        (Moment::AfterCall | Moment::Report, HookAnswer::Nothing) => json!({}),
        (_, HookAnswer::BlockPrompt(reason)) => {
            json!({ "continue": false, "user_message": one_line(reason) })
        }
        // What its user answers to a question may be overruled by a list of the editor's own, so it is not asked.
        (_, HookAnswer::Deny(reason) | HookAnswer::Ask(reason)) => {
            let reason = one_line(reason);
            json!({ "permission": "deny", "user_message": reason, "agent_message": reason })
        }
    };
    HookOutput::json(&value)
}
