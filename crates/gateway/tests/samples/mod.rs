//! One answer in every dialect, whole and as a stream, and how a client puts it together.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]
#![allow(dead_code, reason = "each test file uses part of it")]

use custody_gateway::wire::Dialect;
use serde_json::{Value, json};

/// An answer that says `Hm.` and calls two tools.
pub(crate) fn whole(dialect: Dialect) -> String {
    match dialect {
        Dialect::OpenAiChat => r#"{ "id":"c1", "choices":[{"index":0, "message":{"role":"assistant","content":"Hm.","tool_calls":[{"id":"a","type":"function","function":{"name":"read","arguments":"{\"n\": 1}"}}, {"id":"b","type":"function","function":{"name":"send","arguments":"{\"to\":\"é\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"total_tokens":1.50} }"#,
        Dialect::OpenAiResponses => r#"{ "id":"r1","object":"response","status":"completed", "output":[{"type":"reasoning","id":"rs1","summary":[],"encrypted_content":"s"},{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hm.","annotations":[]}]},{"type":"function_call","id":"fc_a","call_id":"a","name":"read","arguments":"{\"n\": 1}","status":"completed"}, {"type":"function_call","id":"fc_b","call_id":"b","name":"send","arguments":"{\"to\":\"é\"}","status":"completed"}],"usage":{"total_tokens":1.50} }"#,
        Dialect::Gemini => r#"{ "candidates":[{"index":0, "content":{"role":"model","parts":[{"text":"…","thought":true},{"text":"Hm."},{"functionCall":{"name":"read","args":{"n": 1}},"thoughtSignature":"s"}, {"functionCall":{"name":"send","args":{"to":"é"}}}]},"finishReason":"STOP"}],"usageMetadata":{"totalTokenCount":1.50} }"#,
        Dialect::AnthropicMessages => r#"{ "id":"m1","type":"message", "content":[{"type":"thinking","thinking":"…","signature":"s"},{"type":"text","text":"Hm."},{"type":"tool_use","id":"a","name":"read","input":{"n": 1}}, {"type":"tool_use","id":"b","name":"send","input":{"to":"é"}}],"stop_reason":"tool_use","usage":{"output_tokens":1.50} }"#,
    }
    .to_owned()
}

/// The same as a stream, the pieces of both calls mixed where the dialect allows it.
pub(crate) fn stream(dialect: Dialect) -> Vec<u8> {
    let events: Vec<(Option<String>, String)> = match dialect {
        Dialect::OpenAiChat => [
            r#"{"id":"c1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
            r#"{"id":"c1","choices":[{"index":0,"delta":{"content":"Hm."},"finish_reason":null}]}"#,
            r#"{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"read","arguments":""}}]},"finish_reason":null}]}"#,
            r#"{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"send","arguments":"{\"to\":"}}]},"finish_reason":null}]}"#,
            r#"{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"n\": 1}"}}]},"finish_reason":null}]}"#,
            r#"{"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"\"é\"}"}}]},"finish_reason":null}]}"#,
            r#"{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
            r#"{"id":"c1","choices":[],"usage":{"total_tokens":1}}"#,
            "[DONE]",
        ]
        .map(|data| (None, data.to_owned()))
        .to_vec(),
        Dialect::OpenAiResponses => responses_events()
            .iter()
            .map(|event| (event["type"].as_str().map(str::to_owned), event.to_string()))
            .collect(),
        Dialect::Gemini => [
            r#"{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"…","thought":true}]}}]}"#,
            r#"{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"H"}]}}]}"#,
            r#"{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"m."}]}}]}"#,
            r#"{"candidates":[{"index":0,"content":{"role":"model","parts":[{"functionCall":{"name":"read","args":{"n": 1}},"thoughtSignature":"s"}]}}]}"#,
            r#"{"candidates":[{"index":0,"content":{"role":"model","parts":[{"functionCall":{"name":"send","args":{"to":"é"}}}]},"finishReason":"STOP"}],"usageMetadata":{"totalTokenCount":1}}"#,
        ]
        .map(|data| (None, data.to_owned()))
        .to_vec(),
        Dialect::AnthropicMessages => [
            ("message_start", r#"{"type":"message_start","message":{"id":"m1","content":[]}}"#),
            ("content_block_start", r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#),
            ("content_block_delta", r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hm."}}"#),
            ("content_block_stop", r#"{"type":"content_block_stop","index":0}"#),
            ("content_block_start", r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"read","input":{}}}"#),
            ("content_block_delta", r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}"#),
            ("ping", r#"{"type":"ping"}"#),
            ("content_block_delta", r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"n\": 1}"}}"#),
            ("content_block_stop", r#"{"type":"content_block_stop","index":1}"#),
            ("content_block_start", r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"b","name":"send","input":{}}}"#),
            ("content_block_delta", r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"to\":\"é\"}"}}"#),
            ("content_block_stop", r#"{"type":"content_block_stop","index":2}"#),
            ("message_delta", r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}"#),
            ("message_stop", r#"{"type":"message_stop"}"#),
        ]
        .map(|(name, data)| (Some(name.to_owned()), data.to_owned()))
        .to_vec(),
    };
    let written = events.into_iter().map(|(name, data)| {
        format!("{}data: {data}\n\n", name.map_or(String::new(), |name| format!("event: {name}\n")))
    });
    written.collect::<String>().into_bytes()
}

/// The events of a stream of responses, numbered.
pub(crate) fn responses_events() -> Vec<Value> {
    let whole: Value = serde_json::from_str(&whole(Dialect::OpenAiResponses)).unwrap();
    let mut begun = whole.clone();
    (begun["status"], begun["output"]) = ("in_progress".into(), json!([]));
    let mut events = vec![
        json!({"type": "response.created", "response": begun}),
        json!({"type": "response.in_progress", "response": begun}),
    ];
    for (at, item) in whole["output"].as_array().unwrap().iter().enumerate() {
        events.extend(item_events(at, item));
    }
    events.push(json!({"type": "response.completed", "response": whole}));
    numbered(events)
}

/// The events of one item.
pub(crate) fn item_events(at: usize, item: &Value) -> Vec<Value> {
    let mut begun = item.clone();
    begun["status"] = "in_progress".into();
    let id = &item["id"];
    let between = match item["type"].as_str().unwrap() {
        "message" => {
            begun["content"] = json!([]);
            let text = item["content"][0]["text"].as_str().unwrap();
            let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
            vec![
                json!({"type": "response.content_part.added", "item_id": id, "output_index": at, "content_index": 0, "part": part("")}),
                json!({"type": "response.output_text.delta", "item_id": id, "output_index": at, "content_index": 0, "delta": text}),
                json!({"type": "response.output_text.done", "item_id": id, "output_index": at, "content_index": 0, "text": text}),
                json!({"type": "response.content_part.done", "item_id": id, "output_index": at, "content_index": 0, "part": part(text)}),
            ]
        }
        "function_call" => {
            begun["arguments"] = "".into();
            let arguments = item["arguments"].as_str().unwrap();
            let (first, rest) = arguments.split_at(4);
            vec![
                json!({"type": "response.function_call_arguments.delta", "item_id": id, "output_index": at, "delta": first}),
                json!({"type": "response.function_call_arguments.delta", "item_id": id, "output_index": at, "delta": rest}),
                json!({"type": "response.function_call_arguments.done", "item_id": id, "output_index": at, "arguments": arguments}),
            ]
        }
        _ => Vec::new(),
    };
    let mut events =
        vec![json!({"type": "response.output_item.added", "output_index": at, "item": begun})];
    events.extend(between);
    events.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
    events
}

pub(crate) fn numbered(mut events: Vec<Value>) -> Vec<Value> {
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = number.into();
    }
    events
}

/// Events as they are sent.
pub(crate) fn written(events: &[Value]) -> Vec<u8> {
    let written = events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()));
    written.collect::<String>().into_bytes()
}

/// A stream as a client puts it together: its text, its calls, and how it ended.
pub(crate) fn assembled(
    dialect: Dialect,
    stream: &[u8],
) -> (String, Vec<(String, String)>, Option<String>) {
    let text = std::str::from_utf8(stream).unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let (mut said, mut calls, mut end) = (String::new(), Vec::new(), None);
    for value in data.filter_map(|data| serde_json::from_str::<Value>(data).ok()) {
        match dialect {
            Dialect::OpenAiChat => {
                let choice = &value["choices"][0];
                said.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
                for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
                    let index = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
                    assert!(index <= calls.len(), "numbers without gaps");
                    if index == calls.len() {
                        let name = call["function"]["name"].as_str().unwrap();
                        calls.push((name.to_owned(), String::new()));
                    }
                    calls[index].1 += call["function"]["arguments"].as_str().unwrap_or_default();
                }
                end = choice["finish_reason"].as_str().map(str::to_owned).or(end);
            }
            Dialect::OpenAiResponses => match value["type"].as_str().unwrap() {
                "response.output_item.added" if value["item"]["type"] == "function_call" => {
                    calls.push((value["item"]["name"].as_str().unwrap().to_owned(), String::new()));
                }
                "response.output_text.delta" => said.push_str(value["delta"].as_str().unwrap()),
                "response.function_call_arguments.delta" => {
                    calls.last_mut().unwrap().1 += value["delta"].as_str().unwrap();
                }
                "response.completed" => {
                    end = value["response"]["status"].as_str().map(str::to_owned);
                }
                _ => {}
            },
            Dialect::Gemini => {
                let candidate = &value["candidates"][0];
                for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
                    let is_thought = part["thought"] == true;
                    let text = part["text"].as_str().filter(|_| !is_thought);
                    said.push_str(text.unwrap_or_default());
                    if let Some(name) = part["functionCall"]["name"].as_str() {
                        calls.push((name.to_owned(), part["functionCall"]["args"].to_string()));
                    }
                }
                end = candidate["finishReason"].as_str().map(str::to_owned).or(end);
            }
            Dialect::AnthropicMessages => {
                if value["content_block"]["type"] == "tool_use" {
                    let name = value["content_block"]["name"].as_str().unwrap();
                    calls.push((name.to_owned(), String::new()));
                }
                said.push_str(value["delta"]["text"].as_str().unwrap_or_default());
                if let Some(piece) = value["delta"]["partial_json"].as_str() {
                    calls.last_mut().unwrap().1 += piece;
                }
                end = value["delta"]["stop_reason"].as_str().map(str::to_owned).or(end);
            }
        }
    }
    (said, calls, end)
}
