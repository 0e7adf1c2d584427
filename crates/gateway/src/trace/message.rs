//! What a trace says: steps, messages and tool calls.

use serde_json::{Map, Value};

/// One message of a trace, where it stood and what it belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Its place among all messages of the trace, from 1.
    pub number: u64,
    /// The line it stood on, from 1.
    pub line: u64,
    /// The conversation it belongs to.
    pub conversation: Conversation,
    /// For a tool result: the call it answers, made earlier in the same conversation
    /// and not answered before. `None` when there is no such call; the result is then
    /// text from nobody.
    pub answers: Option<CallRef>,
    /// What was said.
    pub message: Message,
}

/// A conversation, within one trace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Conversation {
    /// The one of all single messages that name none.
    Default,
    /// The one that the trace calls so. At most 512 bytes.
    Named(String),
    /// The whole conversation of one line, without a name; counted from 1.
    Fresh(u64),
}

/// A tool call, by the step that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallRef {
    /// The calling step's [`Step::number`].
    pub step: u64,
    /// The call's index in that step's [`Message::tool_calls`].
    pub call: usize,
}

/// One message of a chat.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Who speaks, as the trace has it.
    pub role: MessageRole,
    /// Its text parts, joined by a line feed. A part that is no text stands in it as
    /// its type in brackets, such as `[image_url]`.
    pub text: String,
    /// The types of the parts that are no text, in their order: content that nobody
    /// here has read.
    pub other_parts: Vec<String>,
    /// The calls it makes, all at once.
    pub tool_calls: Vec<ToolCall>,
    /// For a tool result: the id of the call, as the trace has it.
    pub tool_call_id: Option<String>,
    /// The speaker's or the tool's name, as the trace has it.
    pub name: Option<String>,
}

/// Who speaks. Says nothing about trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageRole {
    /// `system`
    System,
    /// `developer`
    Developer,
    /// `user`
    User,
    /// `assistant`
    Assistant,
    /// `tool`, and `function` in older traces.
    Tool,
    /// Any other word.
    Unknown(String),
}

impl MessageRole {
    /// The role that `word` names.
    pub fn parse(word: String) -> Self {
        match word.as_str() {
            "system" => Self::System,
            "developer" => Self::Developer,
            "user" => Self::User,
            "assistant" => Self::Assistant,
            "tool" | "function" => Self::Tool,
            _ => Self::Unknown(word),
        }
    }

    /// Its word.
    pub fn as_str(&self) -> &str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::Unknown(word) => word,
        }
    }
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The id that its result names. `None` for an older trace's `function_call`, whose
    /// result names the function instead.
    pub id: Option<String>,
    /// The tool, as the model named it.
    pub name: String,
    /// The arguments. No key stands twice and every integer is exact (I-JSON).
    pub arguments: Map<String, Value>,
    /// The arguments as the trace has them, before parsing.
    pub arguments_raw: String,
}
