//! What only OpenAI's responses have: items of many kinds, and calls that stand in a stream several times.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod samples;

use custody_gateway::wire::{
    BlockContent, CallRule, CallRuling, Dialect, StreamFilter, Undecidable, WireCall, WireError,
    WireRole,
};
use samples::{item_events, numbered, responses_events, written};
use serde_json::{Value, json};

const RESPONSES: Dialect = Dialect::OpenAiResponses;

/// Removes the calls of one tool, and notes what it sees.
#[derive(Default)]
struct Without {
    tool: &'static str,
    seen: Vec<String>,
}

impl CallRule for Without {
    fn note_text(&mut self, text: &str) {
        self.seen.push(format!("said {text}"));
    }

    fn rule(&mut self, call: &WireCall) -> CallRuling {
        self.seen.push(format!("{} {} {}", call.id, call.name, call.arguments));
        if call.name == self.tool { CallRuling::Replace("no".to_owned()) } else { CallRuling::Pass }
    }

    fn undecided(&mut self, what: Undecidable) -> Result<(), WireError> {
        self.seen.push(format!("undecided {what}"));
        Ok(())
    }
}

fn without(tool: &'static str) -> Without {
    Without { tool, seen: Vec::new() }
}

/// What goes on of a stream of `events`, unless it ends before its time.
fn through(events: &[Value], rule: &mut Without) -> Option<Vec<Value>> {
    let mut filter = StreamFilter::new(RESPONSES);
    let pushed = filter.push(&written(events), rule);
    let ended = filter.end(rule);
    let out = String::from_utf8([pushed.bytes, ended.bytes].concat()).unwrap();
    let data = out.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = data.map(|data| serde_json::from_str(data).unwrap()).collect();
    (pushed.cut.is_none() && ended.cut.is_none()).then_some(events)
}

fn function_call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": arguments,
        "status": "completed"})
}

#[test]
fn a_removed_item_is_a_message_in_every_event_that_a_client_may_read() {
    for (tool, left) in [("read", "send"), ("send", "read")] {
        let events = through(&responses_events(), &mut without(tool)).unwrap();
        let numbers = events.iter().map(|event| event["sequence_number"].as_u64().unwrap());
        assert!(numbers.eq(0..events.len() as u64), "counted without gaps: {events:?}");
        let done: Vec<&Value> = events
            .iter()
            .filter(|event| event["type"] == "response.output_item.done")
            .map(|event| &event["item"])
            .collect();
        let whole = &events.last().unwrap()["response"]["output"];
        assert_eq!(json!(done), *whole, "the answer as a whole repeats the items");
        let kinds: Vec<&str> = done.iter().map(|item| item["type"].as_str().unwrap()).collect();
        let expected = match tool {
            "read" => ["reasoning", "message", "message", "function_call"],
            _ => ["reasoning", "message", "function_call", "message"],
        };
        assert_eq!(kinds, expected);
        for (at, item) in done.iter().enumerate() {
            let of_item = |event: &&Value| event["output_index"] == at;
            let begun = events.iter().find(of_item).unwrap();
            assert_eq!(begun["item"]["id"], item["id"], "one place, one item");
        }
        let text = json!(events).to_string();
        assert!(!text.contains(&format!("\"{tool}\"")) && text.contains(left), "{text}");
    }
}

#[test]
fn items_that_come_mixed_are_decided_each_and_keep_their_places() {
    let (first, second) =
        (function_call("a", "read", "{\"n\":1}"), function_call("b", "send", "{\"n\":2}"));
    let (of_first, of_second) = (item_events(0, &first), item_events(1, &second));
    let mixed = of_first.into_iter().zip(of_second).flat_map(|(one, other)| [other, one]);
    let mut events: Vec<Value> = mixed.collect();
    events.push(json!({"type": "response.completed", "response": {"output": [first, second]}}));
    let events = numbered(events);
    assert_eq!(through(&events, &mut without("")).unwrap(), events);
    let left = through(&events, &mut without("send")).unwrap();
    let whole = &left.last().unwrap()["response"]["output"];
    assert_eq!((&whole[0], &whole[1]["type"]), (&first, &json!("message")));
    let pieces = left.iter().filter(|event| event["type"].as_str().unwrap().contains("arguments"));
    assert!(pieces.into_iter().all(|event| event["output_index"] == 0));
}

#[test]
fn a_call_that_is_not_the_same_in_every_event_does_not_go_on() {
    let call = function_call("a", "read", "{\"n\":1}");
    let other_arguments = function_call("a", "read", "{\"n\":2}");
    let other_name = function_call("a", "send", "{\"n\":1}");
    let events = |at: usize, name: &str, value: Value| {
        let mut events = item_events(0, &call);
        events[at][name] = value;
        events.push(json!({"type": "response.completed", "response": {"output": [call]}}));
        events
    };
    let last = item_events(0, &call).len() - 1;
    assert!(through(&events(0, "other", json!(1)), &mut without("")).is_some());
    for (at, name, value) in [
        (1, "delta", json!("{\"n\":3")),
        (3, "arguments", json!("{\"n\":3}")),
        (last, "item", other_arguments.clone()),
        (last, "item", other_name),
        (last, "item", json!({"type": "reasoning"})),
    ] {
        assert_eq!(through(&events(at, name, value.clone()), &mut without("")), None, "{value}");
    }
    // What only the answer as a whole holds is decided there.
    let mut events = item_events(0, &call);
    let send = function_call("b", "send", "{}");
    events.push(
        json!({"type": "response.completed", "response": {"output": [other_arguments, send]}}),
    );
    let mut rule = without("send");
    let left = through(&events, &mut rule).unwrap();
    assert_eq!(rule.seen, ["a read {\"n\":1}", "a read {\"n\":2}", "b send {}"]);
    assert_eq!(left.last().unwrap()["response"]["output"][1]["type"], "message");
}

#[test]
fn calls_that_the_client_runs_are_decided_whatever_their_kind() {
    let calls = [
        (
            json!({"type": "custom_tool_call", "name": "patch", "input": "a\nb"}),
            "patch",
            r#"{"input":"a\nb"}"#,
        ),
        (
            json!({"type": "local_shell_call", "action": {"type": "exec"}}),
            "local_shell",
            r#"{"type":"exec"}"#,
        ),
        (
            json!({"type": "shell_call", "action": {"commands": ["ls"]}}),
            "shell",
            r#"{"commands":["ls"]}"#,
        ),
        (
            json!({"type": "apply_patch_call", "operation": {"path": "a"}}),
            "apply_patch",
            r#"{"path":"a"}"#,
        ),
        (
            json!({"type": "computer_call", "action": {"type": "wait"}}),
            "computer",
            r#"{"type":"wait"}"#,
        ),
        (
            json!({"type": "tool_search_call", "execution": "client", "arguments": {"q": 1}}),
            "tool_search",
            r#"{"q":1}"#,
        ),
        (
            json!({"type": "function_call", "namespace": "mcp__crm", "name": "send", "arguments": ""}),
            "mcp__crm__send",
            "{}",
        ),
        (
            json!({"type": "function_call", "namespace": "crm", "name": "send", "arguments": "{}"}),
            "crm.send",
            "{}",
        ),
    ];
    for (mut item, name, arguments) in calls {
        item["call_id"] = "a".into();
        let body = json!({"output": [item]}).to_string();
        let mut rule = without("");
        let answer = RESPONSES.filter(body.clone().into_bytes(), &mut rule).unwrap();
        assert_eq!(
            (rule.seen, answer.body),
            (vec![format!("a {name} {arguments}")], body.into_bytes())
        );
        let request = json!({"input": [item]}).to_string();
        let read = RESPONSES.parse(request.as_bytes()).unwrap();
        assert_eq!(read.blocks, answer.returned, "{item}");
    }
}

#[test]
fn what_the_vendor_ran_is_named_and_code_mode_is_decided_as_one_call() {
    let cases = [
        (
            json!({"type": "web_search_call", "id": "w"}),
            vec!["undecided tools that the vendor runs"],
        ),
        (
            json!({"type": "code_interpreter_call", "id": "c"}),
            vec!["undecided tools that the vendor runs"],
        ),
        (
            json!({"type": "shell_call", "call_id": "a", "environment": {"type": "container_reference"}}),
            vec!["undecided tools that the vendor runs"],
        ),
        (
            json!({"type": "mcp_call", "id": "m"}),
            vec!["undecided MCP servers that the vendor calls"],
        ),
        (json!({"type": "something_new"}), vec!["undecided a block of an unknown kind"]),
        (
            json!({"type": "custom_tool_call", "call_id": "a", "name": "exec", "input": "tools.x()"}),
            vec![
                "undecided calls that a host runs inside one tool",
                r#"a exec {"input":"tools.x()"}"#,
            ],
        ),
        (json!({"type": "reasoning", "id": "r"}), vec![]),
        (json!({"type": "compaction", "encrypted_content": "c"}), vec![]),
    ];
    for (item, seen) in cases {
        let mut rule = without("");
        let body = json!({"output": [item]}).to_string();
        RESPONSES.filter(body.into_bytes(), &mut rule).unwrap();
        assert_eq!(rule.seen, seen, "{item}");
        let mut rule = without("");
        let event = json!({"type": "response.output_item.done", "output_index": 0, "item": item});
        through(&[event], &mut rule).unwrap();
        assert_eq!(rule.seen, seen, "{item}");
    }
}

#[test]
fn requests_are_read_whatever_their_items() {
    let body = json!({
        "instructions": "Be kind.",
        "input": [
            {"role": "user", "content": "Hello."},
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Later."}]},
            {"type": "additional_tools", "role": "developer", "tools": []},
            {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "data:"}]},
            {"type": "reasoning", "encrypted_content": "s"},
            function_call("a", "read", "{}"),
            {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "One."}]},
            {"type": "custom_tool_call_output", "call_id": "b", "output": "Two."},
            {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "Three.", "stderr": "", "outcome": {}}]},
            {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        ],
    });
    let read = RESPONSES.parse(body.to_string().as_bytes()).unwrap();
    let shown: Vec<(WireRole, String)> = read
        .blocks
        .into_iter()
        .map(|block| match block.content {
            BlockContent::Text(text) => (block.role, text),
            BlockContent::Call(call) => (block.role, call.name),
            BlockContent::Result { call, text } => (block.role, format!("{call} {text}")),
            BlockContent::Opaque { kind, .. } => (block.role, kind),
        })
        .collect();
    let expected = [
        (WireRole::System, "Be kind."),
        (WireRole::User, "Hello."),
        (WireRole::System, "Later."),
        (WireRole::User, "input_image"),
        (WireRole::Assistant, "read"),
        (WireRole::Tool, "a One."),
        (WireRole::Tool, "b Two."),
        (WireRole::Tool, "c Three."),
        (WireRole::Assistant, "No."),
    ];
    assert_eq!(shown, expected.map(|(role, text)| (role, text.to_owned())));
}
