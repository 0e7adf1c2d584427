//! The body of a request.

use serde::Serialize;
use serde_json::Value;

use super::options::{HostedOptions, TokenLimitField};
use crate::chat::{AnswerShape, ChatMessage, ChatRequest, ChatRole, ChatToolCall, ToolSpec};

/// The largest seed that every JSON parser represents exactly.
const HIGHEST_SEED: u64 = (1 << 53) - 1;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    temperature: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Format>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// What an answer must look like.
#[derive(Serialize)]
struct Format {
    r#type: &'static str,
    json_schema: SchemaFormat,
}

#[derive(Serialize)]
struct SchemaFormat {
    name: &'static str,
    strict: bool,
    schema: Value,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: ChatRole,
    /// `null` if an assistant only calls tools, because some vendors reject an empty text.
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: CalledFunction<'a>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    arguments: &'a str,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: &'a ToolSpec,
}

/// The request as JSON.
///
/// # Errors
/// A description of the problem.
pub(super) fn body(
    request: &ChatRequest,
    options: &HostedOptions,
    stream: bool,
) -> Result<Vec<u8>, String> {
    check(request)?;
    let max_tokens = Some(request.max_tokens);
    let (max_tokens, max_completion_tokens) = match options.token_limit_field {
        TokenLimitField::MaxTokens => (max_tokens, None),
        TokenLimitField::MaxCompletionTokens => (None, max_tokens),
    };
    let body = Body {
        model: &options.model,
        messages: request.messages.iter().map(turn).collect(),
        tools: request
            .tools
            .iter()
            .map(|tool| Tool { r#type: "function", function: tool })
            .collect(),
        max_tokens,
        max_completion_tokens,
        temperature: request.temperature,
        seed: options.is_seed_sent.then_some(request.seed & HIGHEST_SEED),
        response_format: request.shape.as_ref().map(format),
        stream,
        stream_options: stream.then_some(StreamOptions { include_usage: true }),
    };
    serde_json::to_vec(&body).map_err(|error| error.to_string())
}

fn format(shape: &AnswerShape) -> Format {
    let json_schema = SchemaFormat { name: "answer", strict: true, schema: shape.schema() };
    Format { r#type: "json_schema", json_schema }
}

fn turn(message: &ChatMessage) -> Turn<'_> {
    let only_calls = message.content.is_empty() && !message.tool_calls.is_empty();
    Turn {
        role: message.role,
        content: (!only_calls).then_some(message.content.as_str()),
        tool_calls: message.tool_calls.iter().map(call).collect(),
        tool_call_id: message.tool_call_id.as_deref(),
    }
}

fn call(call: &ChatToolCall) -> Call<'_> {
    let function = CalledFunction { name: &call.name, arguments: &call.arguments };
    Call { id: &call.id, r#type: "function", function }
}

/// Rejects requests that servers handle differently, some without an error.
fn check(request: &ChatRequest) -> Result<(), String> {
    if request.messages.is_empty() {
        return Err("nothing is said".to_owned());
    }
    // JSON has no such numbers: they would be sent as `null`, which means the server's default.
    if !(0.0..=2.0).contains(&request.temperature) {
        return Err(format!("the temperature {} is not in [0, 2]", request.temperature));
    }
    for (at, message) in request.messages.iter().enumerate() {
        let is_answer = message.role == ChatRole::Tool;
        if is_answer != message.tool_call_id.is_some() {
            return Err(format!(
                "turn {at} must name the call it answers if a tool says it, and only then"
            ));
        }
        if message.role != ChatRole::Assistant && !message.tool_calls.is_empty() {
            return Err(format!("turn {at} calls tools and is not the assistant's"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::chat::FieldType;

    fn request() -> ChatRequest {
        ChatRequest {
            messages: vec![ChatMessage::new(ChatRole::User, "hello")],
            tools: Vec::new(),
            max_tokens: 10,
            temperature: 0.7,
            seed: 5,
            shape: None,
        }
    }

    fn sent(request: &ChatRequest, options: &HostedOptions, stream: bool) -> Value {
        serde_json::from_slice(&body(request, options, stream).unwrap()).unwrap()
    }

    #[test]
    fn a_request_has_only_the_required_fields() {
        let mut options = HostedOptions::new("https://host/v1", "small");
        let messages = json!([{"role": "user", "content": "hello"}]);
        assert_eq!(
            sent(&request(), &options, false),
            json!({"model": "small", "messages": messages, "max_tokens": 10, "temperature": 0.7, "seed": 5,
                "stream": false})
        );
        options.token_limit_field = TokenLimitField::MaxCompletionTokens;
        options.is_seed_sent = false;
        assert_eq!(
            sent(&request(), &options, true),
            json!({"model": "small", "messages": messages, "max_completion_tokens": 10, "temperature": 0.7,
                "stream": true, "stream_options": {"include_usage": true}})
        );
    }

    #[test]
    fn the_answer_shape_is_sent_as_a_schema() {
        let shape = AnswerShape { field: "intent".into(), holds: FieldType::TextOrNull };
        let options = HostedOptions::new("https://host/v1", "small");
        let sent = sent(&ChatRequest { shape: Some(shape), ..request() }, &options, false);
        let format = &sent["response_format"];
        assert_eq!(format["type"], "json_schema");
        assert_eq!(format["json_schema"]["schema"]["required"], json!(["intent"]));
        assert_eq!(format["json_schema"]["strict"], true);
    }

    #[test]
    fn calls_and_their_results_are_sent() {
        let mut request = request();
        let call = ChatToolCall { id: "1".into(), name: "time".into(), arguments: "{}".into() };
        let mut calls = ChatMessage::new(ChatRole::Assistant, "");
        calls.tool_calls = vec![call];
        let mut answer = ChatMessage::new(ChatRole::Tool, "noon");
        answer.tool_call_id = Some("1".into());
        request.messages = vec![calls, answer];
        request.tools = vec![ToolSpec {
            name: "time".into(),
            description: "tells the time".into(),
            parameters: json!({"type": "object"}),
        }];
        let sent = sent(&request, &HostedOptions::new("https://host/v1", "small"), false);
        assert_eq!(
            sent["messages"],
            json!([
                {"role": "assistant", "content": null, "tool_calls":
                    [{"id": "1", "type": "function", "function": {"name": "time", "arguments": "{}"}}]},
                {"role": "tool", "content": "noon", "tool_call_id": "1"},
            ])
        );
        assert_eq!(
            sent["tools"],
            json!([{"type": "function", "function":
                {"name": "time", "description": "tells the time", "parameters": {"type": "object"}}}])
        );
    }

    #[test]
    fn a_seed_is_sent_as_a_number_that_every_parser_represents() {
        let request = ChatRequest { seed: u64::MAX, ..request() };
        let sent = sent(&request, &HostedOptions::new("https://host/v1", "small"), false);
        assert_eq!(sent["seed"], json!(9_007_199_254_740_991_u64));
    }

    #[test]
    fn invalid_requests_are_rejected() {
        let options = HostedOptions::new("https://host/v1", "small");
        for temperature in [-0.1, 2.1, f32::NAN, f32::INFINITY] {
            let request = ChatRequest { temperature, ..request() };
            assert!(body(&request, &options, false).is_err(), "{temperature}");
        }
        assert!(body(&ChatRequest { messages: Vec::new(), ..request() }, &options, false).is_err());
        let nameless = ChatMessage::new(ChatRole::Tool, "noon");
        let mut named = ChatMessage::new(ChatRole::User, "noon");
        named.tool_call_id = Some("1".into());
        let mut calls = ChatMessage::new(ChatRole::User, "");
        calls.tool_calls =
            vec![ChatToolCall { id: "1".into(), name: "time".into(), arguments: "{}".into() }];
        for message in [nameless, named, calls] {
            let request = ChatRequest { messages: vec![message], ..request() };
            assert!(body(&request, &options, false).is_err(), "{request:?}");
        }
    }
}
