//! A case of the InjecAgent benchmark, as the conversation it describes.
//!
//! A user asks, the assistant calls one tool, and the tool's answer carries the attack.
//!
//! Source: Zhan et al., *InjecAgent*, 2024, §3.

use serde_json::{Map, Value};

use super::error::TraceProblem;
use super::field::{Path, require_text};
use super::message::{Message, MessageRole, ToolCall};
use super::python_literal::parse_dict;
use crate::json::Budget;

/// The case's only call.
const CALL_ID: &str = "call_1";

/// Reads one row into its three messages.
///
/// `text`, the tool's answer with the attack put in, stays as the row has it: the
/// published rows wrap it in one more pair of quotes.
///
/// # Errors
/// A field is missing or no string, or the parameters are not a plain Python dict.
pub(super) fn read_case(
    mut row: Map<String, Value>,
    budget: &mut Budget,
) -> Result<[Message; 3], TraceProblem> {
    let instruction = field(&mut row, "user_instruction")?;
    let tool = field(&mut row, "user_tool")?;
    let parameters = field(&mut row, "tool_parameters")?;
    let answer = field(&mut row, "text")?;
    let arguments = parse_dict(&parameters, budget).map_err(|cause| TraceProblem::Parameters {
        path: Path::Line.field("tool_parameters").to_string(),
        cause,
    })?;
    let call = ToolCall {
        id: Some(CALL_ID.to_owned()),
        name: tool.clone(),
        arguments,
        arguments_raw: parameters,
    };
    Ok([
        message(MessageRole::User, instruction),
        Message { tool_calls: vec![call], ..message(MessageRole::Assistant, String::new()) },
        Message {
            tool_call_id: Some(CALL_ID.to_owned()),
            name: Some(tool),
            ..message(MessageRole::Tool, answer)
        },
    ])
}

fn message(role: MessageRole, text: String) -> Message {
    Message {
        role,
        text,
        other_parts: Vec::new(),
        tool_calls: Vec::new(),
        tool_call_id: None,
        name: None,
    }
}

fn field(row: &mut Map<String, Value>, name: &'static str) -> Result<String, TraceProblem> {
    require_text(row, name, &Path::Line, "write a string, as InjecAgent's cases have it")
}
