//! The gateway as a process: too many clients, a full disk, the end of its supervisor's patience, and secrets that
//! nobody may find anywhere.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::net::TcpStream;

use common::gateway::{ANSWER, Vendor};
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
