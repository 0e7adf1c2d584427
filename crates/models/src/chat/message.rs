//! What is said in a conversation.

use serde::{Deserialize, Serialize};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChatRole {
    /// The operator.
    System,
    /// The person, or whoever fills that place.
    User,
    /// The model.
    Assistant,
    /// A tool, in answer to a call.
    Tool,
}

impl ChatRole {
    /// The word of the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatMessage {
    /// Who speaks.
    pub role: ChatRole,
    /// What is said; empty when an assistant only calls tools.
    pub content: String,
    /// What an assistant calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ChatToolCall>,
    /// Of a tool: the call it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

/// A call that a model wants made. Nothing was called yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatToolCall {
    /// The model's name for this call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as the model wrote them: meant to be JSON, and not checked.
    pub arguments: String,
}

/// A tool that a model is told of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: serde_json::Value,
}

impl ChatMessage {
    /// A turn without tools.
    pub fn new(role: ChatRole, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), tool_calls: Vec::new(), tool_call_id: None }
    }
}

/// What others said to the assistant in these turns: what it said itself is no attack on it.
pub fn texts_to_assistant(turns: &[ChatMessage]) -> Vec<&str> {
    let theirs = turns.iter().filter(|turn| matches!(turn.role, ChatRole::User | ChatRole::Tool));
    theirs.map(|turn| turn.content.as_str()).collect()
}
