//! A question to a model, and its answer.

use serde::{Deserialize, Serialize};

use super::message::{ChatMessage, ChatToolCall, ToolSpec};
use super::shape::AnswerShape;

/// What a model is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatRequest {
    /// The conversation so far, oldest first.
    pub messages: Vec<ChatMessage>,
    /// The tools it may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// The longest answer, in tokens.
    pub max_tokens: u32,
    /// 0 takes the most likely token every time; more leaves more to chance. In [0, 2].
    pub temperature: f32,
    /// Decides what chance decides, where the engine lets it.
    pub seed: u64,
    /// What the answer must look like. A server may not keep to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<AnswerShape>,
}

/// What a model said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatAnswer {
    /// The text; may be empty when tools are called.
    pub text: String,
    /// The calls it wants made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ChatToolCall>,
    /// Why it ended.
    pub finish: FinishReason,
    /// What it cost.
    pub usage: Usage,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model was done.
    Done,
    /// It called tools and waits.
    ToolCalls,
    /// It came to [`ChatRequest::max_tokens`], or to the end of its context.
    Length,
    /// The vendor's own filter cut it.
    Filtered,
    /// Whoever asked broke it off.
    Stopped,
}

/// Tokens of one answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Read.
    pub prompt_tokens: u64,
    /// Written.
    pub completion_tokens: u64,
}

impl Usage {
    /// Read and written.
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
