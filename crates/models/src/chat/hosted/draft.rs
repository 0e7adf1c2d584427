//! Assembles an answer from one completion or from the chunks of a stream.
//!
//! Unknown fields are ignored. Known fields must have the meaning of the protocol, and
//! missing ones are never guessed.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::chat::{ChatAnswer, ChatToolCall, FinishReason, Usage};

/// A completion, or one chunk of one.
#[derive(Debug, Deserialize)]
struct Frame {
    choices: Option<Vec<Choice>>,
    usage: Option<Counts>,
    /// Some servers report an error with a success status.
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    index: Option<u64>,
    /// In a completion.
    message: Option<MessagePart>,
    /// In a chunk.
    delta: Option<MessagePart>,
    finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct MessagePart {
    content: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallPart>>,
}

#[derive(Debug, Deserialize)]
struct CallPart {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionPart>,
}

#[derive(Debug, Default, Deserialize)]
struct FunctionPart {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Counts {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
}

/// The answer so far.
#[derive(Debug, Default)]
pub(super) struct Draft {
    text: String,
    /// The calls by their index in the stream.
    calls: BTreeMap<u64, ChatToolCall>,
    finish: Option<FinishReason>,
    usage: Option<Usage>,
}

impl Draft {
    /// Adds a complete completion.
    ///
    /// # Errors
    /// A description of the problem.
    pub(super) fn take_whole(&mut self, bytes: &[u8]) -> Result<(), String> {
        let frame: Frame = serde_json::from_slice(bytes).map_err(|error| not_an_answer(&error))?;
        let choice = self.take_frame(frame)?.ok_or("it holds no choice")?;
        let said = choice.message.ok_or("its choice holds no message")?;
        self.add(said, choice.finish_reason).map(drop)
    }

    /// Adds one chunk and returns its text.
    ///
    /// # Errors
    /// A description of the problem.
    pub(super) fn take_chunk(&mut self, data: &str) -> Result<String, String> {
        let frame: Frame = serde_json::from_str(data).map_err(|error| not_an_answer(&error))?;
        match self.take_frame(frame)? {
            Some(choice) => self.add(choice.delta.unwrap_or_default(), choice.finish_reason),
            None => Ok(String::new()),
        }
    }

    /// The token usage, if the server has reported it.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// The complete answer.
    ///
    /// # Errors
    /// A description of the missing or contradictory part.
    pub(super) fn whole(self) -> Result<ChatAnswer, String> {
        let finish = self.finish.ok_or("it ends in the middle, without a finish reason")?;
        let tool_calls: Vec<ChatToolCall> = self.calls.into_values().collect();
        let mut ids = BTreeSet::new();
        for ChatToolCall { id, name, .. } in &tool_calls {
            if id.is_empty() || name.is_empty() {
                return Err("it calls a tool without a name, or without an id".to_owned());
            }
            if !ids.insert(id) {
                return Err("two of its tool calls have one id".to_owned());
            }
        }
        let finish = match (finish, tool_calls.is_empty()) {
            // Several servers, and OpenAI's with a forced tool, report "stop" after a call.
            (FinishReason::Done, false) => FinishReason::ToolCalls,
            (FinishReason::ToolCalls, true) => {
                return Err("it says that it calls tools, and calls none".to_owned());
            }
            // An empty answer must not look like consent. A truncated answer has that finish reason.
            (FinishReason::Done, true) if self.text.is_empty() => {
                return Err("it says nothing and calls nothing".to_owned());
            }
            (finish, _) => finish,
        };
        let usage = self.usage.unwrap_or_default();
        Ok(ChatAnswer { text: self.text, tool_calls, finish, usage })
    }

    /// The answer of an interrupted model, without calls, because they may be incomplete.
    pub(super) fn stopped(self) -> ChatAnswer {
        let usage = self.usage.unwrap_or_default();
        ChatAnswer { text: self.text, tool_calls: Vec::new(), finish: FinishReason::Stopped, usage }
    }

    /// Handles the fields outside the choice and returns the choice.
    fn take_frame(&mut self, frame: Frame) -> Result<Option<Choice>, String> {
        if let Some(error) = frame.error {
            return Err(format!("it reports an error: {}", error_text(&error)));
        }
        if let Some(Counts { prompt_tokens, completion_tokens }) = frame.usage {
            self.usage = Some(Usage { prompt_tokens, completion_tokens });
        }
        let mut choices = frame.choices.ok_or("it holds no `choices`")?;
        let choice = choices.pop();
        // One was requested; several are ambiguous.
        if !choices.is_empty() || choice.as_ref().and_then(|choice| choice.index) > Some(0) {
            return Err("it holds more than one choice".to_owned());
        }
        Ok(choice)
    }

    /// Adds a message and returns its text.
    fn add(&mut self, part: MessagePart, finish_reason: Option<String>) -> Result<String, String> {
        // A refusal is in a field of its own, and the text is then empty. It is the model's answer.
        let text = part.content.unwrap_or_default() + &part.refusal.unwrap_or_default();
        let calls = part.tool_calls.unwrap_or_default();
        if self.finish.is_some() && !(text.is_empty() && calls.is_empty()) {
            return Err("it goes on after its finish reason".to_owned());
        }
        self.text.push_str(&text);
        for call in calls {
            self.add_call(call)?;
        }
        if let Some(reason) = finish_reason.filter(|reason| !reason.is_empty()) {
            let finish = finish_of(&reason)?;
            if self.finish.is_some_and(|before| before != finish) {
                return Err("it has two finish reasons".to_owned());
            }
            self.finish = Some(finish);
        }
        Ok(text)
    }

    /// Adds a part of a call to the call with its index, or as a new call.
    fn add_call(&mut self, part: CallPart) -> Result<(), String> {
        let next = self.calls.last_key_value().map_or(Some(0), |(last, _)| last.checked_add(1));
        let index = part.index.or(next).ok_or("it calls too many tools")?;
        let call = self.calls.entry(index).or_insert_with(|| ChatToolCall {
            id: String::new(),
            name: String::new(),
            arguments: String::new(),
        });
        let function = part.function.unwrap_or_default();
        set_once(&mut call.id, part.id)?;
        set_once(&mut call.name, function.name)?;
        call.arguments.push_str(&function.arguments.unwrap_or_default());
        Ok(())
    }
}

/// Sets a field of a call. Some servers repeat it with each part; it must not change.
fn set_once(field: &mut String, value: Option<String>) -> Result<(), String> {
    match value.filter(|value| !value.is_empty()) {
        Some(value) if field.is_empty() => *field = value,
        Some(value) if *field != value => {
            return Err("the parts of a tool call belong to different calls".to_owned());
        }
        Some(_) | None => {}
    }
    Ok(())
}

/// Parses a finish reason of the protocol. An unknown reason is an error, because treating it as
/// "done" could accept an incomplete answer.
fn finish_of(reason: &str) -> Result<FinishReason, String> {
    match reason {
        "stop" => Ok(FinishReason::Done),
        "length" => Ok(FinishReason::Length),
        "tool_calls" => Ok(FinishReason::ToolCalls),
        "content_filter" => Ok(FinishReason::Filtered),
        _ => Err(format!("it ends for an unknown reason: {reason}")),
    }
}

/// The message of a JSON error, or all of it.
pub(super) fn error_text(error: &Value) -> String {
    let places = ["/error/message", "/error", "/message", "/detail", ""];
    let texts = places.iter().filter_map(|place| error.pointer(place)?.as_str());
    texts.map(str::to_owned).next().unwrap_or_else(|| error.to_string())
}

fn not_an_answer(error: &serde_json::Error) -> String {
    format!("it is not the JSON that was asked for: {error}")
}

#[cfg(test)]
mod tests;
