//! Chat requests and answers.

use serde::{Deserialize, Serialize};

use super::message::{ChatMessage, ChatToolCall, ToolSpec};
use super::shape::AnswerShape;

/// A request to a chat model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatRequest {
    /// The conversation so far, oldest first.
    pub messages: Vec<ChatMessage>,
    /// The tools it may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// The token limit of the answer.
    pub max_tokens: u32,
    /// The sampling temperature, in [0, 2]; 0 always selects the most likely token.
    pub temperature: f32,
    /// The sampling seed, if the engine supports one.
    pub seed: u64,
    /// The required shape of the answer. A server may not enforce it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<AnswerShape>,
}

/// The answer of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatAnswer {
    /// The text; may be empty if tools are called.
    pub text: String,
    /// The requested tool calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ChatToolCall>,
    /// Why the generation ended.
    pub finish: FinishReason,
    /// The token usage.
    pub usage: Usage,
}

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The answer is complete.
    Done,
    /// The model called tools.
    ToolCalls,
    /// The limit [`ChatRequest::max_tokens`] or the end of the context was reached.
    Length,
    /// The vendor's content filter stopped it.
    Filtered,
    /// The caller stopped it.
    Stopped,
}

/// The token usage of one answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Prompt tokens.
    pub prompt_tokens: u64,
    /// Completion tokens.
    pub completion_tokens: u64,
}

impl Usage {
    /// Prompt and completion tokens.
    pub const fn total(&self) -> u64 {
        self.prompt_tokens + self.completion_tokens
    }
}

impl std::ops::Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            prompt_tokens: self.prompt_tokens + other.prompt_tokens,
            completion_tokens: self.completion_tokens + other.completion_tokens,
        }
    }
}

impl std::iter::Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(usages: I) -> Self {
        usages.fold(Self::default(), std::ops::Add::add)
    }
}
