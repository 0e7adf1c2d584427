use serde_json::json;

use super::*;

fn whole(answer: &Value) -> Result<ChatAnswer, String> {
    let mut draft = Draft::default();
    draft.take_whole(answer.to_string().as_bytes())?;
    draft.whole()
}

fn choice(message: &Value, finish_reason: &Value) -> Value {
    json!({"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]})
}

/// The pieces of text of some chunks, and the answer.
fn streamed(chunks: &[Value]) -> Result<(Vec<String>, ChatAnswer), String> {
    let mut draft = Draft::default();
    let pieces: Result<Vec<_>, _> =
        chunks.iter().map(|chunk| draft.take_chunk(&chunk.to_string())).collect();
    Ok((pieces?, draft.whole()?))
}

fn chunk(delta: &Value, finish_reason: &Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})
}

fn call(id: &str, name: &str, arguments: &str) -> ChatToolCall {
    ChatToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }
}

#[test]
fn a_whole_answer_is_read_whatever_else_stands_in_it() {
    let answer = json!({
        "id": "1", "object": "chat.completion", "created": 0, "model": "x", "system_fingerprint": null, "error": null,
        "choices": [{"index": 0, "logprobs": null, "finish_reason": "stop", "stop_reason": null,
            "message": {"role": "assistant", "content": "hello", "refusal": null, "reasoning_content": "hm",
                "tool_calls": null, "annotations": []}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 1}},
    });
    let usage = Usage { prompt_tokens: 3, completion_tokens: 2 };
    let expected = ChatAnswer {
        text: "hello".into(),
        tool_calls: Vec::new(),
        finish: FinishReason::Done,
        usage,
    };
    assert_eq!(whole(&answer), Ok(expected));
}

#[test]
fn a_finish_reason_is_known_or_there_is_no_answer() {
    let cases = [
        (json!("stop"), Ok(FinishReason::Done)),
        (json!("length"), Ok(FinishReason::Length)),
        (json!("content_filter"), Ok(FinishReason::Filtered)),
        (json!("tool_calls"), Err("it says that it calls tools, and calls none")),
        (json!("eos"), Err("it ends for an unknown reason: eos")),
        (json!("STOP"), Err("it ends for an unknown reason: STOP")),
        (json!(""), Err("it ends in the middle, without a finish reason")),
        (json!(null), Err("it ends in the middle, without a finish reason")),
    ];
    for (reason, expected) in cases {
        let finish = whole(&choice(&json!({"content": "a"}), &reason)).map(|answer| answer.finish);
        assert_eq!(finish, expected.map_err(str::to_owned), "{reason}");
    }
}

#[test]
fn silence_is_no_answer_unless_it_was_cut_off() {
    let silent = Err("it says nothing and calls nothing".to_owned());
    for message in [json!({}), json!({"content": null}), json!({"content": "", "refusal": ""})] {
        assert_eq!(whole(&choice(&message, &json!("stop"))), silent, "{message}");
        let cut = whole(&choice(&message, &json!("length"))).unwrap();
        assert_eq!((cut.text.as_str(), cut.finish), ("", FinishReason::Length));
    }
}

#[test]
fn a_refusal_is_what_the_model_says() {
    let message = json!({"content": null, "refusal": "I will not."});
    assert_eq!(whole(&choice(&message, &json!("stop"))).unwrap().text, "I will not.");
    let chunks = [
        chunk(&json!({"refusal": "I will"}), &json!(null)),
        chunk(&json!({"refusal": " not."}), &json!("stop")),
    ];
    let (pieces, answer) = streamed(&chunks).unwrap();
    assert_eq!(pieces, ["I will", " not."]);
    assert_eq!(answer.text, "I will not.");
}

#[test]
fn calls_are_read_in_one_piece() {
    let answer = whole_calls(&call_of("1", "time"), &call_of("2", "date")).unwrap();
    assert_eq!(answer.tool_calls, [call("1", "time", "{}"), call("2", "date", "{}")]);
    assert_eq!(answer.finish, FinishReason::ToolCalls);
    for (first, second) in [
        (call_of("1", "time"), call_of("1", "date")),
        (call_of("", "time"), call_of("2", "date")),
        (call_of("1", "time"), call_of("2", "")),
        (call_of("1", "time"), json!({"id": "2"})),
    ] {
        assert!(whole_calls(&first, &second).is_err(), "{first} {second}");
    }
}

fn call_of(id: &str, name: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}})
}

fn whole_calls(first: &Value, second: &Value) -> Result<ChatAnswer, String> {
    whole(&choice(&json!({"content": null, "tool_calls": [first, second]}), &json!("stop")))
}

fn call_part(index: u64, id: &Value, name: &Value, arguments: &str) -> Value {
    let function = json!({"name": name, "arguments": arguments});
    chunk(&json!({"tool_calls": [{"index": index, "id": id, "function": function}]}), &json!(null))
}

#[test]
fn calls_are_put_together_by_their_index() {
    let chunks = [
        chunk(&json!({"role": "assistant", "content": null}), &json!(null)),
        call_part(1, &json!("b"), &json!("date"), ""),
        call_part(0, &json!("a"), &json!("time"), "{\"zone\""),
        call_part(1, &json!(null), &json!(null), "{}"),
        call_part(0, &json!("a"), &json!("time"), ": 1}"),
        chunk(&json!({}), &json!("tool_calls")),
        json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}),
    ];
    let (pieces, answer) = streamed(&chunks).unwrap();
    assert_eq!(pieces.concat(), "");
    let expected = [call("a", "time", "{\"zone\": 1}"), call("b", "date", "{}")];
    assert_eq!(answer.tool_calls, expected);
    assert_eq!(answer.usage, Usage { prompt_tokens: 1, completion_tokens: 2 });
    for (id, name) in [("x", "time"), ("a", "date")] {
        let chunks = [
            call_part(0, &json!("a"), &json!("time"), "{}"),
            call_part(0, &json!(id), &json!(name), "{}"),
            chunk(&json!({}), &json!("tool_calls")),
        ];
        let said = streamed(&chunks).unwrap_err();
        assert_eq!(said, "the parts of a tool call belong to different calls");
    }
}

#[test]
fn what_is_no_answer_is_refused_with_what_is_wrong() {
    let message = json!({"content": "a"});
    let cases = [
        (json!({}), "it holds no `choices`"),
        (json!({"choices": null}), "it holds no `choices`"),
        (json!({"choices": []}), "it holds no choice"),
        (json!({"choices": [{"finish_reason": "stop"}]}), "its choice holds no message"),
        (
            json!({"choices": [{"message": message}, {"message": message}]}),
            "it holds more than one",
        ),
        (json!({"choices": [{"index": 1, "message": message}]}), "it holds more than one choice"),
        (json!({"error": {"message": "overloaded"}}), "it reports an error: overloaded"),
        (json!({"error": "overloaded", "choices": []}), "it reports an error: overloaded"),
        (json!({"choices": "a"}), "it is not the JSON that was asked for"),
        (choice(&json!({"content": 1}), &json!("stop")), "it is not the JSON that was asked for"),
        (
            choice(&json!({"content": ["a"]}), &json!("stop")),
            "it is not the JSON that was asked for",
        ),
        (choice(&message, &json!(1)), "it is not the JSON that was asked for"),
        (json!({"choices": [], "usage": {"prompt_tokens": -1}}), "it is not the JSON"),
        (json!([]), "it is not the JSON that was asked for"),
        (json!(null), "it is not the JSON that was asked for"),
    ];
    for (answer, expected) in cases {
        let said = whole(&answer).unwrap_err();
        assert!(said.starts_with(expected), "{answer}: {said}");
    }
    let nested = "[".repeat(100_000);
    assert!(Draft::default().take_whole(nested.as_bytes()).is_err());
}

#[test]
fn a_stream_ends_once() {
    let (a, stop, none) = (json!({"content": "a"}), json!("stop"), json!(null));
    let again = [chunk(&a, &stop), chunk(&json!({"content": ""}), &stop)];
    assert_eq!(streamed(&again).unwrap().1.text, "a");
    let cases = [
        (vec![chunk(&a, &none)], "it ends in the middle, without a finish reason"),
        (vec![chunk(&a, &stop), chunk(&a, &none)], "it goes on after its finish reason"),
        (vec![chunk(&a, &stop), chunk(&json!({}), &json!("length"))], "it has two finish reasons"),
    ];
    for (chunks, expected) in cases {
        assert_eq!(streamed(&chunks).unwrap_err(), expected);
    }
}

#[test]
fn an_error_is_told_in_its_own_words() {
    let cases = [
        (json!({"error": {"message": "no such model", "code": 1}}), "no such model"),
        (json!({"error": "no such model"}), "no such model"),
        (json!({"message": "no such model"}), "no such model"),
        (json!({"detail": "no such model"}), "no such model"),
        (json!("no such model"), "no such model"),
        (json!({"error": {"code": 1}}), "{\"error\":{\"code\":1}}"),
    ];
    for (error, expected) in cases {
        assert_eq!(error_text(&error), expected);
    }
}
