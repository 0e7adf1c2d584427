//! The service over real sockets, in front of a scripted vendor.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::Write as _;

use common::{ANSWER, CHAT, HELLO, Running, Vendor, answer, options};
use custody_gateway::proxy::GuardMode;
use custody_kernel::memory::rate::Limits;
use custody_kernel::principal::Role;
use custody_runtime::advice::Coverage;
use custody_runtime::clock::Clock;
use custody_runtime::scratch::Scratch;
use custody_service::settings::ConnectionEntry;
use custody_service::{Server, ServerError, ServerOptions, SessionModels};

#[test]
fn a_request_goes_to_its_vendor_byte_for_byte_and_without_the_credential() {
    let vendor = Vendor::new(answer("200 OK", "application/json", ANSWER));
    let running = Running::of(&vendor, GuardMode::Guard);
    let got = running.chat(HELLO);
    assert!(
        got.starts_with("HTTP/1.1 200")
            && got.ends_with(ANSWER)
            && got.contains("x-request-id: r1"),
        "{got}"
    );
    let asked = vendor.asked().concat();
    assert!(
        asked.starts_with("POST /v1/chat/completions HTTP/1.1") && asked.ends_with(HELLO),
        "{asked}"
    );
    assert!(asked.contains("vendor-canary") && !asked.contains(&running.token), "{asked}");
}

#[test]
fn only_the_key_of_a_connection_opens_anything() {
    let vendor = Vendor::new(answer("200 OK", "application/json", ANSWER));
    let running = Running::of(&vendor, GuardMode::Guard);
    let token = &running.token;
    let before = running.records();
    for (path, headers, status) in [
        (CHAT, String::from("x-other: 1"), "401"),
        (CHAT, "x-custody-key: custody_guess".into(), "401"),
        (CHAT, format!("x-custody-key: {token}\r\nx-custody-key: {token}"), "401"),
        (CHAT, format!("x-custody-key: {token}\r\nOrigin: https://page.example"), "403"),
        // A user's key may not stand where others read it.
        (&format!("/c/{token}{CHAT}"), "x-other: 1".into(), "401"),
        ("/openai/v1/files", format!("x-custody-key: {token}"), "404"),
        ("/openai/v1/responses/resp_1/cancel", format!("x-custody-key: {token}"), "404"),
        ("/openai/v1/embeddings", "x-other: 1".into(), "401"),
        ("/openai/v1/responses", "x-other: 1".into(), "401"),
        ("/openai/v1/responses/compact", "x-other: 1".into(), "401"),
        ("/gemini/v1beta/models/m:generateContent", "x-other: 1".into(), "401"),
        (&format!("/c/{token}/gemini/v1beta/models/m:generateContent"), "x-other: 1".into(), "401"),
        ("/gemini/v1beta/models/m:streamGenerateContent", format!("x-custody-key: {token}"), "400"),
        ("/gemini/v1beta/models/m:batchGenerateContent", format!("x-custody-key: {token}"), "404"),
        ("/gemini/v1beta/models/m%3AgenerateContent", format!("x-custody-key: {token}"), "404"),
        ("/gemini/v1alpha/models/m:generateContent", format!("x-custody-key: {token}"), "404"),
        ("/gemini/v1beta/tunedModels/m:generateContent", format!("x-custody-key: {token}"), "404"),
        ("/hook/claude-code", "x-other: 1".into(), "401"),
    ] {
        let got = running.post(path, &headers, HELLO.as_bytes());
        assert!(got.starts_with(&format!("HTTP/1.1 {status}")), "{path} {headers}: {got}");
        assert!(!got.contains(token.as_str()), "{got}");
    }
    let rebound = running.send(
        &format!("POST {CHAT} HTTP/1.1\r\nHost: evil.example:7411\r\nx-custody-key: {token}"),
        HELLO.as_bytes(),
    );
    assert!(rebound.starts_with("HTTP/1.1 403"), "{rebound}");
    for (path, headers, status) in [
        ("/openai/v1/responses", "Upgrade: websocket", "426"),
        ("/c/key/openai/v1/responses", "Upgrade: websocket", "426"),
        ("/gemini/v1beta/models/m:generateContent", "Upgrade: websocket", "426"),
        ("/openai/v1/responses", "x-other: 1", "404"),
        ("/openai/v1/responses/resp_1", "x-other: 1", "404"),
    ] {
        let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{headers}", running.address);
        let got = running.send(&head, b"");
        assert!(got.starts_with(&format!("HTTP/1.1 {status}")), "{path} {headers}: {got}");
    }
    assert_eq!(
        (vendor.asked().len(), running.records()),
        (0, before),
        "nothing went on or was recorded"
    );
}

#[test]
fn every_dialect_has_its_addresses_and_is_recorded_where_a_model_answers() {
    let responses = r#"{"output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hm."}]}]}"#;
    let history = r#"{"object":"response.compaction","output":[{"type":"compaction","encrypted_content":"x"}]}"#;
    let gemini = r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"Hm."}]}}]}"#;
    let contents = r#"{"contents":[{"role":"user","parts":[{"text":"Hello."}]}]}"#;
    let input = r#"{"input":"Hello.","model":"m"}"#;
    for (path, body, said, is_recorded) in [
        ("/openai/v1/chat/completions", HELLO, ANSWER, true),
        ("/openai/v1/responses", input, responses, true),
        ("/openai/v1/responses/compact", input, history, true),
        ("/openai/v1/embeddings", input, r#"{"data":[]}"#, false),
        ("/gemini/v1beta/models/m:generateContent?key=k", contents, gemini, true),
        ("/gemini/v1/models/m:generateContent", contents, gemini, true),
        ("/gemini/v1beta/models/m:countTokens", contents, r#"{"totalTokens":1}"#, false),
        ("/gemini/v1beta/models/m:embedContent", contents, r#"{"embedding":{}}"#, false),
    ] {
        let vendor = Vendor::new(answer("200 OK", "application/json", said));
        let upstream = Some(format!("http://{}", vendor.address));
        let entry = ConnectionEntry { mode: GuardMode::Guard, upstream, ..Default::default() };
        let running = Running::new(entry, Role::Agent);
        for path in [path.to_owned(), format!("/c/{}{path}", running.token)] {
            let before = running.records();
            let got = running.post(&path, &running.headers(), body.as_bytes());
            assert!(got.starts_with("HTTP/1.1 200") && got.ends_with(said), "{path}: {got}");
            assert_eq!(running.records() > before, is_recorded, "{path}");
        }
        let (_, sent) = path.split_at(path.find("/v1").unwrap());
        for asked in vendor.asked() {
            assert!(asked.starts_with(&format!("POST {sent} HTTP/1.1")), "{asked}");
            assert!(asked.ends_with(body) && !asked.contains(&running.token), "{asked}");
        }
    }
}

#[test]
fn a_stream_of_google_is_decided_event_by_event() {
    let event = |part: &str| {
        format!("data: {{\"candidates\":[{{\"content\":{{\"parts\":[{part}]}}}}]}}\r\n\r\n")
    };
    let said = event(r#"{"text":"Hm."}"#);
    let stream = format!("{said}{}", event(r#"{"functionCall":{"name":"send","args":{}}}"#));
    let vendor = Vendor::new(answer("200 OK", "text/event-stream", &stream));
    let running = Running::of(&vendor, GuardMode::Guard);
    let body = br#"{"contents":[{"role":"user","parts":[{"text":"Hello."}]}]}"#;
    let path = "/gemini/v1beta/models/m:streamGenerateContent?alt=sse";
    let got = running.post(path, &running.headers(), body);
    assert!(got.contains(&said), "what is not changed keeps its bytes: {got}");
    assert!(!got.contains("functionCall") && got.contains("[Custody]"), "{got}");
    assert_eq!(running.coverages(), [Coverage::Checked]);
}

#[test]
fn a_host_names_its_conversation_in_a_header() {
    for header in ["x-custody-session", "x-claude-code-session-id", "session-id"] {
        let vendor = Vendor::new(answer("200 OK", "application/json", ANSWER));
        let running = Running::of(&vendor, GuardMode::Guard);
        for _ in 0..2 {
            let headers = format!("{}\r\n{header}: one", running.headers());
            assert!(running.post(CHAT, &headers, HELLO.as_bytes()).starts_with("HTTP/1.1 200"));
        }
        let sessions = running.scratch.store.state(|state| state.sessions().count()).unwrap();
        assert_eq!(sessions, 1, "{header}");
    }
}

#[test]
fn an_agents_key_may_stand_in_the_address() {
    let vendor = Vendor::new(answer("200 OK", "application/json", ANSWER));
    let upstream = Some(format!("http://{}", vendor.address));
    let running = Running::new(ConnectionEntry { upstream, ..Default::default() }, Role::Agent);
    let got = running.post(&format!("/c/{}{CHAT}", running.token), "x-other: 1", HELLO.as_bytes());
    assert!(got.starts_with("HTTP/1.1 200"), "{got}");
    assert!(!vendor.asked().concat().contains(&running.token));
}

#[test]
fn what_is_not_understood_does_not_go_on() {
    let vendor = Vendor::new(answer("200 OK", "application/json", ANSWER));
    let running = Running::of(&vendor, GuardMode::Guard);
    let key = format!("x-custody-key: {}", running.token);
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..40 {
        bomb.write_all(&[b' '; 1 << 20]).unwrap();
    }
    let bomb = bomb.finish().unwrap();
    for (headers, body, status) in [
        ("", b"{".as_slice(), "400"),
        ("", br#"{"messages":[],"messages":[]}"#, "400"),
        ("", b"\xff", "400"),
        ("\r\nContent-Encoding: br", b"x", "415"),
        ("\r\nContent-Encoding: gzip", &bomb, "400"),
        ("\r\nContent-Encoding: gzip", b"no gzip", "400"),
    ] {
        let got = running.post(CHAT, &format!("{key}{headers}"), body);
        assert!(got.starts_with(&format!("HTTP/1.1 {status}")), "{headers}: {got}");
        assert!(got.contains("\"error\""), "in the vendor's form: {got}");
    }
    assert_eq!(vendor.asked().len(), 0);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(HELLO.as_bytes()).unwrap();
    let got =
        running.post(CHAT, &format!("{key}\r\nContent-Encoding: gzip"), &gzip.finish().unwrap());
    assert!(got.starts_with("HTTP/1.1 200") && vendor.asked().concat().ends_with(HELLO), "{got}");
}

#[test]
fn what_a_vendor_does_wrong_is_not_passed_on_as_an_answer() {
    let event = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hm.\"},\"finish_reason\":null}]}\n\n";
    let half = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{event}\r\n",
        event.len()
    );
    let cases: [(&'static [u8], &str); 5] = [
        (answer("200 OK", "application/json", "{\"choices\":[{\"message\":"), "HTTP/1.1 502"),
        (answer("200 OK", "application/json", "{}"), "HTTP/1.1 502"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{",
            "HTTP/1.1 502",
        ),
        (b"nonsense", "HTTP/1.1 502"),
        (answer("429 Too Many Requests", "application/json", "{\"error\":1}"), "HTTP/1.1 429"),
    ];
    for (vendors, status) in cases {
        let vendor = Vendor::new(vendors);
        let got = Running::of(&vendor, GuardMode::Guard).chat(HELLO);
        assert!(got.starts_with(status), "{got}");
        assert!(got.contains("error"), "{got}");
    }
    // A stream that breaks off breaks off here too: without its last chunk no client takes it for whole.
    let vendor = Vendor::new(half.into_bytes().leak());
    let got = Running::of(&vendor, GuardMode::Guard).chat(HELLO);
    assert!(got.contains("Hm.") && !got.ends_with("0\r\n\r\n"), "{got}");
    // Nobody listens.
    let upstream = Some("http://127.0.0.1:9".to_owned());
    let running = Running::new(ConnectionEntry { upstream, ..Default::default() }, Role::User);
    assert!(running.chat(HELLO).starts_with("HTTP/1.1 502"));
}

#[test]
fn settings_that_loosen_wait_and_settings_that_tighten_hold() {
    let vendor = Vendor::new(answer("200 OK", "application/json", ANSWER));
    let running = Running::of(&vendor, GuardMode::Guard);
    let file = running.folder.path().join("gateway.toml");
    assert!(running.chat(HELLO).starts_with("HTTP/1.1 200"));
    let signed = std::fs::read_to_string(&file).unwrap();
    let n = r#"{"messages":[],"n":2}"#;
    for (text, body, status) in [
        (signed.replace("strict = false", "strict = true"), n, "403"),
        (signed.replace(&vendor.address.to_string(), "127.0.0.1:9"), HELLO, "200"),
        ("[connection".to_owned(), n, "200"),
        (String::new(), HELLO, "403"),
    ] {
        // Written at another second than before, as far as the file system can tell.
        std::fs::write(&file, &text).unwrap();
        let later = std::time::UNIX_EPOCH
            + std::time::Duration::from_secs(1_800_000_000 + text.len() as u64);
        std::fs::File::options().append(true).open(&file).unwrap().set_modified(later).unwrap();
        let got = running.chat(body);
        assert!(got.starts_with(&format!("HTTP/1.1 {status}")), "{text}: {got}");
    }
}

#[test]
fn a_revoked_key_opens_nothing() {
    let vendor = Vendor::new(answer("200 OK", "application/json", ANSWER));
    let running = Running::of(&vendor, GuardMode::Guard);
    assert!(running.chat(HELLO).starts_with("HTTP/1.1 200"));
    let Scratch { store, owner, .. } = &running.scratch;
    store.revoke_principal(owner, "ada").unwrap();
    assert!(running.chat(HELLO).starts_with("HTTP/1.1 401"));
}

#[test]
fn the_service_is_not_reached_from_other_machines() {
    let scratch = Scratch::new(Limits::default(), Clock::System).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let open = ServerOptions { address: "0.0.0.0:0".parse().unwrap(), ..options() };
    let bound = runtime.block_on(Server::bind(
        open,
        scratch.store.clone(),
        "none".into(),
        SessionModels::default(),
    ));
    assert!(matches!(bound, Err(ServerError::NotLoopback(_))));
}
