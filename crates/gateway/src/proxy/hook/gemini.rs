//! Gemini CLI: events on standard input, denials by exit code. Calls have no ids.
//!
//! Source: Gemini CLI documentation, "Hooks"; behaviour measured with 0.61.0.

use serde::Deserialize;
use serde_json::Value;

use super::HookError;
use super::event::{EventKind, HookCall, HookEvent, HookResult, needed};
use super::host::Moment;

pub(super) const EVENTS: [&str; 5] =
    ["SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent"];

#[derive(Debug, Deserialize)]
struct Report {
    session_id: String,
    hook_event_name: String,
    agent_id: Option<String>,
    cwd: Option<String>,
    source: Option<String>,
    prompt: Option<String>,
    prompt_response: Option<String>,
    tool_name: Option<String>,
    tool_input: Option<Value>,
    mcp_context: Option<McpContext>,
    tool_response: Option<Value>,
}

/// The MCP server of a tool.
#[derive(Debug, Deserialize)]
struct McpContext {
    server_name: String,
    tool_name: String,
}

pub(super) fn moment(event: &str) -> Moment {
    match event {
        "BeforeAgent" => Moment::Prompt,
        "BeforeTool" => Moment::BeforeCall,
        "AfterTool" => Moment::AfterCall,
        _ => Moment::Report,
    }
}

pub(super) fn parse(body: &[u8]) -> Result<HookEvent, HookError> {
    let mut report: Report = serde_json::from_slice(body)?;
    let event = std::mem::take(&mut report.hook_event_name);
    let kind = match event.as_str() {
        "SessionStart" => {
            let is_new = matches!(report.source.as_deref(), Some("startup" | "clear"));
            EventKind::Start { is_new }
        }
        "BeforeAgent" => {
            let is_typed = report.agent_id.is_none();
            EventKind::Prompt { text: needed(report.prompt, &event, "prompt")?, is_typed }
        }
        "BeforeTool" => {
            let input = needed(report.tool_input, &event, "tool_input")?;
            let tool = tool(report.tool_name, report.mcp_context, &event)?;
            EventKind::BeforeCall { call: HookCall { id: None, tool }, input }
        }
        "AfterTool" => {
            let tool = tool(report.tool_name, report.mcp_context, &event)?;
            let result = result(report.tool_response);
            let call = HookCall { id: None, tool };
            EventKind::AfterCall { call, input: report.tool_input, result }
        }
        "AfterAgent" => EventKind::Stop { said: report.prompt_response },
        _ => EventKind::Other,
    };
    let (session, subagent, folder) = (report.session_id, report.agent_id, report.cwd);
    Ok(HookEvent { session, subagent, folder, kind })
}

/// The name of a tool. That of an MCP server's tool cannot be split, so the host says of what it is made.
fn tool(name: Option<String>, mcp: Option<McpContext>, event: &str) -> Result<String, HookError> {
    let name = needed(name, event, "tool_name")?;
    Ok(match mcp {
        Some(McpContext { server_name, tool_name }) => format!("{server_name}/{tool_name}"),
        None => name,
    })
}

/// What a call brought back, as the model reads it.
fn result(response: Option<Value>) -> HookResult {
    let read = response.as_ref().and_then(|response| response.get("llmContent")).cloned();
    let HookResult { text, .. } = HookResult::of(read.or_else(|| response.clone()), None);
    HookResult { text, structured: response }
}
