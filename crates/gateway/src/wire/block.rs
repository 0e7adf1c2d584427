//! The blocks of a conversation: what a client sends to a model and what the model answers, in one form for all
//! dialects.

use custody_log::Digest;
use serde::Serialize;
use serde_json::Value;

use super::{WireError, text_of};

/// Who says a block, as the wire has it. A claim of the client: see `proxy/ingress.rs` for what it is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WireRole {
    /// The operator's instructions.
    System,
    /// Who uses the program, or what it says in their place.
    User,
    /// The model.
    Assistant,
    /// A tool's answer.
    Tool,
    /// A role that the dialect does not have.
    Unknown,
}

impl WireRole {
    /// Every role.
    pub const ALL: [Self; 5] =
        [Self::System, Self::User, Self::Assistant, Self::Tool, Self::Unknown];
}

/// A tool call of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WireCall {
    /// The id that the result will name.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments, as JSON text.
    pub arguments: String,
}

/// How the ids begin that are made here.
const MADE_HERE: &str = "no id ";

impl WireCall {
    /// A call to which the wire gives no id, the `number`th of its conversation.
    pub(super) fn without_id(number: usize, name: &str, arguments: String) -> Self {
        Self { id: format!("{MADE_HERE}{number} {name}"), name: name.to_owned(), arguments }
    }

    /// Whether its id was made here. Another answer may hold another call of that id, as clients leave calls out.
    pub(crate) fn has_id_made_here(&self) -> bool {
        self.id.starts_with(MADE_HERE)
    }
}

/// What a block holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockContent {
    /// Text that the model reads, or said.
    Text(String),
    /// A call that the model made.
    Call(WireCall),
    /// What a call brought back.
    Result {
        /// The id of the call.
        call: String,
        /// The text of the result. What is no text of it is described.
        text: String,
    },
    /// What is not read here, such as an image: its kind, and the digest of its JSON.
    Opaque {
        /// The kind that the wire gives it.
        kind: String,
        /// SHA-256 of its JSON.
        digest: Digest,
    },
}

/// One block, with the digest that recognises it when it is sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Who says it.
    pub role: WireRole,
    /// What it holds.
    pub content: BlockContent,
    /// SHA-256 of role and content. Of a call, over the canonical form of its arguments: clients parse and write them
    /// again.
    pub digest: Digest,
}

impl Block {
    /// A block of `content`.
    pub fn new(role: WireRole, content: BlockContent) -> Self {
        let digest = match &content {
            // Clients drop blanks around what a model said.
            BlockContent::Text(text) => digest_of(role, "text", &[text.trim()]),
            BlockContent::Call(WireCall { id, name, arguments }) => {
                digest_of(role, "call", &[id, name, &canonical_text(arguments)])
            }
            BlockContent::Result { call, text } => digest_of(role, "result", &[call, text]),
            BlockContent::Opaque { kind, digest } => {
                digest_of(role, "opaque", &[kind, &digest.to_string()])
            }
        };
        Self { role, content, digest }
    }

    /// A block of `text`.
    pub fn text(role: WireRole, text: impl Into<String>) -> Self {
        Self::new(role, BlockContent::Text(text.into()))
    }

    /// Whether it is a call to which the wire gives no id.
    pub(crate) fn is_call_without_id(&self) -> bool {
        matches!(&self.content, BlockContent::Call(call) if call.has_id_made_here())
    }

    /// A block that is not read here.
    pub fn opaque(role: WireRole, value: &Value) -> Self {
        Self::new(role, opaque(value))
    }
}

/// What is not read of a block, without the mark that only says what a vendor may cache.
pub(super) fn opaque(value: &Value) -> BlockContent {
    let kind = value.get("type").and_then(Value::as_str).unwrap_or("unknown").to_owned();
    let mut value = value.clone();
    if let Some(object) = value.as_object_mut() {
        object.remove("cache_control");
    }
    BlockContent::Opaque { kind, digest: Digest::of(canonical(&value).as_bytes()) }
}

/// The text of a result. What is no text of it is described: nobody knows what a model reads in it.
pub(super) fn result_text(content: Option<&Value>) -> Result<String, WireError> {
    match content {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) => Ok(parts.iter().map(part_text).collect::<Vec<_>>().join("\n")),
        Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
            Err(WireError::Shape("content"))
        }
    }
}

fn part_text(part: &Value) -> String {
    match (text_of(part, "type"), text_of(part, "text")) {
        (Some("text" | "input_text" | "output_text"), Some(text)) => text.to_owned(),
        _ => match opaque(part) {
            BlockContent::Opaque { kind, digest } => format!("[{kind} {digest}]"),
            BlockContent::Text(_) | BlockContent::Call(_) | BlockContent::Result { .. } => {
                String::new()
            }
        },
    }
}

fn digest_of(role: WireRole, kind: &str, parts: &[&str]) -> Digest {
    // Written as JSON, so that no two blocks have the same bytes.
    let written = serde_json::to_vec(&(role, kind, parts)).unwrap_or_default();
    Digest::of(&written)
}

/// One form of a value, whatever the order of its members (RFC 8785).
fn canonical(value: &Value) -> String {
    serde_json_canonicalizer::to_string(value).unwrap_or_else(|_| value.to_string())
}

fn canonical_text(arguments: &str) -> String {
    match serde_json::from_str::<Value>(arguments) {
        Ok(value) => canonical(&value),
        Err(_) => arguments.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_recognised_however_its_arguments_are_written_and_by_nobody_else() {
        let call = |id: &str, arguments: &str| {
            let (id, name, arguments) = (id.into(), "send".into(), arguments.into());
            Block::new(WireRole::Assistant, BlockContent::Call(WireCall { id, name, arguments }))
                .digest
        };
        assert_eq!(call("1", r#"{"b":1,"a":2}"#), call("1", r#"{ "a": 2, "b": 1 }"#));
        assert_ne!(call("1", r#"{"a":2}"#), call("2", r#"{"a":2}"#));
        assert_ne!(call("1", r#"{"a":2}"#), call("1", r#"{"a":3}"#));
        let texts: Vec<_> =
            WireRole::ALL.into_iter().map(|role| Block::text(role, "same").digest).collect();
        for (at, digest) in texts.iter().enumerate() {
            assert!(!texts.iter().skip(at + 1).any(|other| other == digest), "roles differ");
        }
    }

    #[test]
    fn a_cache_mark_does_not_make_a_block_another() {
        let image = serde_json::json!({"type": "image", "source": {"data": "AA=="}});
        let mut marked = image.clone();
        marked["cache_control"] = serde_json::json!({"type": "ephemeral"});
        assert_eq!(Block::opaque(WireRole::User, &image), Block::opaque(WireRole::User, &marked));
    }
}
