//! Anthropic's messages: `POST /v1/messages`.
//!
//! Source: Anthropic API reference, "Messages" and "Streaming messages"
//! (<https://docs.anthropic.com/en/api/messages>).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::block::{self, Block, BlockContent, WireCall, WireRole};
use super::splice::{self, Splices};
use super::sse::{self, Event};
use super::stream::{EventFilter, Returned};
use super::{
    CallRule, CallRuling, ModelRequest, Undecidable, WireError, offered, parsed, required, says,
    text_of, usage,
};

/// Tools with a type of their own that the client runs, so that their calls come by here.
const CLIENT_TOOLS: [&str; 6] =
    ["custom", "bash_", "text_editor_", "computer_", "memory_", "tool_search_tool_"];

pub(super) fn request(body: &Value) -> Result<ModelRequest, WireError> {
    let mut blocks = Vec::new();
    match body.get("system") {
        None | Some(Value::Null) => {}
        Some(system) => read_content(WireRole::System, system, &mut blocks)?,
    }
    let messages = body.get("messages").and_then(Value::as_array);
    for message in messages.ok_or(WireError::Shape("messages"))? {
        let role = match required(message, "role")? {
            "user" => WireRole::User,
            "assistant" => WireRole::Assistant,
            "system" => WireRole::System,
            _ => WireRole::Unknown,
        };
        let content = message.get("content").ok_or(WireError::Shape("content"))?;
        read_content(role, content, &mut blocks)?;
    }
    let is_streamed = body.get("stream").and_then(Value::as_bool).unwrap_or(false);
    let undecidable = undecidable(body);
    let (model, tools) = (offered::model(body), offered::anthropic(body));
    Ok(ModelRequest { blocks, is_streamed, undecidable, model, tools })
}

fn undecidable(body: &Value) -> BTreeSet<Undecidable> {
    let tools = body.get("tools").and_then(Value::as_array).into_iter().flatten();
    let mut kinds = tools.filter_map(|tool| text_of(tool, "type"));
    let mut found = BTreeSet::new();
    if kinds.any(|kind| !CLIENT_TOOLS.iter().any(|known| kind.starts_with(known))) {
        found.insert(Undecidable::VendorTool);
    }
    if says(body, "mcp_servers") {
        found.insert(Undecidable::VendorMcp);
    }
    if says(body, "container") {
        found.insert(Undecidable::VendorTool);
    }
    found
}

fn read_content(role: WireRole, content: &Value, blocks: &mut Vec<Block>) -> Result<(), WireError> {
    match content {
        Value::String(text) => blocks.push(Block::text(role, text)),
        Value::Array(parts) => {
            for part in parts {
                blocks.extend(read_part(role, part)?);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            return Err(WireError::Shape("content"));
        }
    }
    Ok(())
}

/// One part of a message. The model's thinking is left out: the vendor signs it, and refuses what it did not sign.
fn read_part(role: WireRole, part: &Value) -> Result<Option<Block>, WireError> {
    Ok(Some(match (required(part, "type")?, role) {
        ("text", _) => Block::text(role, required(part, "text")?),
        ("thinking" | "redacted_thinking", WireRole::Assistant) => return Ok(None),
        ("tool_use", WireRole::Assistant) => Block::new(role, BlockContent::Call(call(part)?)),
        ("tool_result", _) => {
            let call = required(part, "tool_use_id")?.to_owned();
            let text = block::result_text(part.get("content"))?;
            Block::new(WireRole::Tool, BlockContent::Result { call, text })
        }
        _ => Block::opaque(role, part),
    }))
}

fn call(part: &Value) -> Result<WireCall, WireError> {
    let (id, name) = (required(part, "id")?.to_owned(), required(part, "name")?.to_owned());
    let arguments = part.get("input").map_or_else(|| "{}".to_owned(), Value::to_string);
    Ok(WireCall { id, name, arguments })
}

/// What an answer's block is to a rule.
enum Part {
    Text,
    Call,
    Thought,
    /// What the vendor ran, or nobody knows.
    Undecided(Undecidable),
}

fn part_of(block: &Value) -> Result<Part, WireError> {
    Ok(match required(block, "type")? {
        "text" => Part::Text,
        "tool_use" => Part::Call,
        "thinking" | "redacted_thinking" => Part::Thought,
        "mcp_tool_use" | "mcp_tool_result" => Part::Undecided(Undecidable::VendorMcp),
        "server_tool_use" => Part::Undecided(Undecidable::VendorTool),
        kind if kind.ends_with("_tool_result") => Part::Undecided(Undecidable::VendorTool),
        _ => Part::Undecided(Undecidable::UnknownBlock),
    })
}

/// An answer after `rule`; `None` if nothing of it changes.
pub(super) fn answer(
    text: &str,
    body: &Value,
    rule: &mut dyn CallRule,
) -> Result<(Option<String>, Returned), WireError> {
    let blocks = body.get("content").and_then(Value::as_array);
    let blocks = blocks.ok_or(WireError::Shape("content"))?;
    usage::note(body.get("usage"), usage::anthropic, rule);
    let (mut returned, mut replaced, mut passed) = (Returned::default(), Vec::new(), 0);
    for (at, block) in blocks.iter().enumerate() {
        match part_of(block)? {
            Part::Thought => {}
            Part::Undecided(what) => {
                rule.undecided(what)?;
                returned.push(Block::opaque(WireRole::Assistant, block));
            }
            Part::Text => {
                let said = required(block, "text")?;
                rule.note_text(said);
                returned.push(Block::text(WireRole::Assistant, said));
            }
            Part::Call => {
                let call = call(block)?;
                match rule.rule(&call) {
                    CallRuling::Pass => {
                        passed += 1;
                        returned.push(Block::new(WireRole::Assistant, BlockContent::Call(call)));
                    }
                    CallRuling::Replace(text) => {
                        returned.push(Block::text(WireRole::Assistant, &text));
                        replaced.push((at, text));
                    }
                }
            }
        }
    }
    if replaced.is_empty() {
        return Ok((None, returned));
    }
    let mut splices = Splices::default();
    let content = splice::member(text, "content").ok_or(WireError::Shape("content"))?;
    let parts = splice::elements(content.get());
    for (at, said) in replaced {
        let part = parts.get(at).ok_or(WireError::Shape("content"))?;
        let said = json!({ "type": "text", "text": said });
        splices.replace(splice::place(text, part), said.to_string());
    }
    if let Some(reason) = splice::member(text, "stop_reason")
        && passed == 0
        && reason.get() == "\"tool_use\""
    {
        splices.replace(splice::place(text, reason), "\"end_turn\"");
    }
    Ok((Some(splices.apply(text)), returned))
}

/// A stream of an answer. The blocks of an answer come one after the other, each under its index.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// A call that is not complete, with its events.
    held: Option<HeldCall>,
    text: String,
    passed: usize,
    removed: usize,
    returned: Returned,
}

#[derive(Debug)]
struct HeldCall {
    index: Value,
    call: WireCall,
    /// The pieces of its arguments.
    pieces: String,
    raw: Vec<u8>,
}

impl EventFilter for Stream {
    fn event(
        &mut self,
        event: Event,
        out: &mut Vec<u8>,
        rule: &mut dyn CallRule,
    ) -> Result<(), WireError> {
        let Some(data) = &event.data else {
            std::str::from_utf8(&event.raw).map_err(|_| WireError::Encoding)?;
            self.forward(&event.raw, out);
            return Ok(());
        };
        let value = parsed(data.as_bytes())?;
        // In the first event of a message it is part of the message.
        for usage in [value.pointer("/message/usage"), value.get("usage")] {
            usage::note(usage, usage::anthropic, rule);
        }
        match required(&value, "type")? {
            // Blocks come as events of their own; one in here would go by undecided.
            "message_start" if value.get("message").is_some_and(|it| says(it, "content")) => {
                return Err(WireError::Shape("content_block_start"));
            }
            "content_block_start" => self.start(&value, rule)?,
            "content_block_delta" => self.delta(&value)?,
            "content_block_stop" => return self.stop(&value, &event.raw, out, rule),
            "message_delta" => return self.finish(value, &event.raw, out),
            _ => {}
        }
        self.forward(&event.raw, out);
        Ok(())
    }

    fn end(&mut self, rule: &mut dyn CallRule) {
        self.held = None;
        self.say(rule);
    }

    fn held(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.raw.len())
    }

    fn returned(&mut self) -> Returned {
        std::mem::take(&mut self.returned)
    }
}

impl Stream {
    /// Passes an event on, after whatever is held before it.
    fn forward(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        match &mut self.held {
            Some(held) => held.raw.extend_from_slice(raw),
            None => out.extend_from_slice(raw),
        }
    }

    fn say(&mut self, rule: &mut dyn CallRule) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            rule.note_text(&text);
            self.returned.push(Block::text(WireRole::Assistant, text));
        }
    }

    fn start(&mut self, value: &Value, rule: &mut dyn CallRule) -> Result<(), WireError> {
        if self.held.is_some() {
            return Err(WireError::Shape("content_block_stop"));
        }
        self.say(rule);
        let block = value.get("content_block").ok_or(WireError::Shape("content_block"))?;
        match part_of(block)? {
            Part::Text => self.text.push_str(text_of(block, "text").unwrap_or_default()),
            Part::Thought => {}
            Part::Undecided(what) => {
                rule.undecided(what)?;
                self.returned.push(Block::opaque(WireRole::Assistant, block));
            }
            Part::Call => {
                let index = value.get("index").cloned().ok_or(WireError::Shape("index"))?;
                let (call, pieces, raw) = (call(block)?, String::new(), Vec::new());
                self.held = Some(HeldCall { index, call, pieces, raw });
            }
        }
        Ok(())
    }

    fn delta(&mut self, value: &Value) -> Result<(), WireError> {
        let delta = value.get("delta").ok_or(WireError::Shape("delta"))?;
        match (&mut self.held, required(delta, "type")?) {
            (Some(held), "input_json_delta") if value.get("index") == Some(&held.index) => {
                held.pieces.push_str(required(delta, "partial_json")?);
            }
            (Some(_), _) => return Err(WireError::Shape("partial_json")),
            (None, "text_delta") => {
                self.text.push_str(required(delta, "text")?);
            }
            (None, _) => {}
        }
        Ok(())
    }

    fn stop(
        &mut self,
        value: &Value,
        raw: &[u8],
        out: &mut Vec<u8>,
        rule: &mut dyn CallRule,
    ) -> Result<(), WireError> {
        let Some(HeldCall { index, mut call, pieces, raw: held }) = self.held.take() else {
            self.say(rule);
            out.extend_from_slice(raw);
            return Ok(());
        };
        if value.get("index") != Some(&index) {
            return Err(WireError::Shape("content_block_stop"));
        }
        if !pieces.is_empty() {
            // Readers differ in which of two arguments count.
            if call.arguments != "{}" {
                return Err(WireError::Shape("input"));
            }
            call.arguments = pieces;
        }
        match rule.rule(&call) {
            CallRuling::Pass => {
                self.passed += 1;
                self.returned.push(Block::new(WireRole::Assistant, BlockContent::Call(call)));
                out.extend_from_slice(&held);
                out.extend_from_slice(raw);
            }
            CallRuling::Replace(text) => {
                self.removed += 1;
                out.extend(text_block(&index, &text));
                self.returned.push(Block::text(WireRole::Assistant, text));
            }
        }
        Ok(())
    }

    fn finish(&mut self, mut value: Value, raw: &[u8], out: &mut Vec<u8>) -> Result<(), WireError> {
        if self.held.is_some() {
            return Err(WireError::Shape("content_block_stop"));
        }
        let reason = value.get_mut("delta").and_then(|delta| delta.get_mut("stop_reason"));
        match reason {
            Some(reason) if self.removed > 0 && self.passed == 0 && *reason == "tool_use" => {
                *reason = "end_turn".into();
                out.extend(sse::written(Some("message_delta"), &value));
            }
            _ => out.extend_from_slice(raw),
        }
        Ok(())
    }
}

/// The events of a block of text.
fn text_block(index: &Value, text: &str) -> Vec<u8> {
    let events = [
        json!({
            "type": "content_block_start", "index": index, "content_block": { "type": "text", "text": "" }
        }),
        json!({
            "type": "content_block_delta", "index": index, "delta": { "type": "text_delta", "text": text }
        }),
        json!({ "type": "content_block_stop", "index": index }),
    ];
    let written = events.iter().map(|event| sse::written(text_of(event, "type"), event));
    written.collect::<Vec<_>>().concat()
}
