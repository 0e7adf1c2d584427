//! Chat messages and tool calls.

use serde::{Deserialize, Serialize};

/// The author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChatRole {
    /// The operator.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool, as the result of a call.
    Tool,
}

impl ChatRole {
    /// The name of the role in the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatMessage {
    /// The author.
    pub role: ChatRole,
    /// The text; empty if an assistant only calls tools.
    pub content: String,
    /// The tool calls of an assistant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ChatToolCall>,
    /// For a tool: the id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

/// A tool call that a model requests. It has not been executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatToolCall {
    /// The id of this call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as the model wrote them: unchecked JSON.
    pub arguments: String,
}

/// The description of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: serde_json::Value,
}

impl ChatMessage {
    /// A message without tools.
    pub fn new(role: ChatRole, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), tool_calls: Vec::new(), tool_call_id: None }
    }
}

/// The texts of these messages that others wrote; the assistant's own are not attacks on it.
pub fn texts_to_assistant(turns: &[ChatMessage]) -> Vec<&str> {
    let theirs = turns.iter().filter(|turn| matches!(turn.role, ChatRole::User | ChatRole::Tool));
    theirs.map(|turn| turn.content.as_str()).collect()
}
