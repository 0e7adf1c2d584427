//! What only Google's dialect has: names in two spellings, calls without ids, and signatures of calls.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use custody_gateway::wire::{
    BlockContent, CallRule, CallRuling, Dialect, StreamFilter, Undecidable, WireCall, WireError,
};
use serde_json::{Value, json};

/// Removes the calls of one tool in a conversation that has calls already.
struct Without {
    tool: &'static str,
    earlier: usize,
    seen: Vec<String>,
}

impl CallRule for Without {
    fn note_text(&mut self, text: &str) {
        self.seen.push(format!("said {text}"));
    }

    fn rule(&mut self, call: &WireCall) -> CallRuling {
        self.seen.push(call.id.clone());
        if call.name == self.tool { CallRuling::Replace("no".to_owned()) } else { CallRuling::Pass }
    }

    fn undecided(&mut self, what: Undecidable) -> Result<(), WireError> {
        self.seen.push(format!("undecided {what}"));
        Ok(())
    }

    fn calls_without_id(&self) -> usize {
        self.earlier
    }
}

fn without(tool: &'static str, earlier: usize) -> Without {
    Without { tool, earlier, seen: Vec::new() }
}

fn call(name: &str) -> Value {
    json!({"functionCall": {"name": name, "args": {}}})
}

fn result(name: &str, text: &str) -> Value {
    json!({"functionResponse": {"name": name, "response": {"output": text}}})
}

fn answer(parts: &Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]})
}

/// The results of a request, each with the call that it belongs to.
fn results(contents: &Value) -> Vec<(String, String)> {
    let body = json!({ "contents": contents }).to_string();
    let read = Dialect::Gemini.parse(body.as_bytes()).unwrap();
    let results = read.blocks.into_iter().filter_map(|block| match block.content {
        BlockContent::Result { call, text } => Some((call, text)),
        BlockContent::Text(_) | BlockContent::Call(_) | BlockContent::Opaque { .. } => None,
    });
    results.collect()
}

#[test]
fn a_call_without_an_id_is_known_by_its_place_in_the_answer_and_in_every_request() {
    let mut contents = vec![json!({"role": "user", "parts": [{"text": "Hello."}]})];
    let mut ids = Vec::new();
    for (turn, removed) in ["", "send", ""].into_iter().enumerate() {
        let body = answer(&json!([call("read"), call("send"), call("read")]));
        let mut rule = without(removed, ids.len());
        let answered = Dialect::Gemini.filter(body.to_string().into_bytes(), &mut rule).unwrap();
        let calls = answered.returned.iter().filter_map(|block| match &block.content {
            BlockContent::Call(call) => Some(call.id.clone()),
            BlockContent::Text(_) | BlockContent::Result { .. } | BlockContent::Opaque { .. } => {
                None
            }
        });
        ids.extend(calls);
        let answered: Value = serde_json::from_slice(&answered.body).unwrap();
        contents.push(answered["candidates"][0]["content"].clone());
        let mut parts =
            vec![result("read", &format!("{turn}a")), result("read", &format!("{turn}b"))];
        if removed.is_empty() {
            parts.insert(0, result("send", &format!("{turn}s")));
        }
        contents.push(json!({"role": "user", "parts": parts}));
    }
    let joined = results(&json!(contents));
    let of: Vec<(&str, &str)> =
        joined.iter().map(|(call, text)| (call.as_str(), text.as_str())).collect();
    let expected = [
        ("no id 1 send", "0s"),
        ("no id 0 read", "0a"),
        ("no id 2 read", "0b"),
        ("no id 3 read", "1a"),
        ("no id 4 read", "1b"),
        ("no id 6 send", "2s"),
        ("no id 5 read", "2a"),
        ("no id 7 read", "2b"),
    ];
    assert_eq!(of, expected);
    let mut sorted = ids.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!((sorted.len(), ids.len()), (8, 8), "no two calls have one id: {ids:?}");
    assert!(joined.iter().all(|(call, _)| ids.contains(call)));
}

#[test]
fn results_go_to_the_call_that_they_name_and_never_to_one_of_an_earlier_turn() {
    let with_id =
        |name: &str, id: &str| json!({"functionCall": {"name": name, "args": {}, "id": id}});
    let of_id = |id: &str| json!({"function_response": {"name": "read", "id": id, "response": {"result": id}}});
    let contents = json!([
        {"role": "model", "parts": [call("read")]},
        {"role": "user", "parts": [{"text": "Never mind. Read these."}]},
        {"role": "model", "parts": [with_id("read", "x"), with_id("read", "y"), call("read")]},
        {"role": "function", "parts": [of_id("y"), of_id("made up"), result("read", "last"), result("read", "more")]},
    ]);
    let expected = [("y", "y"), ("x", "made up"), ("no id 1 read", "last"), ("", "more")];
    let expected = expected.map(|(call, text)| (call.to_owned(), text.to_owned()));
    assert_eq!(results(&contents), expected);
}

#[test]
fn a_signature_goes_to_the_call_that_is_first_when_the_first_is_removed() {
    let mut first = call("send");
    first["thoughtSignature"] = "s".into();
    let body = answer(&json!([first, call("read"), call("read")]));
    let answered =
        Dialect::Gemini.filter(body.to_string().into_bytes(), &mut without("send", 0)).unwrap();
    let value: Value = serde_json::from_slice(&answered.body).unwrap();
    let mut second = call("read");
    second["thoughtSignature"] = "s".into();
    let expected = answer(&json!([{"text": "no"}, second, call("read")]));
    assert_eq!(value, expected);
}

#[test]
fn the_text_around_a_removed_call_is_recognised_however_a_client_joins_it() {
    let pieces = [
        json!([{"text": "H"}]),
        json!([{"text": "m."}, call("send")]),
        json!([{"text": " Well."}]),
    ];
    let mut filter = StreamFilter::new(Dialect::Gemini);
    let (mut rule, mut parts) = (without("send", 0), Vec::new());
    for piece in &pieces {
        let pushed = filter.push(format!("data: {}\r\n\r\n", answer(piece)).as_bytes(), &mut rule);
        let out = String::from_utf8(pushed.bytes).unwrap();
        let value: Value =
            serde_json::from_str(out.trim().strip_prefix("data: ").unwrap()).unwrap();
        parts.extend(value["candidates"][0]["content"]["parts"].as_array().unwrap().clone());
    }
    filter.end(&mut rule);
    assert_eq!(rule.seen, ["said Hm.", "no id 0 send", "said  Well."]);
    let returned = filter.returned();
    let joined: String = parts.iter().map(|part| part["text"].as_str().unwrap()).collect();
    assert_eq!(joined, "Hm.\n\nno Well.");
    let each: Vec<Value> =
        parts.iter().map(|part| json!({"role": "model", "parts": [part]})).collect();
    for contents in [
        json!([{"role": "model", "parts": parts}]),
        json!([{"role": "model", "parts": [{"text": joined}]}]),
        json!(each),
    ] {
        let body = json!({ "contents": contents }).to_string();
        assert_eq!(Dialect::Gemini.parse(body.as_bytes()).unwrap().blocks, returned);
    }
}

#[test]
fn what_the_vendor_ran_and_what_nobody_knows_is_named() {
    for (part, seen) in [
        (json!({"executableCode": {"code": "1"}}), "undecided tools that the vendor runs"),
        (json!({"code_execution_result": {"output": "1"}}), "undecided tools that the vendor runs"),
        (
            json!({"functionResponse": {"name": "f", "response": {}}}),
            "undecided a block of an unknown kind",
        ),
        (json!({"somethingNew": {}}), "undecided a block of an unknown kind"),
    ] {
        let mut rule = without("", 0);
        let body = answer(&json!([part])).to_string();
        Dialect::Gemini.filter(body.into_bytes(), &mut rule).unwrap();
        assert_eq!(rule.seen, [seen], "{part}");
    }
    let several = json!({"candidates": [{}, {"index": 1, "content": {"parts": [call("f")]}}]});
    let mut rule = without("", 0);
    Dialect::Gemini.filter(several.to_string().into_bytes(), &mut rule).unwrap();
    assert_eq!(rule.seen, ["undecided several answers to one request"]);
    // An answer that was refused, an image, and an empty part.
    for body in [
        json!({"promptFeedback": {"blockReason": "SAFETY"}}),
        json!({"candidates": [{"finishReason": "SAFETY"}]}),
        answer(
            &json!([{"inlineData": {"mimeType": "image/png", "data": "AA=="}}, {"thoughtSignature": "s"}]),
        ),
    ] {
        let mut rule = without("", 0);
        let answered = Dialect::Gemini.filter(body.to_string().into_bytes(), &mut rule).unwrap();
        assert_eq!((answered.body, rule.seen.len()), (body.to_string().into_bytes(), 0));
    }
}
