//! Copilot CLI: events on standard input without their names, denials as JSON. A denial by exit code blocks a call too,
//! but loses its reason, and does not block a prompt.
//!
//! Source: GitHub Copilot CLI documentation, "Hooks"; behaviour measured with 1.0.102.

use serde::Deserialize;
use serde_json::{Value, json};

use super::event::{EventKind, HookCall, HookEvent, HookResult, needed, unfolded};
use super::host::{HookOutput, Moment, one_line};
use super::{HookAnswer, HookError};

pub(super) const EVENTS: [&str; 6] = [
    "sessionStart",
    "userPromptSubmitted",
    "preToolUse",
    "postToolUse",
    "postToolUseFailure",
    "agentStop",
];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    session_id: String,
    agent_id: Option<String>,
    cwd: Option<String>,
    source: Option<String>,
    prompt: Option<String>,
    tool_name: Option<String>,
    tool_args: Option<Value>,
    tool_result: Option<Value>,
    error: Option<Value>,
}

pub(super) fn moment(event: &str) -> Moment {
    match event {
        "userPromptSubmitted" => Moment::Prompt,
        "preToolUse" => Moment::BeforeCall,
        "postToolUse" | "postToolUseFailure" => Moment::AfterCall,
        _ => Moment::Report,
    }
}

pub(super) fn parse(event: Option<&str>, body: &[u8]) -> Result<HookEvent, HookError> {
    let report: Report = serde_json::from_slice(body)?;
    let event = needed(event, "unnamed", "event")?;
    let kind = match event {
        "sessionStart" => {
            let is_new = matches!(report.source.as_deref(), Some("new" | "startup" | "clear"));
            EventKind::Start { is_new }
        }
        "userPromptSubmitted" => {
            let is_typed = report.agent_id.is_none();
            EventKind::Prompt { text: needed(report.prompt, event, "prompt")?, is_typed }
        }
        "preToolUse" => {
            let call = call(report.tool_name, event)?;
            let input = unfolded(needed(report.tool_args, event, "toolArgs")?);
            EventKind::BeforeCall { call, input }
        }
        "postToolUse" | "postToolUseFailure" => {
            let call = call(report.tool_name, event)?;
            let input = report.tool_args.map(unfolded);
            let result = result(report.tool_result.or(report.error));
            EventKind::AfterCall { call, input, result }
        }
        "agentStop" => EventKind::Stop { said: None },
        _ => EventKind::Other,
    };
    let (session, subagent, folder) = (report.session_id, report.agent_id, report.cwd);
    Ok(HookEvent { session, subagent, folder, kind })
}

/// The call of a tool. That of an MCP server's tool has the server's name before a hyphen, and no tool of the host's
/// own has a hyphen.
fn call(name: Option<String>, event: &str) -> Result<HookCall, HookError> {
    let name = needed(name, event, "toolName")?;
    let parts = name.split_once('-').map(|(server, tool)| format!("{server}/{tool}"));
    Ok(HookCall { id: None, tool: parts.unwrap_or(name) })
}

/// What a call brought back, as the model reads it.
fn result(result: Option<Value>) -> HookResult {
    let read = result.as_ref().and_then(|result| result.get("textResultForLlm")).cloned();
    let HookResult { text, .. } = HookResult::of(read.or_else(|| result.clone()), None);
    HookResult { text, structured: result }
}

pub(super) fn output(answer: &HookAnswer) -> HookOutput {
    match answer {
        HookAnswer::Nothing => HookOutput::default(),
        HookAnswer::Deny(reason) => decision("deny", reason),
        HookAnswer::Ask(reason) => decision("ask", reason),
        HookAnswer::BlockPrompt(reason) => {
            let reason = one_line(reason);
            let stderr = format!("{reason}\n");
            HookOutput {
                stderr,
                ..HookOutput::json(&json!({ "decision": "block", "reason": reason }))
            }
        }
    }
}

fn decision(decision: &str, reason: &str) -> HookOutput {
    let reason = one_line(reason);
    HookOutput::json(&json!({ "permissionDecision": decision, "permissionDecisionReason": reason }))
}

/// A result that the model does not get to read, because it could not be recorded.
pub(super) fn withheld(reason: &str) -> HookOutput {
    let reason = one_line(reason);
    let result = json!({ "resultType": "failure", "textResultForLlm": reason });
    let stderr = format!("{reason}\n");
    HookOutput { stderr, ..HookOutput::json(&json!({ "modifiedResult": result })) }
}
