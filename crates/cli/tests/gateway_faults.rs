//! The gateway as a process: too many clients, a full disk, the end of its supervisor's patience, and secrets that
//! nobody may find anywhere.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::net::TcpStream;

use common::gateway::{ANSWER, Gateway, Vendor};
use common::{Home, skipped};

const IDLE: usize = 10_000;

#[test]
fn ten_thousand_connections_that_say_nothing_keep_nobody_out() {
    let (home, vendor) = (Home::founded(), Vendor::start());
    let key = home.connect_client(&vendor.url);
    let gateway = home.gateway("");
    let mut idle = Vec::new();
    for _ in 0..IDLE {
        match TcpStream::connect(&gateway.address) {
            Ok(stream) => idle.push(stream),
            Err(error) => {
                skipped(&format!("{} of {IDLE} connections could be opened: {error}", idle.len()));
                return;
            }
        }
    }
    let answer = gateway.chat(&key, "Hello.");
    assert!(answer.ends_with(ANSWER), "{answer}");
    assert_eq!(vendor.asked(), 1);
}

#[test]
fn on_a_full_disk_nothing_goes_on_that_is_not_recorded() {
    let (home, vendor) = (Home::founded(), Vendor::start());
    let key = home.connect_client(&vendor.url);
    // No file may grow beyond 2 MiB, as if there were no room for more.
    let limited = home.gateway("trap '' XFSZ; ulimit -f 4096");
    let mut answered = 0;
    let refused = loop {
        let answer = limited.chat(&key, &format!("{answered} {}", "long ".repeat(40_000)));
        if !answer.ends_with(ANSWER) {
            break answer;
        }
        answered += 1;
        assert!(answered < 100, "the disk is never full");
    };
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("record"), "{refused}");
    assert!(vendor.asked() <= answered + 1, "{} asked, {answered} answered", vendor.asked());
    let ready = limited.send("GET", "/readyz", "", "");
    assert!(ready.contains("degraded"), "{ready}");
    assert!(limited.log().contains("cannot be kept"), "{}", limited.log());
    assert!(refused.contains("x-custody-status: degraded"), "{refused}");
    for args in [&["enforce"][..], &["session", "list"], &["session", "pending"]] {
        let said = home.alone(args).expect(0).stderr;
        assert!(said.contains("`custody serve` is degraded: the record could not"), "{said}");
    }
    let said = home.alone(&["enforce", "--json"]).expect(0).json();
    assert_eq!(said[0]["service"], "degraded");
    assert!(home.alone(&["hook", "status"]).expect(1).stderr.contains("is degraded"));
    let doctor = home.alone(&["doctor"]).expect(1).stdout;
    assert!(doctor.contains("`custody serve` is degraded"), "{doctor}");
    home.write_private("key", &key);
    let run = ["hook", "run", "codex", "--event", "UserPromptSubmit", "--key", "key", "--address"];
    let prompt = serde_json::json!({
        "session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": "long ".repeat(40_000)
    });
    let run = [&run[..], &[&limited.address]].concat();
    let hook = home.alone_with(&run, &[], &prompt.to_string()).expect(2);
    assert!(hook.stderr.contains("Custody is degraded, so this does not go on"), "{hook:?}");
    drop(limited);

    // With room again, everything that was answered is there.
    let gateway = home.gateway("");
    assert!(gateway.chat(&key, "Go on.").ends_with(ANSWER));
    drop(gateway);
    home.alone(&["ledger", "verify"]).expect(0);
    let records = home.alone(&["ledger", "show", "--json", "--limit", "1000"]).expect(0).stdout;
    let checked = records.matches("\"coverage\":\"checked\"").count();
    assert!(checked > answered, "{answered} answers and one more, {checked} records");
}

/// Sends a message of the MCP server `mail` that is recorded, and returns what becomes of it.
fn server_says(gateway: &Gateway, key: &str, id: usize) -> String {
    let params = serde_json::json!({ "text": format!("{id} {}", "long ".repeat(40_000)) });
    let message = serde_json::json!({
        "jsonrpc": "2.0", "id": id, "method": "sampling/createMessage", "params": params
    });
    let headers = format!("x-custody-key: {key}\r\n");
    gateway.send("POST", "/mcp/mail/p1/server", &headers, &message.to_string())
}

#[test]
fn what_an_mcp_server_says_and_cannot_be_recorded_makes_the_service_degraded() {
    let (home, vendor) = (Home::founded(), Vendor::start());
    let key = home.connect_client(&vendor.url);
    let limited = home.gateway("trap '' XFSZ; ulimit -f 4096");
    assert!(limited.send("GET", "/readyz", "", "").contains("ready"));
    let passed = (0..100).map(|id| server_says(&limited, &key, id));
    let refused = passed.into_iter().find(|passed| passed.contains("\"goes_on\":false")).unwrap();
    assert!(refused.contains(r#"\"data\":{\"custody\":\"degraded\"}"#), "{refused}");
    let ready = limited.send("GET", "/readyz", "", "");
    assert!(ready.contains("HTTP/1.1 503") && ready.contains("degraded"), "{ready}");
    // What writes nothing tells nothing of whether the record can be kept.
    let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let headers = format!("x-custody-key: {key}\r\n");
    let passed = limited.send("POST", "/mcp/mail/p1/client", &headers, note);
    assert!(passed.contains("\"goes_on\":true"), "{passed}");
    assert!(limited.send("GET", "/readyz", "", "").contains("degraded"));
}

#[test]
fn a_secret_is_in_no_log_error_or_record_and_the_service_ends_when_asked() {
    let (home, vendor) = (Home::founded(), Vendor::start());
    let key = home.connect_client(&vendor.url);
    let mut gateway = home.gateway("");
    let canary = "canary-5f0c";
    let chat = "/openai/v1/chat/completions";
    let body = |text: &str| format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}]}}"#);
    let with_key = format!("x-custody-key: {key}\r\nAuthorization: Bearer {canary}-vendor\r\n");
    let mut answers = String::new();
    for (path, headers, body) in [
        (chat.to_owned(), with_key.clone(), body("Hello.")),
        (chat.to_owned(), with_key.clone(), format!("{{ {canary}-broken")),
        (chat.to_owned(), format!("x-custody-key: custody_{canary}\r\n"), body("Hello.")),
        (chat.to_owned(), with_key.clone() + "Content-Encoding: br\r\n", body("Hello.")),
        (format!("/c/{key}{chat}"), String::new(), body("Hello.")),
        (format!("/c/{canary}-path/openai/v1/files"), with_key.clone(), body("Hello.")),
        (format!("/openai/v1/models?key={canary}-query"), with_key.clone(), String::new()),
        ("/hook/claude-code".to_owned(), with_key.clone(), format!("{{ {canary}-hook")),
    ] {
        answers += &gateway.send("POST", &path, &headers, &body);
    }
    assert!(gateway.terminate().success(), "it ends well when it is asked to");
    let log = gateway.log();
    assert!(log.contains("\"status\":200") && log.contains("\"status\":400"), "{log}");
    let mut stored = std::fs::read(home.database()).unwrap();
    let wal = home.database().with_extension("db-wal");
    stored.extend(std::fs::read(wal).unwrap_or_default());
    let stored = String::from_utf8_lossy(&stored);
    for (place, text) in [("log", &log), ("answers", &answers), ("store", &stored.into_owned())] {
        for secret in [canary, &key] {
            assert!(!text.contains(secret), "`{secret}` is in the {place}: {text:.400}");
        }
    }
}
