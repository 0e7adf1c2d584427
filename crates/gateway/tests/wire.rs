//! Answers of every dialect, whole and streamed, under every ruling: what goes on, byte for byte where nothing changes.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod samples;

use std::collections::BTreeSet;

use custody_gateway::wire::{
    Block, BlockContent, CallRule, CallRuling, Dialect, StreamFilter, Undecidable, WireCall,
    WireError, WireRole,
};
use proptest::prelude::*;
use samples::{assembled, stream, whole};
use serde_json::{Value, json};

const DIALECTS: [Dialect; 4] = Dialect::ALL;

/// Removes the calls whose tool is named here, or all.
#[derive(Default)]
struct Removing {
    tools: Vec<&'static str>,
    is_all: bool,
    seen: Vec<String>,
}

impl CallRule for Removing {
    fn note_text(&mut self, text: &str) {
        self.seen.push(format!("said {text}"));
    }

    fn rule(&mut self, call: &WireCall) -> CallRuling {
        self.seen.push(format!("call {} {}", call.name, call.arguments));
        match self.is_all || self.tools.iter().any(|tool| *tool == call.name) {
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
    Removing { tools: tools.to_vec(), ..Removing::default() }
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
            Dialect::OpenAiResponses => ("completed", "completed"),
            Dialect::AnthropicMessages => ("tool_use", "end_turn"),
            Dialect::Gemini => ("STOP", "STOP"),
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
                Dialect::OpenAiResponses => {
                    let items = value["output"].as_array().unwrap().iter();
                    (&value["status"], items.filter_map(|item| item["name"].as_str()).collect())
                }
                Dialect::Gemini => {
                    let candidate = &value["candidates"][0];
                    let parts = candidate["content"]["parts"].as_array().unwrap().iter();
                    let names = parts.filter_map(|part| part["functionCall"]["name"].as_str());
                    (&candidate["finishReason"], names.collect())
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

/// The request in which a client sends an answer back.
fn sent_back(dialect: Dialect, answer: &Value) -> Value {
    match dialect {
        Dialect::OpenAiChat => json!({"messages": [answer["choices"][0]["message"]]}),
        Dialect::OpenAiResponses => json!({"input": answer["output"]}),
        Dialect::AnthropicMessages => {
            json!({"messages": [{"role": "assistant", "content": answer["content"]}]})
        }
        Dialect::Gemini => json!({"contents": [answer["candidates"][0]["content"]]}),
    }
}

#[test]
fn what_an_answer_returned_is_recognised_in_the_next_request() {
    for dialect in DIALECTS {
        for tools in [vec![], vec!["send"], vec!["read"], vec!["read", "send"]] {
            let answer =
                dialect.filter(whole(dialect).into_bytes(), &mut removing(&tools)).unwrap();
            let request = sent_back(dialect, &serde_json::from_slice(&answer.body).unwrap());
            let read = dialect.parse(request.to_string().as_bytes()).unwrap();
            assert_eq!(digests(&read.blocks), digests(&answer.returned), "{dialect:?} {tools:?}");
        }
    }
}

#[test]
fn a_call_that_is_cut_off_does_not_go_on() {
    for dialect in DIALECTS {
        let stream = stream(dialect);
        for tools in [vec![], vec!["send"], vec!["read", "send"]] {
            for end in 0..stream.len() {
                let mut rule = removing(&tools);
                let (out, returned, _) = through(dialect, &[&stream[..end]], &mut rule);
                let (said, calls, _) = assembled(dialect, &out);
                assert!("Hm.".starts_with(&said) || said.starts_with("Hm."), "{said}");
                for (name, arguments) in &calls {
                    assert!(!tools.contains(&name.as_str()), "{dialect:?} {end}: {name}");
                    let value = serde_json::from_str::<Value>(arguments);
                    assert!(value.is_ok_and(|value| value.is_object()), "{dialect:?} {end}");
                }
                let returned =
                    returned.iter().filter(|block| matches!(block.content, BlockContent::Call(_)));
                assert!(returned.count() >= calls.len(), "{dialect:?} {end}");
            }
        }
    }
}

#[test]
fn what_is_not_understood_ends_the_answer() {
    let broken: [(Dialect, &[u8]); 19] = [
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
        (Dialect::OpenAiResponses, b"data: {\"type\":\"response.output_item.added\"}\n\n"),
        (Dialect::OpenAiResponses, b"data: {\"output_index\":0}\n\n"),
        (
            Dialect::OpenAiResponses,
            b"data: {\"type\":\"response.other\",\"item\":{\"type\":\"function_call\"}}\n\n",
        ),
        (
            Dialect::OpenAiResponses,
            b"data: {\"type\":\"response.function_call_arguments.delta\",\"output_index\":0,\"delta\":\"{}\"}\n\n",
        ),
        (
            Dialect::OpenAiResponses,
            b"data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"function_call\",\"call_id\":\"a\",\"name\":\"f\",\"arguments\":\"\"}}\n\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[]}}\n\n",
        ),
        (Dialect::OpenAiResponses, b"data: {\"type\":\"response.created\",\"response\":{\"output\":{}}}\n\n"),
        (Dialect::Gemini, b"data: []\n\n"),
        (Dialect::Gemini, b"data: {\"candidates\":{}}\n\n"),
        (
            Dialect::Gemini,
            b"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\",\"functionCall\":{\"name\":\"f\"}}]}}]}\n\n",
        ),
        (
            Dialect::Gemini,
            b"data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"f\"},\"function_call\":{\"name\":\"g\"}}]}}]}\n\n",
        ),
        (
            Dialect::Gemini,
            b"data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"f\",\"willContinue\":true}}]}}]}\n\n",
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
    let responses = format!(
        "data: {{\"type\":\"response.function_call_arguments.delta\",\"output_index\":0,\"delta\":\"{piece}\"}}\n\n"
    );
    let begun = "data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"function_call\",\"call_id\":\"a\",\"name\":\"f\",\"arguments\":\"\"}}\n\n";
    for (dialect, start, piece) in [
        (Dialect::OpenAiChat, "", openai),
        (Dialect::AnthropicMessages, start, anthropic),
        (Dialect::OpenAiResponses, begun, responses),
        // An event that does not end is held, too, whatever is in it.
        (Dialect::Gemini, "data: ", piece.clone()),
    ] {
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
        (
            Dialect::OpenAiResponses,
            json!({"previous_response_id": "r"}),
            Undecidable::StoredConversation,
        ),
        (
            Dialect::OpenAiResponses,
            json!({"input": [], "conversation": {"id": "c"}}),
            Undecidable::StoredConversation,
        ),
        (
            Dialect::OpenAiResponses,
            json!({"input": [{"type": "item_reference", "id": "i"}]}),
            Undecidable::StoredConversation,
        ),
        (Dialect::OpenAiResponses, json!({"prompt": {"id": "p"}}), Undecidable::StoredPrompt),
        (
            Dialect::OpenAiResponses,
            json!({"input": "a", "background": true}),
            Undecidable::Background,
        ),
        (
            Dialect::OpenAiResponses,
            json!({"input": "a", "tools": [{"type": "web_search"}]}),
            Undecidable::VendorTool,
        ),
        (
            Dialect::OpenAiResponses,
            json!({"input": "a", "tools": [{"type": "shell", "environment": {"type": "container_auto"}}]}),
            Undecidable::VendorTool,
        ),
        (
            Dialect::OpenAiResponses,
            json!({"input": "a", "tools": [{"type": "mcp", "server_label": "m"}]}),
            Undecidable::VendorMcp,
        ),
        (
            Dialect::OpenAiResponses,
            json!({"input": [{"type": "additional_tools", "role": "developer", "tools": [
                {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}]}]}),
            Undecidable::HostTool,
        ),
        (
            Dialect::Gemini,
            json!({"contents": [], "tools": [{"google_search": {}}]}),
            Undecidable::VendorTool,
        ),
        (
            Dialect::Gemini,
            json!({"contents": [], "tools": [{"functionDeclarations": [], "codeExecution": {}}]}),
            Undecidable::VendorTool,
        ),
        (
            Dialect::Gemini,
            json!({"contents": [], "generation_config": {"candidate_count": 2}}),
            Undecidable::SeveralAnswers,
        ),
        (
            Dialect::Gemini,
            json!({"contents": [], "cachedContent": "cachedContents/c"}),
            Undecidable::StoredConversation,
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
        (
            Dialect::OpenAiResponses,
            json!({"input": "a", "store": true, "tools": [
                {"type": "function", "name": "f"}, {"type": "custom", "name": "g"}, {"type": "local_shell"},
                {"type": "shell", "environment": {"type": "local"}}, {"type": "apply_patch"},
                {"type": "namespace", "name": "mcp__m", "tools": [{"type": "function", "name": "f"}]}]}),
        ),
        (
            Dialect::Gemini,
            json!({"contents": [], "tools": [{"functionDeclarations": [{"name": "f"}]}],
                "generationConfig": {"candidateCount": 1}}),
        ),
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

fn shown(blocks: &[Block]) -> Vec<(WireRole, &str)> {
    let shown = blocks.iter().map(|block| match &block.content {
        BlockContent::Text(text) | BlockContent::Result { text, .. } => (block.role, text.as_str()),
        BlockContent::Call(call) => (block.role, call.name.as_str()),
        BlockContent::Opaque { kind, .. } => (block.role, kind.as_str()),
    });
    shown.collect()
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
    let shown = shown(&read.blocks);
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
        r#"{"input":{}}"#,
        r#"{"input":[{"type":"function_call","name":"f"}]}"#,
        r#"{"input":[{"content":"a"}]}"#,
        r#"{"contents":{}}"#,
        r#"{"contents":[{"role":"user","parts":[{"text":1}]}]}"#,
        r#"{"contents":[],"systemInstruction":{},"system_instruction":{}}"#,
        "[]",
        "",
    ] {
        for dialect in DIALECTS {
            assert!(dialect.parse(body.as_bytes()).is_err(), "{body}");
        }
    }
}

/// Whether a client finds a call in an event.
fn holds_call(dialect: Dialect, event: &Value) -> bool {
    let (path, kind, call) = match dialect {
        Dialect::OpenAiChat => ("/choices/0", "/delta/tool_calls/0", None),
        Dialect::OpenAiResponses => ("/item", "/type", Some("function_call")),
        Dialect::AnthropicMessages => ("/content_block", "/type", Some("tool_use")),
        Dialect::Gemini => ("/candidates/0", "/content/parts/0/functionCall", None),
    };
    let Some(found) = event.pointer(path) else { return false };
    let is_first = found.get("index").is_none_or(|index| *index == 0);
    let is_event = dialect != Dialect::AnthropicMessages || event["type"] == "content_block_start";
    let found = found.pointer(kind).filter(|_| is_first && is_event);
    found.is_some_and(|found| call.is_none_or(|call| found == call))
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
    fn a_damaged_stream_is_read_alike_however_it_is_cut_and_lets_no_removed_call_go_on(
        damage in prop::collection::vec((0usize..4096, 0usize..8, ".{0,6}"), 1..4),
        cut in 0usize..4096,
    ) {
        for dialect in DIALECTS {
            let mut stream = stream(dialect);
            for (at, length, new) in &damage {
                let at = at % stream.len();
                let end = (at + length).min(stream.len());
                stream.splice(at..end, new.bytes());
            }
            let all = || Removing { is_all: true, ..removing(&[]) };
            let whole = through(dialect, &[&stream], &mut all());
            let (before, after) = stream.split_at(cut % stream.len());
            prop_assert_eq!(&whole, &through(dialect, &[before, after], &mut all()));
            let out = String::from_utf8_lossy(&whole.0);
            let data = out.split(['\n', '\r']).filter_map(|line| line.strip_prefix("data:"));
            for value in data.filter_map(|data| serde_json::from_str::<Value>(data).ok()) {
                prop_assert!(!holds_call(dialect, &value), "{}", value);
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
