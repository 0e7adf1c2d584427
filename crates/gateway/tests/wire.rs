//! Answers of every dialect, whole and streamed, under every ruling: what goes on, byte for byte where nothing changes.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::collections::BTreeSet;

use custody_gateway::wire::{
    Block, BlockContent, CallRule, CallRuling, Dialect, StreamFilter, Undecidable, WireCall,
    WireError, WireRole,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const DIALECTS: [Dialect; 2] = [Dialect::OpenAiChat, Dialect::AnthropicMessages];

/// Removes the calls whose tool is named here.
#[derive(Default)]
struct Removing {
    tools: Vec<&'static str>,
    seen: Vec<String>,
}

impl CallRule for Removing {
    fn note_text(&mut self, text: &str) {
        self.seen.push(format!("said {text}"));
    }

    fn rule(&mut self, call: &WireCall) -> CallRuling {
        self.seen.push(format!("call {} {}", call.name, call.arguments));
        match self.tools.iter().any(|tool| *tool == call.name) {
            true => CallRuling::Replace(format!("no {}", call.name)),
            false => CallRuling::Pass,
        }
    }

    fn undecided(&mut self, what: Undecidable) -> Result<(), WireError> {
        self.seen.push(format!("undecided {what}"));
        Ok(())
    }
}

fn removing(tools: &[&'static str]) -> Removing {
    Removing { tools: tools.to_vec(), seen: Vec::new() }
}

/// An answer that says `Hm.` and calls two tools.
fn whole(dialect: Dialect) -> String {
    match dialect {
        Dialect::OpenAiChat => r#"{ "id":"c1", "choices":[{"index":0, "message":{"role":"assistant","content":"Hm.","tool_calls":[{"id":"a","type":"function","function":{"name":"read","arguments":"{\"n\": 1}"}}, {"id":"b","type":"function","function":{"name":"send","arguments":"{\"to\":\"é\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"total_tokens":1.50} }"#,
        Dialect::AnthropicMessages => r#"{ "id":"m1","type":"message", "content":[{"type":"thinking","thinking":"…","signature":"s"},{"type":"text","text":"Hm."},{"type":"tool_use","id":"a","name":"read","input":{"n": 1}}, {"type":"tool_use","id":"b","name":"send","input":{"to":"é"}}],"stop_reason":"tool_use","usage":{"output_tokens":1.50} }"#,
    }
    .to_owned()
}

/// The same as a stream, the pieces of both calls mixed where the dialect allows it.
fn stream(dialect: Dialect) -> Vec<u8> {
    let events: Vec<(Option<&str>, String)> = match dialect {
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
        .map(|(name, data)| (Some(name), data.to_owned()))
        .to_vec(),
    };
    let written = events.into_iter().map(|(name, data)| {
        format!("{}data: {data}\n\n", name.map_or(String::new(), |name| format!("event: {name}\n")))
    });
    written.collect::<String>().into_bytes()
}

fn through(dialect: Dialect, chunks: &[&[u8]], rule: &mut Removing) -> (Vec<u8>, Vec<Block>, bool) {
    let mut filter = StreamFilter::new(dialect);
    let (mut out, mut is_cut) = (Vec::new(), false);
    for chunk in chunks {
        let filtered = filter.push(chunk, rule);
        out.extend(filtered.bytes);
        is_cut |= filtered.cut.is_some();
    }
    let filtered = filter.end(rule);
    out.extend(filtered.bytes);
    (out, filter.returned(), is_cut || filtered.cut.is_some())
}

fn digests(blocks: &[Block]) -> Vec<custody_log::Digest> {
    blocks.iter().map(|block| block.digest).collect()
}

/// A stream as a client puts it together: its text, its calls, and how it ended.
fn assembled(dialect: Dialect, stream: &[u8]) -> (String, Vec<(String, String)>, Option<String>) {
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

#[test]
fn what_no_rule_changes_goes_on_byte_for_byte() {
    for dialect in DIALECTS {
        let body = whole(dialect).into_bytes();
        let mut rule = removing(&[]);
        let answer = dialect.filter(body.clone(), &mut rule).unwrap();
        assert_eq!(answer.body, body);
        let seen = ["said Hm.", r#"call read {"n"#, r#"call send {"to"#];
        assert_eq!(rule.seen.len(), 3);
        assert!(rule.seen.iter().zip(seen).all(|(seen, start)| seen.starts_with(start)));

        let stream = stream(dialect);
        let mut rule = removing(&[]);
        let (out, returned, is_cut) = through(dialect, &[&stream], &mut rule);
        assert_eq!((out, is_cut), (stream, false));
        assert_eq!(digests(&returned), digests(&answer.returned), "recognised when they come back");
    }
}

#[test]
fn a_removed_call_becomes_a_text_and_the_answer_ends_as_it_should() {
    for dialect in DIALECTS {
        let (some, all) = match dialect {
            Dialect::OpenAiChat => ("tool_calls", "stop"),
            Dialect::AnthropicMessages => ("tool_use", "end_turn"),
        };
        for (tools, left, end) in [
            (vec!["send"], vec!["read"], some),
            (vec!["read"], vec!["send"], some),
            (vec!["read", "send"], vec![], all),
        ] {
            let mut rule = removing(&tools);
            let answer = dialect.filter(whole(dialect).into_bytes(), &mut rule).unwrap();
            let text = String::from_utf8(answer.body).unwrap();
            assert!(text.contains("1.50"), "what is not changed keeps its bytes: {text}");
            let value: Value = serde_json::from_str(&text).unwrap();
            let (reason, calls): (&Value, Vec<&str>) = match dialect {
                Dialect::OpenAiChat => {
                    let choice = &value["choices"][0];
                    let calls = choice["message"]["tool_calls"].as_array().into_iter().flatten();
                    let names = calls.map(|call| call["function"]["name"].as_str().unwrap());
                    (&choice["finish_reason"], names.collect())
                }
                Dialect::AnthropicMessages => {
                    let blocks = value["content"].as_array().unwrap().iter();
                    (
                        &value["stop_reason"],
                        blocks.filter_map(|block| block["name"].as_str()).collect(),
                    )
                }
            };
            assert_eq!((reason, calls), (&json!(end), left.clone()), "{text}");
            for tool in &tools {
                assert!(text.contains(&format!("no {tool}")), "{text}");
            }

            let mut rule = removing(&tools);
            let (out, returned, is_cut) = through(dialect, &[&stream(dialect)], &mut rule);
            let (said, calls, reason) = assembled(dialect, &out);
            assert!(!is_cut);
            assert!(tools.iter().all(|tool| said.contains(&format!("no {tool}"))), "{said}");
            assert_eq!(calls.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), left);
            assert_eq!(reason.as_deref(), Some(end));
            for (name, arguments) in calls {
                let expected = if name == "read" { json!({"n": 1}) } else { json!({"to": "é"}) };
                assert_eq!(serde_json::from_str::<Value>(&arguments).unwrap(), expected);
            }
            assert_eq!(digests(&returned), digests(&answer.returned));
        }
    }
}

#[test]
fn what_an_answer_returned_is_recognised_in_the_next_request() {
    let mut rule = removing(&["send"]);
    let body = whole(Dialect::AnthropicMessages).into_bytes();
    let answer = Dialect::AnthropicMessages.filter(body, &mut rule).unwrap();
    let message: Value = serde_json::from_slice(&answer.body).unwrap();
    let request = json!({"messages": [{"role": "assistant", "content": message["content"]}]});
    let read = Dialect::AnthropicMessages.parse(request.to_string().as_bytes()).unwrap();
    assert_eq!(read.blocks, answer.returned);

    let mut rule = removing(&["send"]);
    let answer =
        Dialect::OpenAiChat.filter(whole(Dialect::OpenAiChat).into_bytes(), &mut rule).unwrap();
    let message: Value = serde_json::from_slice(&answer.body).unwrap();
    let request = json!({"messages": [message["choices"][0]["message"]]});
    let read = Dialect::OpenAiChat.parse(request.to_string().as_bytes()).unwrap();
    assert_eq!(digests(&read.blocks), digests(&answer.returned));
}

#[test]
fn a_call_that_is_cut_off_does_not_go_on() {
    for dialect in DIALECTS {
        let stream = stream(dialect);
        let text = String::from_utf8(stream.clone()).unwrap();
        let cut = text.find("\"read\"").unwrap();
        for end in [cut + 20, text.rfind("\\\"to\\\"").unwrap() + 8] {
            let mut rule = removing(&[]);
            let (out, _, _) = through(dialect, &[&stream[..end]], &mut rule);
            let (said, calls, reason) = assembled(dialect, &out);
            let whole_calls = match dialect {
                Dialect::OpenAiChat => 0,
                // The first of two is complete at the second cut.
                Dialect::AnthropicMessages => usize::from(end != cut + 20),
            };
            assert_eq!((said.as_str(), calls.len(), reason), ("Hm.", whole_calls, None));
        }
    }
}

#[test]
fn what_is_not_understood_ends_the_answer() {
    let broken: [(Dialect, &[u8]); 8] = [
        (Dialect::OpenAiChat, b"data: {\"choices\":[\n\n"),
        (Dialect::OpenAiChat, b"data: {\"choices\":[{\"delta\":{\"tool_calls\":{}}}]}\n\n"),
        (Dialect::OpenAiChat, b"data: {\"choices\":[],\"choices\":[]}\n\n"),
        (Dialect::OpenAiChat, b"data: \xff\n\n"),
        (Dialect::AnthropicMessages, b"data: {\"type\":\"content_block_start\"}\n\n"),
        (
            Dialect::AnthropicMessages,
            b"data: {\"type\":\"message_start\",\"message\":{\"content\":[{\"type\":\"tool_use\"}]}}\n\n",
        ),
        (
            Dialect::AnthropicMessages,
            b"data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"b\",\"input\":{}}}\n\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
        ),
        (
            Dialect::AnthropicMessages,
            b"data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"b\",\"input\":{\"x\":1}}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
        ),
    ];
    for (dialect, bytes) in broken {
        let mut filter = StreamFilter::new(dialect);
        let mut rule = removing(&[]);
        let filtered = filter.push(bytes, &mut rule);
        let shown = String::from_utf8_lossy(bytes);
        assert!(filtered.cut.is_some(), "{shown}");
        let more = filter.push(&stream(dialect), &mut rule);
        assert!(more.bytes.is_empty() && filter.end(&mut rule).bytes.is_empty(), "{shown}");
    }
}

#[test]
fn a_call_that_is_longer_than_what_is_held_ends_the_answer() {
    let piece = "x".repeat(1 << 20);
    let (openai, anthropic) = (
        format!(
            "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":0,\"function\":{{\"name\":\"f\",\"arguments\":\"{piece}\"}}}}]}}}}]}}\n\n"
        ),
        format!(
            "data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"input_json_delta\",\"partial_json\":\"{piece}\"}}}}\n\n"
        ),
    );
    let start = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":{}}}\n\n";
    for (dialect, start, piece) in
        [(Dialect::OpenAiChat, "", openai), (Dialect::AnthropicMessages, start, anthropic)]
    {
        let mut filter = StreamFilter::new(dialect);
        let mut rule = removing(&[]);
        filter.push(start.as_bytes(), &mut rule);
        let cuts: Vec<bool> =
            (0..9).map(|_| filter.push(piece.as_bytes(), &mut rule).cut.is_some()).collect();
        assert_eq!(cuts, [false, false, false, false, false, false, false, true, false]);
        assert!(filter.end(&mut rule).bytes.is_empty() && rule.seen.is_empty());
    }
}

#[test]
fn what_nobody_can_decide_is_named() {
    let cases = [
        (Dialect::OpenAiChat, json!({"messages": [], "n": 2}), Undecidable::SeveralAnswers),
        (
            Dialect::OpenAiChat,
            json!({"messages": [], "functions": [{}]}),
            Undecidable::FunctionCall,
        ),
        (
            Dialect::OpenAiChat,
            json!({"messages": [], "web_search_options": {}}),
            Undecidable::VendorTool,
        ),
        (
            Dialect::AnthropicMessages,
            json!({"messages": [], "tools": [{"type": "web_search_20250305", "name": "w"}]}),
            Undecidable::VendorTool,
        ),
        (
            Dialect::AnthropicMessages,
            json!({"messages": [], "mcp_servers": [{}]}),
            Undecidable::VendorMcp,
        ),
    ];
    for (dialect, body, what) in cases {
        let read = dialect.parse(body.to_string().as_bytes()).unwrap();
        assert_eq!(read.undecidable, BTreeSet::from([what]));
    }
    let function = json!({"type": "function", "function": {"name": "f"}});
    let own = json!([{"name": "f", "input_schema": {}}, {"type": "bash_20250124", "name": "bash"}]);
    for (dialect, body) in [
        (Dialect::OpenAiChat, json!({"messages": [], "n": 1, "tools": [function]})),
        (Dialect::AnthropicMessages, json!({"messages": [], "tools": own})),
    ] {
        let read = dialect.parse(body.to_string().as_bytes()).unwrap();
        assert!(read.undecidable.is_empty());
    }
    let function = json!({"choices": [{"delta": {"function_call": {"name": "f"}}}]});
    let mut rule = removing(&[]);
    let event = format!("data: {function}\n\n");
    through(Dialect::OpenAiChat, &[event.as_bytes()], &mut rule);
    assert_eq!(rule.seen, ["undecided calls in the form of `function_call`"]);
}

#[test]
fn requests_are_read_into_blocks_and_nothing_else() {
    let body = json!({
        "system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": "Hello."},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "…", "signature": "s"},
                {"type": "tool_use", "id": "a", "name": "read", "input": {"n": 1}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "One."}]},
                {"type": "image", "source": {"data": "AA=="}}]},
            {"role": "system", "content": "Later."},
        ],
    });
    let read = Dialect::AnthropicMessages.parse(body.to_string().as_bytes()).unwrap();
    let shown: Vec<(WireRole, &str)> = read
        .blocks
        .iter()
        .map(|block| match &block.content {
            BlockContent::Text(text) | BlockContent::Result { text, .. } => {
                (block.role, text.as_str())
            }
            BlockContent::Call(call) => (block.role, call.name.as_str()),
            BlockContent::Opaque { kind, .. } => (block.role, kind.as_str()),
        })
        .collect();
    let expected = [
        (WireRole::System, "Be kind."),
        (WireRole::User, "Hello."),
        (WireRole::Assistant, "read"),
        (WireRole::Tool, "One."),
        (WireRole::User, "image"),
        (WireRole::System, "Later."),
    ];
    assert_eq!(shown, expected);
    for body in [
        r#"{"messages":[{"role":"user","content":1}]}"#,
        r#"{"messages":[{"role":"user","content":"a","content":"b"}]}"#,
        r#"{"messages":[{"content":"a"}]}"#,
        r#"{"messages":{}}"#,
        "[]",
        "",
    ] {
        for dialect in DIALECTS {
            assert!(dialect.parse(body.as_bytes()).is_err(), "{body}");
        }
    }
}

proptest! {
    #[test]
    fn cutting_a_stream_anywhere_changes_nothing(cuts in prop::collection::vec(0usize..4096, 0..8)) {
        for dialect in DIALECTS {
            let stream = stream(dialect);
            for tools in [vec![], vec!["send"], vec!["read", "send"]] {
                let whole = through(dialect, &[&stream], &mut removing(&tools));
                let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % stream.len()).collect();
                cuts.sort_unstable();
                let mut chunks = Vec::new();
                let mut from = 0;
                for cut in cuts.into_iter().chain([stream.len()]) {
                    chunks.push(&stream[from..cut]);
                    from = cut;
                }
                prop_assert_eq!(&whole, &through(dialect, &chunks, &mut removing(&tools)));
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        for dialect in DIALECTS {
            let _ = dialect.parse(&bytes);
            let _ = dialect.filter(bytes.clone(), &mut removing(&[]));
            let _ = through(dialect, &[&bytes], &mut removing(&[]));
        }
    }
}
