//! Google's `generateContent` and `streamGenerateContent`: `POST /v1beta/models/MODEL:generateContent`.
//!
//! `part`: the parts that requests and answers are made of. `answer`: an answer, whole or as a stream.
//!
//! Google reads the names of members in two spellings, and so does this. Calls seldom have ids: such a call is known by
//! its place among those of the conversation, which is the same each time that it is sent.
//!
//! Source: Gemini API reference, "Generating content" (<https://ai.google.dev/api/generate-content>).

mod answer;
mod part;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use serde_json::{Value, json};

use self::part::{Part, members, part_of, written_in_two_ways};
use super::block::{Block, BlockContent, WireCall, WireRole};
use super::{ModelRequest, Undecidable, WireError, offered};

pub(super) use answer::{Stream, answer};

pub(super) fn request(body: &Value) -> Result<ModelRequest, WireError> {
    let mut reader = Reader::default();
    if let Some(stored) = written_in_two_ways(body, "cachedContent")? {
        // Nobody sees here what the model reads of it.
        let stored = json!({ "type": "cachedContent", "value": stored });
        reader.blocks.push(Block::opaque(WireRole::Unknown, &stored));
    }
    match written_in_two_ways(body, "systemInstruction")? {
        None => {}
        Some(Value::String(text)) => reader.blocks.push(Block::text(WireRole::System, text)),
        Some(content) => reader.read_parts(WireRole::System, content)?,
    }
    let contents = body.get("contents").and_then(Value::as_array);
    for content in contents.ok_or(WireError::Shape("contents"))? {
        reader.read(content)?;
    }
    reader.end_text();
    let (undecidable, tools) = (undecidable(body)?, offered::gemini(body));
    let (blocks, is_streamed, model) = (reader.blocks, false, None);
    Ok(ModelRequest { blocks, is_streamed, undecidable, model, tools })
}

fn undecidable(body: &Value) -> Result<BTreeSet<Undecidable>, WireError> {
    let mut found = BTreeSet::new();
    if written_in_two_ways(body, "cachedContent")?.is_some() {
        found.insert(Undecidable::StoredConversation);
    }
    if let Some(config) = written_in_two_ways(body, "generationConfig")? {
        let answers = written_in_two_ways(config, "candidateCount")?;
        if answers.is_some_and(|answers| answers.as_u64() != Some(1)) {
            found.insert(Undecidable::SeveralAnswers);
        }
    }
    let tools = match body.get("tools") {
        Some(tool @ Value::Object(_)) => std::slice::from_ref(tool),
        tools => tools.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default(),
    };
    for (name, _) in tools.iter().flat_map(members) {
        match name.as_str() {
            // The client runs these, so their calls come by here.
            "functionDeclarations" | "computerUse" => None,
            "mcpServers" => Some(Undecidable::VendorMcp),
            _ => Some(Undecidable::VendorTool),
        }
        .map(|what| found.insert(what));
    }
    Ok(found)
}

/// An error in Google's form.
pub(super) fn error(kind: &str, message: &str) -> Value {
    let (code, status) = match kind {
        "invalid_request_error" => (400, "INVALID_ARGUMENT"),
        "authentication_error" => (401, "UNAUTHENTICATED"),
        "permission_error" => (403, "PERMISSION_DENIED"),
        _ => (503, "UNAVAILABLE"),
    };
    json!({ "error": { "code": code, "message": message, "status": status } })
}

/// Reads the contents of a request, one after the other.
#[derive(Debug, Default)]
struct Reader {
    blocks: Vec<Block>,
    /// What the model said in parts that follow one another. Clients cut a stream's text as it came, or not at all.
    text: String,
    /// How many calls had no id.
    calls_without_id: usize,
    open: OpenCalls,
    is_in_turn: bool,
}

/// The calls of the turn that results answer.
#[derive(Debug, Default)]
struct OpenCalls {
    ids: HashSet<String>,
    answered: HashSet<String>,
    by_name: HashMap<String, VecDeque<String>>,
}

impl OpenCalls {
    fn note(&mut self, call: &WireCall) {
        self.ids.insert(call.id.clone());
        self.by_name.entry(call.name.clone()).or_default().push_back(call.id.clone());
    }

    /// The id of the call that a result of `name` belongs to: by the id that it gives, or else the first of that name
    /// that has none.
    fn answer(&mut self, id: Option<&str>, name: &str) -> String {
        if let Some(id) = id.filter(|id| self.ids.contains(*id)) {
            self.answered.insert(id.to_owned());
            return id.to_owned();
        }
        if let Some(waiting) = self.by_name.get_mut(name) {
            while let Some(call) = waiting.pop_front() {
                if !self.answered.contains(&call) {
                    return call;
                }
            }
        }
        id.unwrap_or_default().to_owned()
    }
}

impl Reader {
    fn read(&mut self, content: &Value) -> Result<(), WireError> {
        let role = match content.get("role") {
            None | Some(Value::Null) => WireRole::User,
            Some(role) => match role.as_str().ok_or(WireError::Shape("role"))? {
                "user" | "" => WireRole::User,
                "model" => WireRole::Assistant,
                "function" | "tool" => WireRole::Tool,
                "system" => WireRole::System,
                _ => WireRole::Unknown,
            },
        };
        if role == WireRole::Assistant && !std::mem::replace(&mut self.is_in_turn, true) {
            self.open = OpenCalls::default();
        }
        self.is_in_turn = role == WireRole::Assistant;
        if !self.is_in_turn {
            self.end_text();
        }
        self.read_parts(role, content)
    }

    fn read_parts(&mut self, role: WireRole, content: &Value) -> Result<(), WireError> {
        let parts = match content.get("parts") {
            None | Some(Value::Null) => return Ok(()),
            Some(parts) => parts.as_array().ok_or(WireError::Shape("parts"))?,
        };
        for part in parts {
            match part_of(part)? {
                Part::Nothing => {}
                Part::Thought(_) if role == WireRole::Assistant => {}
                Part::Text(text) | Part::Thought(text) if role == WireRole::Assistant => {
                    self.text.push_str(text);
                }
                Part::Text(text) | Part::Thought(text) => self.push(Block::text(role, text)),
                Part::Call { id, name, arguments } => {
                    let number = self.calls_without_id;
                    self.calls_without_id += usize::from(id.is_none());
                    let call = named(id, number, name, arguments);
                    self.open.note(&call);
                    self.push(Block::new(role, BlockContent::Call(call)));
                }
                Part::Result { id, name, text } => {
                    let call = self.open.answer(id, name);
                    self.push(Block::new(WireRole::Tool, BlockContent::Result { call, text }));
                }
                Part::Content(what) | Part::Undecided(_, what) => {
                    self.push(Block::opaque(role, &what));
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, block: Block) {
        self.end_text();
        self.blocks.push(block);
    }

    fn end_text(&mut self) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            self.blocks.push(Block::text(WireRole::Assistant, text));
        }
    }
}

/// A call with its id, or under its place among those that have none.
fn named(id: Option<&str>, number: usize, name: &str, arguments: String) -> WireCall {
    match id {
        Some(id) => WireCall { id: id.to_owned(), name: name.to_owned(), arguments },
        None => WireCall::without_id(number, name, arguments),
    }
}
