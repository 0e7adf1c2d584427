//! OpenAI's chat completions: `POST /v1/chat/completions`.
//!
//! Source: OpenAI API reference, "Chat Completions" (<https://platform.openai.com/docs/api-reference/chat>).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::block::{self, Block, BlockContent, WireCall, WireRole};
use super::splice::{self, Splices};
use super::sse::{self, Event};
use super::stream::{EventFilter, Returned};
use super::{
    CallRule, CallRuling, ModelRequest, Undecidable, WireError, offered, parsed, required, says,
    text_of, usage,
};

/// Ends a stream.
const DONE: &str = "[DONE]";

pub(super) fn request(body: &Value) -> Result<ModelRequest, WireError> {
    let mut blocks = Vec::new();
    let messages = body.get("messages").and_then(Value::as_array);
    for message in messages.ok_or(WireError::Shape("messages"))? {
        read_message(message, &mut blocks)?;
    }
    let is_streamed = body.get("stream").and_then(Value::as_bool).unwrap_or(false);
    let undecidable = undecidable(body);
    let (model, tools) = (offered::model(body), offered::chat(body));
    Ok(ModelRequest { blocks, is_streamed, undecidable, model, tools })
}

fn undecidable(body: &Value) -> BTreeSet<Undecidable> {
    let mut found = BTreeSet::new();
    if body.get("n").is_some_and(|n| n.as_u64() != Some(1) && !n.is_null()) {
        found.insert(Undecidable::SeveralAnswers);
    }
    if says(body, "functions") || says(body, "function_call") {
        found.insert(Undecidable::FunctionCall);
    }
    if says(body, "web_search_options") {
        found.insert(Undecidable::VendorTool);
    }
    found
}

fn read_message(message: &Value, blocks: &mut Vec<Block>) -> Result<(), WireError> {
    let role = match required(message, "role")? {
        "system" | "developer" => WireRole::System,
        "user" => WireRole::User,
        "assistant" => WireRole::Assistant,
        "tool" => {
            let call = required(message, "tool_call_id")?;
            let (call, text) = (call.to_owned(), block::result_text(message.get("content"))?);
            blocks.push(Block::new(WireRole::Tool, BlockContent::Result { call, text }));
            return Ok(());
        }
        "function" => WireRole::Tool,
        _ => WireRole::Unknown,
    };
    match message.get("content") {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) => {
            if !text.is_empty() {
                blocks.push(Block::text(role, text));
            }
        }
        Some(Value::Array(parts)) => {
            blocks.extend(parts.iter().map(|part| match text_of(part, "text") {
                Some(text) if text_of(part, "type") == Some("text") => Block::text(role, text),
                _ => Block::opaque(role, part),
            }));
        }
        Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
            return Err(WireError::Shape("content"));
        }
    }
    for call in calls_of(message)? {
        blocks.push(Block::new(role, BlockContent::Call(call_of(call)?)));
    }
    if says(message, "function_call") {
        blocks.push(Block::opaque(role, &message["function_call"]));
    }
    Ok(())
}

/// The tool calls of a message or a piece of one.
fn calls_of(message: &Value) -> Result<&[Value], WireError> {
    match message.get("tool_calls") {
        None | Some(Value::Null) => Ok(&[]),
        Some(calls) => Ok(calls.as_array().ok_or(WireError::Shape("tool_calls"))?),
    }
}

fn call_of(call: &Value) -> Result<WireCall, WireError> {
    let mut gathered = GatheredCall::default();
    gathered.add(call)?;
    gathered.complete()
}

/// A call, as far as it has come.
#[derive(Debug, Default)]
struct GatheredCall {
    id: String,
    name: String,
    arguments: String,
    is_custom: bool,
}

impl GatheredCall {
    fn add(&mut self, piece: &Value) -> Result<(), WireError> {
        if let Some(id) = text_of(piece, "id")
            && self.id != id
        {
            self.id.push_str(id);
        }
        self.is_custom |= text_of(piece, "type") == Some("custom");
        let (function, arguments) = match piece.get("custom") {
            Some(custom) => (Some(custom), "input"),
            None => (piece.get("function"), "arguments"),
        };
        let Some(function) = function else { return Ok(()) };
        self.name.push_str(text_of(function, "name").unwrap_or_default());
        match function.get(arguments) {
            None | Some(Value::Null) => {}
            Some(Value::String(piece)) => self.arguments.push_str(piece),
            // Some servers send an object.
            Some(object @ Value::Object(_)) if self.arguments.is_empty() => {
                self.arguments = object.to_string();
            }
            Some(_) => return Err(WireError::Shape("arguments")),
        }
        Ok(())
    }

    /// The call. The input of a custom tool is one text, and becomes the argument of that name.
    fn complete(&self) -> Result<WireCall, WireError> {
        if self.name.is_empty() {
            return Err(WireError::Shape("name"));
        }
        let arguments = match (self.is_custom, self.arguments.is_empty()) {
            (true, _) => json!({ "input": self.arguments }).to_string(),
            (false, true) => "{}".to_owned(),
            (false, false) => self.arguments.clone(),
        };
        Ok(WireCall { id: self.id.clone(), name: self.name.clone(), arguments })
    }
}

/// Which of several answers a choice belongs to.
fn index_of(choice: &Value) -> u64 {
    choice.get("index").map_or(0, |index| index.as_u64().unwrap_or(u64::MAX))
}

/// An answer after `rule`; `None` if nothing of it changes.
pub(super) fn answer(
    text: &str,
    body: &Value,
    rule: &mut dyn CallRule,
) -> Result<(Option<String>, Returned), WireError> {
    let choices = body.get("choices").and_then(Value::as_array);
    let choices = choices.ok_or(WireError::Shape("choices"))?;
    usage::note(body.get("usage"), usage::openai_chat, rule);
    let Some(choice) = choices.first() else { return Ok((None, Returned::new())) };
    if choices.len() > 1 || index_of(choice) != 0 {
        rule.undecided(Undecidable::SeveralAnswers)?;
        return Ok((None, Returned::new()));
    }
    let message = choice.get("message").ok_or(WireError::Shape("message"))?;
    if says(message, "function_call") {
        rule.undecided(Undecidable::FunctionCall)?;
    }
    let said = text_of(message, "content").or_else(|| text_of(message, "refusal"));
    let said = said.unwrap_or_default();
    if !said.is_empty() {
        rule.note_text(said);
    }
    let (mut passed, mut kept, mut removed) = (Vec::new(), Vec::new(), Vec::new());
    for (at, call) in calls_of(message)?.iter().enumerate() {
        let call = call_of(call)?;
        match rule.rule(&call) {
            CallRuling::Pass => {
                passed.push(call);
                kept.push(at);
            }
            CallRuling::Replace(text) => removed.push(text),
        }
    }
    if removed.is_empty() {
        return Ok((None, returned(said.to_owned(), passed)));
    }
    let said = joined(said, &removed);
    let changed = edited(text, &said, &kept)?;
    Ok((Some(changed), returned(said, passed)))
}

fn returned(said: String, passed: Vec<WireCall>) -> Returned {
    let said = (!said.is_empty()).then(|| Block::text(WireRole::Assistant, said));
    let calls =
        passed.into_iter().map(|call| Block::new(WireRole::Assistant, BlockContent::Call(call)));
    said.into_iter().chain(calls).collect()
}

/// What was said, and then what stands for the calls.
fn joined(said: &str, removed: &[String]) -> String {
    let said = (!said.is_empty()).then_some(said);
    said.into_iter().chain(removed.iter().map(String::as_str)).collect::<Vec<_>>().join("\n\n")
}

/// The answer with `said` as its text and the calls at `kept` alone.
fn edited(text: &str, said: &str, kept: &[usize]) -> Result<String, WireError> {
    let choices = splice::member(text, "choices").ok_or(WireError::Shape("choices"))?;
    let choices = splice::elements(choices.get());
    let choice = choices.first().ok_or(WireError::Shape("choices"))?.get();
    let message = splice::member(choice, "message").ok_or(WireError::Shape("message"))?;
    let mut splices = Splices::default();
    let said = Value::from(said).to_string();
    let calls =
        splice::member(message.get(), "tool_calls").ok_or(WireError::Shape("tool_calls"))?;
    let elements = splice::elements(calls.get());
    let kept: Vec<&str> =
        kept.iter().filter_map(|at| elements.get(*at)).map(|call| call.get()).collect();
    match splice::member(message.get(), "content") {
        Some(content) => splices.replace(splice::place(text, content), said),
        None => {
            let start = splice::place(text, message).start + 1;
            splices.replace(start..start, format!("\"content\":{said},"));
        }
    }
    // Clients take an empty list for a message with calls.
    let calls_now =
        if kept.is_empty() { "null".to_owned() } else { format!("[{}]", kept.join(",")) };
    splices.replace(splice::place(text, calls), calls_now);
    if let Some(reason) = splice::member(choice, "finish_reason")
        && kept.is_empty()
        && reason.get() == "\"tool_calls\""
    {
        splices.replace(splice::place(text, reason), "\"stop\"");
    }
    Ok(splices.apply(text))
}

/// A stream of an answer. The pieces of calls may be mixed, so everything from the first on is held until the answer
/// has ended.
#[derive(Debug, Default)]
pub(super) struct Stream {
    held: Vec<(Vec<u8>, Option<Value>)>,
    held_bytes: usize,
    calls: BTreeMap<u64, GatheredCall>,
    text: String,
    is_decided: bool,
    returned: Returned,
}

impl EventFilter for Stream {
    fn event(
        &mut self,
        event: Event,
        out: &mut Vec<u8>,
        rule: &mut dyn CallRule,
    ) -> Result<(), WireError> {
        let Event { raw, data } = event;
        let Some(data) = data else {
            std::str::from_utf8(&raw).map_err(|_| WireError::Encoding)?;
            self.forward(raw, None, out);
            return Ok(());
        };
        if data.trim() == DONE {
            self.decide(out, rule)?;
            self.forward(raw, None, out);
            return Ok(());
        }
        let value = parsed(data.as_bytes())?;
        // Only if the client asked for it, and then after the last choice.
        usage::note(value.get("usage"), usage::openai_chat, rule);
        let is_finished = self.read(&value, rule)?;
        self.forward(raw, Some(value), out);
        if is_finished { self.decide(out, rule) } else { Ok(()) }
    }

    fn end(&mut self, rule: &mut dyn CallRule) {
        if !self.is_decided && !self.text.is_empty() {
            rule.note_text(&self.text);
            self.returned = returned(std::mem::take(&mut self.text), Vec::new());
        }
    }

    fn held(&self) -> usize {
        self.held_bytes
    }

    fn returned(&mut self) -> Returned {
        std::mem::take(&mut self.returned)
    }
}

impl Stream {
    /// Passes an event on, after whatever is held before it.
    fn forward(&mut self, raw: Vec<u8>, value: Option<Value>, out: &mut Vec<u8>) {
        if self.calls.is_empty() || self.is_decided {
            out.extend(raw);
        } else {
            self.held_bytes += raw.len();
            self.held.push((raw, value));
        }
    }

    /// Reads a piece. Whether it is the last one of the answer.
    fn read(&mut self, value: &Value, rule: &mut dyn CallRule) -> Result<bool, WireError> {
        let choices = match value.get("choices") {
            // Errors in a stream have no choices.
            None | Some(Value::Null) => return Ok(false),
            Some(choices) => choices.as_array().ok_or(WireError::Shape("choices"))?,
        };
        let mut is_finished = false;
        for choice in choices {
            if index_of(choice) != 0 {
                rule.undecided(Undecidable::SeveralAnswers)?;
                continue;
            }
            // A few servers put whole messages into streams.
            let delta = choice.get("delta").or_else(|| choice.get("message"));
            if let Some(delta) = delta {
                self.read_delta(delta, rule)?;
            }
            is_finished |= says(choice, "finish_reason");
        }
        Ok(is_finished)
    }

    fn read_delta(&mut self, delta: &Value, rule: &mut dyn CallRule) -> Result<(), WireError> {
        if says(delta, "function_call") {
            rule.undecided(Undecidable::FunctionCall)?;
        }
        let said = text_of(delta, "content").or_else(|| text_of(delta, "refusal"));
        self.text.push_str(said.unwrap_or_default());
        for (at, call) in calls_of(delta)?.iter().enumerate() {
            if self.is_decided {
                return Err(WireError::Shape("finish_reason"));
            }
            let index = call.get("index").and_then(Value::as_u64).unwrap_or(at as u64);
            self.calls.entry(index).or_default().add(call)?;
        }
        Ok(())
    }

    fn decide(&mut self, out: &mut Vec<u8>, rule: &mut dyn CallRule) -> Result<(), WireError> {
        if std::mem::replace(&mut self.is_decided, true) {
            return Ok(());
        }
        let said = std::mem::take(&mut self.text);
        if !said.is_empty() {
            rule.note_text(&said);
        }
        let (mut passed, mut renumbered, mut removed) = (Vec::new(), BTreeMap::new(), Vec::new());
        for (index, call) in std::mem::take(&mut self.calls) {
            let call = call.complete()?;
            match rule.rule(&call) {
                CallRuling::Pass => {
                    renumbered.insert(index, renumbered.len() as u64);
                    passed.push(call);
                }
                CallRuling::Replace(text) => removed.push(text),
            }
        }
        let held = std::mem::take(&mut self.held);
        self.held_bytes = 0;
        if removed.is_empty() {
            out.extend(held.into_iter().flat_map(|(raw, _)| raw));
        } else {
            let separator = if said.is_empty() { "" } else { "\n\n" };
            let text = format!("{separator}{}", removed.join("\n\n"));
            rewrite(held, &renumbered, &text, out);
        }
        self.returned = returned(joined(&said, &removed), passed);
        Ok(())
    }
}

/// Writes the held events with the calls in `renumbered` alone, and `text` before the end of the answer.
fn rewrite(
    held: Vec<(Vec<u8>, Option<Value>)>,
    renumbered: &BTreeMap<u64, u64>,
    text: &str,
    out: &mut Vec<u8>,
) {
    let mut text = Some(text);
    for (raw, value) in held {
        let Some(mut value) = value else {
            out.extend(raw);
            continue;
        };
        let choice = value.pointer_mut("/choices/0");
        let Some(choice) = choice.filter(|choice| choice.is_object()) else {
            out.extend(raw);
            continue;
        };
        let is_changed = keep_calls(choice, renumbered);
        let is_last = says(choice, "finish_reason");
        if is_last && renumbered.is_empty() && choice["finish_reason"] == "tool_calls" {
            choice["finish_reason"] = "stop".into();
        }
        let is_empty = choice.get("delta").is_none_or(|delta| !says_anything(delta));
        if is_last && let Some(text) = text.take() {
            out.extend(sse::written(None, &piece_of_text(&value, text)));
        }
        if is_last || !is_changed || !is_empty {
            out.extend(if is_changed || is_last { sse::written(None, &value) } else { raw });
        }
    }
}

/// A piece like `last` that says `text`.
fn piece_of_text(last: &Value, text: &str) -> Value {
    let mut piece = last.clone();
    if let Some(object) = piece.as_object_mut() {
        object.remove("usage");
    }
    piece["choices"][0]["delta"] = json!({ "content": text });
    piece["choices"][0]["finish_reason"] = Value::Null;
    piece
}

/// Takes the other calls out of a piece. Whether it had any, or numbers changed.
fn keep_calls(choice: &mut Value, renumbered: &BTreeMap<u64, u64>) -> bool {
    let calls = choice.pointer_mut("/delta/tool_calls").and_then(Value::as_array_mut);
    let Some(calls) = calls else { return false };
    let before = calls.clone();
    let mut at = 0;
    calls.retain_mut(|call| {
        let index = call.get("index").and_then(Value::as_u64).unwrap_or(at);
        at += 1;
        let new = renumbered.get(&index);
        if let (Some(new), Some(object)) = (new, call.as_object_mut()) {
            object.insert("index".into(), (*new).into());
        }
        new.is_some()
    });
    let is_changed = *calls != before;
    if calls.is_empty()
        && let Some(delta) = choice.get_mut("delta").and_then(Value::as_object_mut)
    {
        delta.remove("tool_calls");
    }
    is_changed
}

/// Whether a piece holds more than its role.
fn says_anything(delta: &Value) -> bool {
    let Some(delta) = delta.as_object() else { return false };
    delta.iter().any(|(name, value)| {
        let is_text = matches!(value, Value::String(text) if !text.is_empty());
        match name.as_str() {
            "content" | "refusal" => is_text,
            _ => !value.is_null(),
        }
    })
}
