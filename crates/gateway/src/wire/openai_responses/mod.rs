//! OpenAI's responses: `POST /v1/responses`.
//!
//! `item`: the items that requests and answers are made of. `answer`: an answer as a whole. `stream`: as events.
//!
//! Source: OpenAI API reference, "Responses" (<https://platform.openai.com/docs/api-reference/responses>).

mod answer;
mod item;
mod stream;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::block::Block;
use super::{ModelRequest, Undecidable, WireError, WireRole, offered, says, sse, text_of};

pub(super) use answer::answer;
pub(super) use stream::Stream;

/// Tools that the client runs, so that their calls come by here. Anything else runs at the vendor.
const CLIENT_TOOLS: [&str; 7] = [
    "function",
    "custom",
    "local_shell",
    "apply_patch",
    "computer",
    "computer_use",
    "computer_use_preview",
];

/// What refers to a conversation that the vendor stores.
const STORED: [&str; 2] = ["previous_response_id", "conversation"];
/// What refers to a prompt that it stores.
const STORED_PROMPT: &str = "prompt";

pub(super) fn request(body: &Value) -> Result<ModelRequest, WireError> {
    let mut blocks = Vec::new();
    for name in STORED.iter().chain([&STORED_PROMPT]).filter(|name| says(body, name)) {
        // Nobody sees here what the model reads of it.
        let stored = json!({ "type": name, "value": body.get(*name) });
        blocks.push(Block::opaque(WireRole::Unknown, &stored));
    }
    for (name, role) in [("instructions", WireRole::System), ("input", WireRole::User)] {
        match body.get(name) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => blocks.push(Block::text(role, text)),
            Some(Value::Array(items)) => {
                for item in items {
                    blocks.extend(item::read(item)?.blocks);
                }
            }
            Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
                return Err(WireError::Shape("input"));
            }
        }
    }
    // A request may go on with what the vendor stores, and bring nothing of its own.
    if !says(body, STORED_PROMPT) && !STORED.iter().any(|name| says(body, name)) {
        body.get("input").ok_or(WireError::Shape("input"))?;
    }
    let is_streamed = body.get("stream").and_then(Value::as_bool).unwrap_or(false);
    let undecidable = undecidable(body);
    let (model, tools) = (offered::model(body), offered::responses(body));
    Ok(ModelRequest { blocks, is_streamed, undecidable, model, tools })
}

/// The blocks of a compacted history (`POST /v1/responses/compact`).
pub(super) fn history(body: &Value) -> Result<Vec<Block>, WireError> {
    let items = body.get("output").and_then(Value::as_array).ok_or(WireError::Shape("output"))?;
    let mut blocks = Vec::new();
    for item in items {
        blocks.extend(item::read(item)?.blocks);
    }
    Ok(blocks)
}

fn undecidable(body: &Value) -> BTreeSet<Undecidable> {
    let mut found = BTreeSet::new();
    if STORED.iter().any(|name| says(body, name)) {
        found.insert(Undecidable::StoredConversation);
    }
    if says(body, STORED_PROMPT) {
        found.insert(Undecidable::StoredPrompt);
    }
    if says(body, "background") {
        found.insert(Undecidable::Background);
    }
    note_tools(body, &mut found);
    for item in body.get("input").and_then(Value::as_array).into_iter().flatten() {
        match text_of(item, "type") {
            Some("item_reference") => {
                found.insert(Undecidable::StoredConversation);
            }
            // The code mode of Codex has no other list of tools, and searches bring tools, too.
            Some("additional_tools" | "tool_search_output") => note_tools(item, &mut found),
            _ => {}
        }
    }
    found
}

/// Notes the tools in a list that nobody can decide calls of here.
fn note_tools(listing: &Value, found: &mut BTreeSet<Undecidable>) {
    for tool in listing.get("tools").and_then(Value::as_array).into_iter().flatten() {
        match text_of(tool, "type").unwrap_or_default() {
            // Nested no deeper than JSON is read.
            "namespace" => note_tools(tool, found),
            "mcp" => {
                found.insert(Undecidable::VendorMcp);
            }
            "custom" if text_of(tool, "name") == Some(item::HOST_TOOL) => {
                found.insert(Undecidable::HostTool);
            }
            "shell" if item::runs_at_client(tool) => {}
            "tool_search" if text_of(tool, "execution") == Some("client") => {}
            kind if CLIENT_TOOLS.contains(&kind) => {}
            _ => {
                found.insert(Undecidable::VendorTool);
            }
        }
    }
}

/// An error as an event. Clients look for `error`, and the reference says that the rest stands beside it.
pub(super) fn error_event(mut error: Value) -> Vec<u8> {
    let inner = error.get("error").cloned().unwrap_or_default();
    if let Some(event) = error.as_object_mut() {
        event.insert("type".to_owned(), "error".into());
        for name in ["code", "message", "param"] {
            event.insert(name.to_owned(), inner.get(name).cloned().unwrap_or_default());
        }
    }
    sse::written(Some("error"), &error)
}
