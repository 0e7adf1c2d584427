//! A request that Custody makes itself: a text, and one tool that the model has to call.
//!
//! `tool_choice` of OpenAI and Anthropic and Google's `functionCallingConfig` force the call.

use serde_json::{Value, json};

use super::{CallRule, CallRuling, Dialect, Undecidable, WireCall, WireError};

/// The longest answer that Anthropic's models may give, in tokens. The other vendors need no bound.
const MAX_TOKENS: u32 = 4_096;

/// What a model is asked, in any dialect.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForcedCall<'a> {
    /// What it is told to do.
    pub(crate) instructions: &'a str,
    /// What the user says.
    pub(crate) text: &'a str,
    /// The name of the tool.
    pub(crate) tool: &'a str,
    /// What the tool is for.
    pub(crate) description: &'a str,
    /// The JSON schema of its arguments.
    pub(crate) schema: &'a Value,
}

impl ForcedCall<'_> {
    /// The body of the request, to the model called `model` where the dialect names it there.
    pub(crate) fn body(&self, dialect: Dialect, model: Option<&str>) -> Vec<u8> {
        let mut body = match dialect {
            Dialect::OpenAiChat => self.openai_chat(),
            Dialect::OpenAiResponses => self.openai_responses(),
            Dialect::AnthropicMessages => self.anthropic(),
            Dialect::Gemini => self.gemini(),
        };
        if let (Some(model), Some(body)) = (model, body.as_object_mut())
            && dialect != Dialect::Gemini
        {
            body.insert("model".to_owned(), model.into());
        }
        body.to_string().into_bytes()
    }

    fn openai_chat(&self) -> Value {
        let Self { instructions, text, tool, description, schema } = self;
        json!({
            "messages": [
                { "role": "system", "content": instructions },
                { "role": "user", "content": text },
            ],
            "tools": [{
                "type": "function",
                "function": { "name": tool, "description": description, "parameters": schema },
            }],
            "tool_choice": { "type": "function", "function": { "name": tool } },
        })
    }

    fn openai_responses(&self) -> Value {
        let Self { instructions, text, tool, description, schema } = self;
        json!({
            "instructions": instructions,
            "input": [{ "role": "user", "content": text }],
            "tools": [{
                "type": "function", "name": tool, "description": description, "parameters": schema, "strict": false,
            }],
            "tool_choice": { "type": "function", "name": tool },
            "store": false,
        })
    }

    fn anthropic(&self) -> Value {
        let Self { instructions, text, tool, description, schema } = self;
        json!({
            "max_tokens": MAX_TOKENS,
            "system": instructions,
            "messages": [{ "role": "user", "content": text }],
            "tools": [{ "name": tool, "description": description, "input_schema": schema }],
            "tool_choice": { "type": "tool", "name": tool },
        })
    }

    fn gemini(&self) -> Value {
        let Self { instructions, text, tool, description, schema } = self;
        json!({
            "systemInstruction": { "parts": [{ "text": instructions }] },
            "contents": [{ "role": "user", "parts": [{ "text": text }] }],
            "tools": [{
                "functionDeclarations": [{ "name": tool, "description": description, "parameters": schema }],
            }],
            "toolConfig": { "functionCallingConfig": { "mode": "ANY", "allowedFunctionNames": [tool] } },
        })
    }
}

/// The arguments of the one call in an answer, if it is a call of `tool`.
///
/// # Errors
/// [`WireError`] when the answer is none of the dialect.
pub(crate) fn arguments_of(
    dialect: Dialect,
    answer: Vec<u8>,
    tool: &str,
) -> Result<Option<String>, WireError> {
    let mut calls = Calls::default();
    dialect.filter(answer, &mut calls)?;
    let mut made = calls.made.into_iter();
    Ok(match (made.next(), made.next()) {
        (Some(call), None) if call.name == tool => Some(call.arguments),
        _ => None,
    })
}

/// The calls of an answer that goes to nobody.
#[derive(Debug, Default)]
struct Calls {
    made: Vec<WireCall>,
}

impl CallRule for Calls {
    fn note_text(&mut self, _: &str) {}

    fn rule(&mut self, call: &WireCall) -> CallRuling {
        self.made.push(call.clone());
        CallRuling::Pass
    }

    fn undecided(&mut self, what: Undecidable) -> Result<(), WireError> {
        Err(WireError::Unasked(what))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Block, WireRole};
    use super::*;

    /// An answer of each dialect that calls the tool `name` with `{"a":1}`, `times` times.
    fn answer(dialect: Dialect, name: &str, times: usize) -> Vec<u8> {
        let call = match dialect {
            Dialect::OpenAiChat => json!({
                "id": "c", "type": "function", "function": { "name": name, "arguments": "{\"a\":1}" }
            }),
            Dialect::OpenAiResponses => json!({
                "type": "function_call", "id": "f", "call_id": "c", "name": name, "arguments": "{\"a\":1}",
                "status": "completed"
            }),
            Dialect::AnthropicMessages => {
                json!({ "type": "tool_use", "id": "c", "name": name, "input": { "a": 1 } })
            }
            Dialect::Gemini => json!({ "functionCall": { "name": name, "args": { "a": 1 } } }),
        };
        let calls = vec![call; times];
        match dialect {
            Dialect::OpenAiChat => json!({ "choices": [{
                "index": 0, "message": { "role": "assistant", "tool_calls": calls }, "finish_reason": "tool_calls"
            }] }),
            Dialect::OpenAiResponses => {
                json!({ "id": "r", "object": "response", "status": "completed", "output": calls })
            }
            Dialect::AnthropicMessages => json!({
                "type": "message", "role": "assistant", "content": calls, "stop_reason": "tool_use"
            }),
            Dialect::Gemini => json!({ "candidates": [{
                "content": { "role": "model", "parts": calls }, "finishReason": "STOP"
            }] }),
        }
        .to_string()
        .into_bytes()
    }

    #[test]
    fn a_request_of_each_dialect_holds_the_text_and_offers_the_tool() {
        let schema = json!({ "type": "object" });
        let asked = ForcedCall {
            instructions: "Do it.",
            text: "Mail Ann.",
            tool: "plan",
            description: "",
            schema: &schema,
        };
        for dialect in Dialect::ALL {
            let body = asked.body(dialect, Some("m-1"));
            let request = dialect.parse(&body).unwrap();
            let expected = [(WireRole::System, "Do it."), (WireRole::User, "Mail Ann.")];
            assert_eq!(request.blocks, expected.map(|(role, text)| Block::text(role, text)));
            assert_eq!(request.tools, ["plan"], "{dialect:?}");
            assert!(!request.is_streamed && request.undecidable.is_empty(), "{dialect:?}");
            let named = (dialect != Dialect::Gemini).then_some("m-1");
            assert_eq!(request.model.as_deref(), named, "{dialect:?}");
        }
    }

    #[test]
    fn an_answer_counts_that_makes_the_one_call_and_no_other() {
        for dialect in Dialect::ALL {
            let read = |name, times| arguments_of(dialect, answer(dialect, name, times), "plan");
            assert_eq!(read("plan", 1).unwrap().as_deref(), Some("{\"a\":1}"), "{dialect:?}");
            assert_eq!(read("other", 1).unwrap(), None, "{dialect:?}");
            assert_eq!(read("plan", 0).unwrap(), None, "{dialect:?}");
            assert!(read("plan", 2).map_or(true, |call| call.is_none()), "{dialect:?}");
            arguments_of(dialect, b"[]".to_vec(), "plan").unwrap_err();
        }
    }
}
