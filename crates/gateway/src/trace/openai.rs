//! A chat message in OpenAI's form, older `function_call`s included.

use serde_json::{Map, Value};

use super::error::TraceProblem;
use super::field::{Path, require_text, take_text};
use super::message::{Message, MessageRole, ToolCall};
use crate::excerpt::excerpt;
use crate::json::{self, Budget, Numbers};

/// Reads one message. Fields it does not know are passed over.
///
/// # Errors
/// A field has another type than the form allows, arguments are not an I-JSON object,
/// or a part hides a tool call.
pub(super) fn read_message(
    mut object: Map<String, Value>,
    at: &Path<'_>,
    budget: &mut Budget,
) -> Result<Message, TraceProblem> {
    let advice = "write `system`, `developer`, `user`, `assistant` or `tool`";
    let role = MessageRole::parse(require_text(&mut object, "role", at, advice)?);
    let tool_calls = read_calls(&mut object, &role, at, budget)?;
    let content = read_content(&mut object, !tool_calls.is_empty(), at)?;
    Ok(Message {
        role,
        text: content.pieces.join("\n"),
        other_parts: content.other_parts,
        tool_calls,
        tool_call_id: take_text(&mut object, "tool_call_id", at)?,
        name: take_text(&mut object, "name", at)?,
    })
}

#[derive(Default)]
struct Content {
    pieces: Vec<String>,
    other_parts: Vec<String>,
}

fn read_content(
    object: &mut Map<String, Value>,
    has_calls: bool,
    at: &Path<'_>,
) -> Result<Content, TraceProblem> {
    let refusal = take_text(object, "refusal", at)?;
    let at = at.field("content");
    let mut content = match object.remove("content") {
        Some(Value::String(text)) => Content { pieces: vec![text], other_parts: Vec::new() },
        Some(Value::Array(parts)) => read_parts(parts, &at)?,
        None | Some(Value::Null) if has_calls || refusal.is_some() => Content::default(),
        found @ (None | Some(Value::Null)) => {
            let advice = "write its text; only a message with tool calls may have none";
            return Err(at.problem(found.as_ref(), advice));
        }
        found => return Err(at.problem(found.as_ref(), "write a string or an array of parts")),
    };
    content.pieces.extend(refusal);
    Ok(content)
}

fn read_parts(parts: Vec<Value>, at: &Path<'_>) -> Result<Content, TraceProblem> {
    let mut content = Content::default();
    for (index, part) in parts.into_iter().enumerate() {
        let at = at.index(index);
        let Value::Object(mut part) = part else {
            return Err(at.problem(Some(&part), "write a part: an object with `type`"));
        };
        let kind = require_text(&mut part, "type", &at, "write the part's type, such as `text`")?;
        match kind.as_str() {
            "text" | "input_text" | "output_text" => {
                content.pieces.push(require_text(&mut part, "text", &at, "write a string")?);
            }
            "refusal" => {
                content.pieces.push(require_text(&mut part, "refusal", &at, "write a string")?);
            }
            // Passed over as an unknown part, a call would run unseen.
            _ if kind.contains("tool") || kind.contains("function") => {
                let path = at.field("type").to_string();
                let found = format!("`{}`", excerpt(&kind));
                let advice = "write calls as `tool_calls` and results as messages of role `tool`";
                return Err(TraceProblem::WrongField { path, found, advice });
            }
            _ => {
                content.pieces.push(format!("[{kind}]"));
                content.other_parts.push(kind);
            }
        }
    }
    Ok(content)
}

fn read_calls(
    object: &mut Map<String, Value>,
    role: &MessageRole,
    at: &Path<'_>,
    budget: &mut Budget,
) -> Result<Vec<ToolCall>, TraceProblem> {
    let mut calls = Vec::new();
    let list = at.field("tool_calls");
    match object.remove("tool_calls") {
        None | Some(Value::Null) => {}
        Some(Value::Array(items)) => {
            for (index, item) in items.into_iter().enumerate() {
                calls.push(read_call(item, &list.index(index), budget)?);
            }
        }
        found => return Err(list.problem(found.as_ref(), "write an array of calls")),
    }
    let legacy = at.field("function_call");
    match object.remove("function_call") {
        None | Some(Value::Null) => {}
        Some(Value::Object(function)) => {
            calls.push(read_function(None, function, &legacy, budget)?);
        }
        found => return Err(legacy.problem(found.as_ref(), "write an object")),
    }
    match role {
        MessageRole::Assistant | MessageRole::Unknown(_) => Ok(calls),
        MessageRole::System | MessageRole::Developer | MessageRole::User | MessageRole::Tool
            if calls.is_empty() =>
        {
            Ok(calls)
        }
        MessageRole::System | MessageRole::Developer | MessageRole::User | MessageRole::Tool => {
            Err(TraceProblem::WrongField {
                path: at.field("role").to_string(),
                found: format!("`{}` and the message calls a tool", role.as_str()),
                advice: "only an `assistant` calls tools",
            })
        }
    }
}

fn read_call(item: Value, at: &Path<'_>, budget: &mut Budget) -> Result<ToolCall, TraceProblem> {
    let Value::Object(mut call) = item else {
        return Err(at.problem(Some(&item), "write a call: an object with `id` and `function`"));
    };
    if let Some(kind) = take_text(&mut call, "type", at)?
        && kind != "function"
    {
        let path = at.field("type").to_string();
        let found = format!("`{}`", excerpt(&kind));
        return Err(TraceProblem::WrongField {
            path,
            found,
            advice: "only `function` is understood",
        });
    }
    let id = require_text(&mut call, "id", at, "write the id that the tool's result names")?;
    let at = at.field("function");
    match call.remove("function") {
        Some(Value::Object(function)) => read_function(Some(id), function, &at, budget),
        found => Err(at.problem(found.as_ref(), "write an object with `name` and `arguments`")),
    }
}

fn read_function(
    id: Option<String>,
    mut function: Map<String, Value>,
    at: &Path<'_>,
    budget: &mut Budget,
) -> Result<ToolCall, TraceProblem> {
    let name = require_text(&mut function, "name", at, "write the tool's name")?;
    let advice = "write a string that holds a JSON object, `\"{}\"` for none";
    let arguments_raw = require_text(&mut function, "arguments", at, advice)?;
    let arguments = read_arguments(&arguments_raw, &at.field("arguments"), budget)?;
    Ok(ToolCall { id, name, arguments, arguments_raw })
}

fn read_arguments(
    raw: &str,
    at: &Path<'_>,
    budget: &mut Budget,
) -> Result<Map<String, Value>, TraceProblem> {
    if raw.trim().is_empty() {
        return Ok(Map::new());
    }
    match json::parse(raw, Numbers::Exact, budget) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(other) => Err(at.problem(Some(&other), "write an object inside the string")),
        Err(cause) => Err(TraceProblem::Arguments { path: at.to_string(), cause }),
    }
}
