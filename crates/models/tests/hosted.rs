//! Hosted models, asked over a real connection of servers that misbehave.
//!
//! No test measures time: a server that never ends is met with a short time-out, and everything else with one that no
//! machine needs.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "common/chat_server.rs"]
mod server;

use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::time::Duration;

use custody_models::chat::hosted::{
    HostedModel, HostedOptions, OptionsError, Price, RetryPolicy, Secret, UsageTotals,
};
use custody_models::chat::{
    AnswerShape, ChatAnswer, ChatError, ChatMessage, ChatModel, ChatRequest, ChatRole,
    ChatToolCall, FieldType, FinishReason, Usage,
};
use serde_json::{Value, json};
use server::{Act, Server, bytes, cut_events, drip, events, huge, json, silence, status};

const KEY: &str = "sk-custody-0123456789-abcdefghij";
const PLENTY: Duration = Duration::from_secs(300);
const SHORT: Duration = Duration::from_millis(150);
const MEGABYTE: usize = 1_000_000;

fn options(server: &Server) -> HostedOptions {
    HostedOptions {
        api_key: Some(Secret::new(KEY).unwrap()),
        connect_timeout: PLENTY,
        idle_timeout: PLENTY,
        total_timeout: PLENTY,
        max_answer_bytes: MEGABYTE,
        retries: RetryPolicy {
            max_retries: 2,
            base_delay: Duration::from_micros(1),
            max_delay: Duration::from_micros(1),
        },
        ..HostedOptions::new(format!("{}/v1", server.url), "small")
    }
}

fn model(server: &Server) -> HostedModel {
    HostedModel::new(options(server)).unwrap()
}

fn request() -> ChatRequest {
    ChatRequest {
        messages: vec![ChatMessage::new(ChatRole::User, "hello")],
        tools: Vec::new(),
        max_tokens: 10,
        temperature: 0.0,
        seed: 1,
        shape: None,
    }
}

/// The error, which no key stands in.
#[track_caller]
fn error_of<T: std::fmt::Debug>(answer: Result<T, ChatError>) -> ChatError {
    let error = answer.unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains(KEY) && !shown.contains(&KEY[..12]), "a key in `{shown}`");
    error
}

/// The answer in pieces, and the pieces.
fn pieces(model: &HostedModel) -> (Vec<String>, Result<ChatAnswer, ChatError>) {
    let mut pieces = Vec::new();
    let answer = model.answer_streaming(&request(), &mut |piece| {
        pieces.push(piece.to_owned());
        ControlFlow::Continue(())
    });
    (pieces, answer)
}

fn completion(text: &str) -> Value {
    json!({
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    })
}

fn event(delta: &Value, finish_reason: &Value) -> Vec<u8> {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
    format!("data: {}\n\n", json!({"choices": [choice]})).into_bytes()
}

fn text(text: &str) -> Vec<u8> {
    event(&json!({"content": text}), &json!(null))
}

const DONE: &[u8] = b"data: [DONE]\n\n";

#[test]
fn a_model_is_asked_as_the_protocol_says_and_its_answer_and_cost_come_back() {
    let server = Server::new(vec![json(&completion("hi")), json(&completion("hi"))]);
    let price = Some(Price { prompt: 1e6, completion: 2e6 });
    let model = HostedModel::new(HostedOptions { price, ..options(&server) }).unwrap();
    let usage = Usage { prompt_tokens: 3, completion_tokens: 2 };
    let answer =
        ChatAnswer { text: "hi".into(), tool_calls: Vec::new(), finish: FinishReason::Done, usage };
    assert_eq!(model.answer(&request()).unwrap(), answer);
    assert_eq!(model.answer(&request()).unwrap(), answer);
    let tokens = Usage { prompt_tokens: 6, completion_tokens: 4 };
    let totals = UsageTotals { requests: 2, retries: 0, uncounted: 0, tokens, cost: Some(14.0) };
    assert_eq!(model.usage(), totals);
    let asked = server.requests();
    assert!(asked[0].head.starts_with("post /v1/chat/completions http/1.1\r\n"));
    assert!(asked[0].head.contains(&format!("authorization: bearer {KEY}\r\n")));
    assert_eq!(
        asked[0].body,
        json!({"model": "small", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 10,
            "temperature": 0.0, "seed": 1, "stream": false})
    );
}

fn unknown_format() -> Act {
    status(400, "", r#"{"error": {"message": "response_format is unknown"}}"#)
}

fn null_intent() -> Act {
    json(&completion("{\"intent\": null}"))
}

#[test]
fn after_a_server_rejects_shapes_requests_omit_them() {
    let server = Server::new(vec![unknown_format(), null_intent(), null_intent()]);
    let model = model(&server);
    let shape = Some(AnswerShape { field: "intent".into(), holds: FieldType::TextOrNull });
    let request = ChatRequest { shape, ..request() };
    assert!(model.answer(&request).is_ok() && model.answer(&request).is_ok());
    let has_format: Vec<bool> =
        server.requests().iter().map(|asked| asked.body.get("response_format").is_some()).collect();
    assert_eq!(has_format, [true, false, false]);

    // The shape was not the cause of the error, so the next request has it again.
    let server = Server::new(vec![unknown_format(), unknown_format(), null_intent()]);
    let model = self::model(&server);
    let error = error_of(model.answer(&request));
    assert!(matches!(error, ChatError::Status { status: 400, .. }), "{error}");
    assert!(model.answer(&request).is_ok());
    let has_format = server
        .requests()
        .iter()
        .map(|asked| asked.body.get("response_format").is_some())
        .collect::<Vec<_>>();
    assert_eq!(has_format, [true, false, true]);
}

#[test]
fn the_identity_is_the_address_and_the_name_without_the_key() {
    let server = Server::new(Vec::new());
    let model = model(&server);
    assert_eq!(model.identity(), format!("hosted {}/v1 small", server.url));
    let shown = format!("{model:?} {:?}", options(&server));
    assert!(!shown.contains(KEY), "{shown}");
}

#[test]
fn a_key_is_never_sent_in_plain_text_to_another_machine() {
    let key = Some(Secret::new(KEY).unwrap());
    for base_url in ["http://models.example.org/v1", "http://10.0.0.1:8000", "http://127.1/v1"] {
        let refused = model_at(base_url, key.clone()).unwrap_err();
        assert!(matches!(refused, OptionsError::PlainKey { .. }), "{base_url}: {refused}");
        assert!(!format!("{refused} {refused:?}").contains(KEY));
        assert!(model_at(base_url, None).is_ok(), "{base_url} without a key");
    }
    for base_url in ["https://models.example.org/v1", "http://localhost:1/v1", "http://[::1]/v1"] {
        assert!(model_at(base_url, key.clone()).is_ok(), "{base_url}");
    }
    let price = Some(Price { prompt: f64::NAN, completion: 0.0 });
    let unsound = HostedOptions { price, ..HostedOptions::new("https://example.org", "small") };
    assert!(matches!(HostedModel::new(unsound), Err(OptionsError::Price { .. })));
}

fn model_at(base_url: &str, api_key: Option<Secret>) -> Result<HostedModel, OptionsError> {
    HostedModel::new(HostedOptions { api_key, ..HostedOptions::new(base_url, "small") })
}

fn call_part(part: &Value) -> Vec<u8> {
    event(&json!({"tool_calls": [part]}), &json!(null))
}

#[test]
fn streamed_pieces_are_whole_characters() {
    let usage =
        b"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n";
    let mut all =
        [b": hello\n\n".to_vec(), text("gr\u{fc}n"), text(""), text(" \u{1f642}")].concat();
    all.extend(event(&json!({}), &json!("stop")));
    all.extend_from_slice(usage);
    all.extend_from_slice(DONE);
    let each: Vec<&[u8]> = all.chunks(1).collect();
    let thirds: Vec<&[u8]> = all.chunks(3).collect();
    let server = Server::new(vec![events(&[&all]), events(&each), events(&thirds)]);
    let model = model(&server);
    for _ in 0..3 {
        let (pieces, answer) = pieces(&model);
        let answer = answer.unwrap();
        assert_eq!(pieces, ["grün", " 🙂"]);
        assert_eq!((answer.text.as_str(), answer.finish), ("grün 🙂", FinishReason::Done));
        assert_eq!(answer.usage, Usage { prompt_tokens: 3, completion_tokens: 2 });
    }
    assert_eq!(server.requests()[0].body["stream_options"], json!({"include_usage": true}));
}

#[test]
fn tool_calls_come_in_one_piece_and_in_parts() {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "time", "arguments": "{\"zone\": 1}"}});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let whole =
        json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]});
    let parts = [
        call_part(&json!({"index": 0, "id": "c1", "type": "function", "function": {"name": "time", "arguments": ""}})),
        call_part(&json!({"index": 0, "function": {"arguments": "{\"zone\""}})),
        call_part(&json!({"index": 0, "function": {"arguments": ": 1}"}})),
        event(&json!({}), &json!("tool_calls")),
        DONE.to_vec(),
    ]
    .concat();
    let server = Server::new(vec![json(&whole), events(&[&parts])]);
    let model = model(&server);
    let expected = ChatAnswer {
        text: String::new(),
        tool_calls: vec![ChatToolCall {
            id: "c1".into(),
            name: "time".into(),
            arguments: "{\"zone\": 1}".into(),
        }],
        finish: FinishReason::ToolCalls,
        usage: Usage::default(),
    };
    assert_eq!(model.answer(&request()).unwrap(), expected);
    assert_eq!(pieces(&model).1.unwrap(), expected);
    assert_eq!(model.usage().uncounted, 2, "neither answer said what it cost");
}

#[test]
fn the_caller_can_stop_a_stream() {
    let stream = [text("one"), text(" two"), event(&json!({}), &json!("stop"))].concat();
    let server = Server::new(vec![events(&[&stream, DONE])]);
    let model = model(&server);
    let answer = model.answer_streaming(&request(), &mut |_| ControlFlow::Break(())).unwrap();
    assert_eq!((answer.text.as_str(), answer.finish), ("one", FinishReason::Stopped));
    assert_eq!(model.usage().uncounted, 1);
}

#[test]
fn what_is_no_whole_answer_is_an_error_at_once() {
    let typed = |media_type: &str, body: &str| {
        status(200, &format!("content-type: {media_type}\r\n"), body)
    };
    let good = completion("hi").to_string();
    let head = "HTTP/1.1 200 X\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 2\r\n\r\n";
    let cases = [
        (typed("application/json", "{\"choices\": ["), "it is not the JSON"),
        (typed("application/json", ""), "it is not the JSON"),
        (typed("application/json", "{}"), "it holds no `choices`"),
        (
            typed("application/json", "{\"error\": {\"message\": \"busy\"}}"),
            "it reports an error: busy",
        ),
        (typed("text/html", &good), "it is sent as `text/html`, not as `application/json`"),
        (typed("text/event-stream", &good), "it is sent as `text/event-stream`"),
        (status(200, "", &good), "it does not say what it is sent as"),
        (bytes([head.as_bytes(), b"\"\xff"].concat()), "it is not the JSON"),
        (bytes("SSH-2.0-OpenSSH\r\n\r\n"), "protocol: "),
        (
            bytes(format!("HTTP/1.1 200 X\r\nx: {}\r\n\r\n", "y".repeat(100_000))),
            "response header is too big",
        ),
    ];
    let (acts, expected): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
    let server = Server::new(acts);
    let model = model(&server);
    for expected in &expected {
        let error = error_of(model.answer(&request()));
        let ChatError::Answer { url, detail } = &error else { panic!("{expected}: {error:?}") };
        assert!(detail.starts_with(expected), "{detail:?} does not begin with {expected:?}");
        assert_eq!(*url, format!("{}/v1/chat/completions", server.url));
    }
    assert_eq!(server.requests().len(), expected.len(), "none was asked again");
}

#[test]
fn half_a_stream_is_no_answer_and_is_not_begun_again_once_it_was_shown() {
    let stop = event(&json!({}), &json!("stop"));
    let cases = [
        (events(&[&text("half")]), vec!["half"], "it ends in the middle"),
        (events(&[&text("half"), DONE]), vec!["half"], "it ends in the middle"),
        (events(&[DONE]), vec![], "it ends in the middle"),
        (events(&[&stop, DONE]), vec![], "it says nothing"),
        (events(&[&text("half"), b"data: {\n\n"]), vec!["half"], "it is not the JSON"),
        (
            events(&[&text("half"), b"data: {\"error\": \"busy\"}\n\n"]),
            vec!["half"],
            "it reports an error",
        ),
        (events(&[b"data: \xff\n\n"]), vec![], "the stream is not UTF-8"),
        (json(&completion("hi")), vec![], "it is sent as `application/json`, not as `text/event"),
    ];
    for (act, shown, expected) in cases {
        let server = Server::new(vec![act]);
        let (pieces, answer) = pieces(&model(&server));
        let error = error_of(answer);
        let ChatError::Answer { detail, .. } = &error else { panic!("{expected}: {error:?}") };
        assert!(detail.starts_with(expected), "{detail:?} does not begin with {expected:?}");
        assert_eq!(pieces, shown, "{expected}");
        assert_eq!(server.requests().len(), 1, "{expected}: asked again");
    }
}

#[test]
fn a_connection_that_breaks_is_made_again_unless_a_piece_was_shown() {
    let cut = "HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    let server = Server::new(vec![bytes(""), bytes(cut), json(&completion("hi"))]);
    let asked = model(&server);
    assert_eq!(asked.answer(&request()).unwrap().text, "hi");
    assert_eq!((asked.usage().requests, asked.usage().retries), (3, 2));

    let whole = [text("hi"), event(&json!({}), &json!("stop"))].concat();
    let server = Server::new(vec![cut_events(b": soon\n\n"), events(&[&whole, DONE])]);
    let (shown, answer) = pieces(&model(&server));
    assert_eq!((shown, answer.unwrap().text.as_str()), (vec!["hi".to_owned()], "hi"));

    let server = Server::new(vec![cut_events(&text("half")), events(&[&whole, DONE])]);
    let (shown, answer) = pieces(&model(&server));
    let error = error_of(answer);
    assert!(matches!(error, ChatError::Unreachable { .. }), "{error:?}");
    assert_eq!((shown, server.requests().len()), (vec!["half".to_owned()], 1));
}

#[test]
fn nobody_there_is_unreachable() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let server = Server::new(Vec::new());
    let model = HostedModel::new(HostedOptions { base_url, ..options(&server) }).unwrap();
    let error = error_of(model.answer(&request()));
    assert!(matches!(error, ChatError::Unreachable { .. }), "{error:?}");
    assert_eq!((model.usage().requests, model.usage().retries), (3, 2));
}

#[test]
fn only_transient_errors_are_retried() {
    let past = "retry-after: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    let server = Server::new(vec![
        status(429, "retry-after: 0\r\n", ""),
        status(503, past, "busy"),
        json(&completion("hi")),
    ]);
    let asked = model(&server);
    assert_eq!(asked.answer(&request()).unwrap().text, "hi");
    assert_eq!(asked.usage().retries, 2);

    let mut acts: Vec<Act> = [(); 3]
        .map(|()| status(500, "", "{\"error\": {\"message\": \"out of\\n memory\\u001b[0m\"}}"))
        .into();
    acts.push(json(&completion("too late")));
    let server = Server::new(acts);
    let error = error_of(model(&server).answer(&request()));
    let ChatError::Status { status: 500, detail, .. } = &error else { panic!("{error:?}") };
    assert_eq!(detail, "out of memory[0m");
    assert_eq!(server.requests().len(), 3);

    for code in [400, 401, 403, 404, 422, 501, 204, 304] {
        let server = Server::new(vec![status(code, "", ""), json(&completion("too late"))]);
        let error = error_of(model(&server).answer(&request()));
        let ChatError::Status { status, .. } = &error else { panic!("{error:?}") };
        assert_eq!((*status, server.requests().len()), (code, 1));
    }
}

#[test]
fn a_wait_beyond_the_deadline_is_not_retried() {
    for wait in ["3600", "99999999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"] {
        let limited = status(429, &format!("retry-after: {wait}\r\n"), "slow down");
        let server = Server::new(vec![limited, json(&completion("too soon"))]);
        let error = error_of(model(&server).answer(&request()));
        let ChatError::Status { status: 429, detail, .. } = &error else { panic!("{error:?}") };
        assert_eq!((detail.as_str(), server.requests().len()), ("slow down", 1), "{wait}");
    }
}

#[test]
fn no_server_holds_us_longer_than_the_time_there_is() {
    let json_head = "HTTP/1.1 200 X\r\ncontent-type: application/json\r\n\r\n";
    let events_head = "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n: ";
    let acts = vec![
        drip("HTTP/1.1 200 X\r\nx: "),
        drip(json_head),
        drip(events_head),
        silence(""),
        silence(json_head),
    ];
    let streamed = [false, false, true, false, false];
    let server = Server::new(acts);
    let model =
        HostedModel::new(HostedOptions { total_timeout: SHORT, ..options(&server) }).unwrap();
    for streamed in streamed {
        let answer = if streamed { pieces(&model).1 } else { model.answer(&request()) };
        let error = error_of(answer);
        assert!(matches!(error, ChatError::Timeout { limit: SHORT, .. }), "{error:?}");
    }
    assert_eq!(model.usage().retries, 0);
}

#[test]
fn a_silent_server_is_left_before_all_the_time_is_over() {
    let head = "HTTP/1.1 200 X\r\ncontent-type: application/json\r\n\r\n";
    let server = Server::new(vec![silence(""), silence(head)]);
    let model =
        HostedModel::new(HostedOptions { idle_timeout: SHORT, ..options(&server) }).unwrap();
    for _ in 0..2 {
        let error = error_of(model.answer(&request()));
        assert!(matches!(error, ChatError::Timeout { limit: SHORT, .. }), "{error:?}");
    }
}

#[test]
fn an_answer_of_100_mb_is_not_read() {
    let one_event = "content-type: text/event-stream\r\n";
    let acts = vec![huge("content-type: application/json\r\n"), huge(one_event)];
    let server = Server::new(acts);
    let model = model(&server);
    for answer in [model.answer(&request()), pieces(&model).1] {
        let error = error_of(answer);
        let ChatError::Answer { detail, .. } = &error else { panic!("{error:?}") };
        assert!(detail.contains("longer than 1000000 bytes"), "{detail}");
    }
    let refused = Server::new(vec![Box::new(|mut stream| {
        use std::io::Write as _;
        stream.write_all(b"HTTP/1.1 400 X\r\ncontent-length: 100000000\r\n\r\n")?;
        (0..100).try_for_each(|_| stream.write_all(&vec![b'x'; MEGABYTE]))
    })]);
    let error = error_of(self::model(&refused).answer(&request()));
    let ChatError::Status { status: 400, detail, .. } = &error else { panic!("{error:?}") };
    assert_eq!(detail.chars().count(), 201);
}

#[test]
fn redirects_are_not_followed() {
    for code in [301, 302, 303, 307, 308] {
        let other = Server::new(vec![json(&completion("stolen"))]);
        let location = format!("location: {}/v1/chat/completions\r\n", other.url);
        let server = Server::new(vec![status(code, &location, "")]);
        let error = error_of(model(&server).answer(&request()));
        let ChatError::Status { status, .. } = &error else { panic!("{error:?}") };
        assert_eq!(*status, code);
        assert!(other.requests().is_empty(), "{code}: followed");
    }
}

#[test]
fn errors_do_not_contain_an_echoed_key() {
    let quoted = format!("Incorrect API key provided: {KEY}.");
    let pieces_of_it = format!("{} {}", &KEY[..16], &KEY[8..]);
    let acts = vec![
        status(401, "", &json!({"error": {"message": quoted}}).to_string()),
        status(401, "", &quoted),
        status(401, "", &pieces_of_it),
        status(401, "", &format!("{}{KEY}", "x".repeat(190))),
        status(200, &format!("content-type: {KEY}\r\n"), ""),
        json(&json!({"error": quoted})),
        json(&json!({"choices": KEY})),
        json(&json!({"choices": [{"message": {"content": "a"}, "finish_reason": KEY}]})),
        bytes(format!("HTTP/1.1 {KEY}\r\n\r\n")),
    ];
    let count = acts.len();
    let server = Server::new(acts);
    let model = model(&server);
    let errors: Vec<String> =
        (0..count).map(|_| error_of(model.answer(&request())).to_string()).collect();
    assert!(errors[0].contains("Incorrect API key provided: [key]."), "{}", errors[0]);
    assert_eq!(server.requests().len(), count);
}

#[test]
fn p16_all_models_of_one_account_share_its_rate_limit() {
    let server = Server::new(vec![
        json(&completion("hi")),
        json(&completion("hi")),
        status(503, "", ""),
        json(&completion("hi")),
    ]);
    let [first, second, other, third] = [KEY, KEY, "another-key", "third-key"].map(|key| {
        HostedModel::new(HostedOptions {
            api_key: Some(Secret::new(key).unwrap()),
            requests_per_minute: Some(NonZeroU32::MIN),
            total_timeout: Duration::from_secs(30),
            ..options(&server)
        })
        .unwrap()
    });
    assert_eq!(first.answer(&request()).unwrap().text, "hi");
    // The next slot is a minute away, beyond the deadline of 30 seconds: no wait and no request.
    let error = error_of(second.answer(&request()));
    assert!(matches!(error, ChatError::Timeout { .. }), "{error:?}");
    assert_eq!(server.requests().len(), 1);
    assert_eq!(other.answer(&request()).unwrap().text, "hi");
    // Retries count as requests. The error is the server's, not that there was no slot for a retry.
    let error = error_of(third.answer(&request()));
    assert!(matches!(error, ChatError::Status { status: 503, .. }), "{error:?}");
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn invalid_requests_are_not_sent() {
    let server = Server::new(Vec::new());
    let request = ChatRequest { messages: Vec::new(), ..request() };
    let error = error_of(model(&server).answer(&request));
    assert!(matches!(error, ChatError::Request { .. }), "{error:?}");
    assert!(server.requests().is_empty());
}

#[test]
fn a_model_can_be_shared_between_threads() {
    let server = Server::new((0..8).map(|_| json(&completion("hi"))).collect());
    let model = model(&server);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(model.answer(&request()).unwrap().text, "hi"));
        }
    });
    let tokens = Usage { prompt_tokens: 24, completion_tokens: 16 };
    assert_eq!((model.usage().requests, model.usage().tokens), (8, tokens));
}
