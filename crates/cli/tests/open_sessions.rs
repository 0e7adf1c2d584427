//! Sessions whose host ends, in whatever way (G23).

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::gateway::Vendor;
use common::{Home, OWNER_PASSPHRASE};

const FOR_ADA: &str = "--token-file token.txt";

fn open(home: &Home) -> Vec<serde_json::Value> {
    home.alone(&["session", "list", "--json"]).expect(0).json()
}

fn is_open(home: &Home, session: &str) -> bool {
    open(home).iter().any(|open| open["session"] == session)
}

#[test]
fn g23_the_end_of_its_input_or_a_polite_signal_closes_the_sessions_of_a_host() {
    let home = Home::of_ada();
    for how in ["end of input", "TERM", "INT", "HUP"] {
        let mut host = home.host(FOR_ADA);
        let second = host.says(br#"{"id":1,"op":"open"}"#)["session"].as_str().unwrap().to_owned();
        let first = host.session().to_owned();
        assert!(is_open(&home, &first) && is_open(&home, &second), "{how}");
        match how {
            "end of input" => drop(host.ends().expect(0)),
            signal => host.end_by(signal),
        }
        assert!(!is_open(&home, &first) && !is_open(&home, &second), "{how}");
    }
    home.alone(&["ledger", "verify"]).expect(0);
}

#[test]
fn g23_a_session_left_behind_is_listed_and_closed_by_its_principal_or_the_owner() {
    let home = Home::of_ada();
    let nothing = home.alone(&["session", "list"]).expect(0);
    assert_eq!(nothing.stdout, "No session is open.\n");
    let left = |args: &str| {
        let host = home.host(args);
        let session = host.session().to_owned();
        host.kill();
        session
    };
    let [one, two, three] = [FOR_ADA; 3].map(left);
    let nobodys = left("");
    let listed = open(&home);
    assert_eq!(listed.len(), 4);
    assert!(listed.iter().all(|open| open["age_ms"].is_u64() && open["idle_ms"].is_u64()));
    assert_eq!(listed[0]["principal"], "ada");
    let table = home.alone(&["session", "list"]).expect(0).stdout;
    assert!(table.contains(&one) && table.contains("idle for"), "{table}");

    let mut close = vec!["session", "close", &one];
    home.alone(&close).expect(1);
    assert!(is_open(&home, &one), "nobody in particular closes nobody's but their own");
    close.extend(["--token-file", "token.txt"]);
    let ran = home.alone(&close).expect(0);
    assert_eq!(ran.stdout, "closed 1 session\n");
    home.alone(&close).refused("there is no open session");
    home.typing(&["session", "close", &two], &[OWNER_PASSPHRASE]).expect(0);
    let of_nobody = ["session", "close", &nobodys, "--token-file", "token.txt"];
    assert!(home.alone(&of_nobody).expect(1).stdout.contains("only the owner"));

    let idle =
        |time: &'static str| ["session", "close", "--token-file", "token.txt", "--idle", time];
    assert_eq!(home.alone(&idle("24h")).expect(0).stdout, "closed 0 sessions\n");
    assert!(is_open(&home, &three));
    assert_eq!(home.alone(&idle("0s")).expect(0).stdout, "closed 1 session\n", "its own alone");
    home.typing(&["session", "close", "--idle", "0s"], &[OWNER_PASSPHRASE]).expect(0);
    assert!(open(&home).is_empty());
    for wrong in ["", "yesterday", "-1h", "5"] {
        home.alone(&["session", "close", "--idle", wrong]).expect(2);
    }
    home.alone(&["session", "close"]).expect(2);
    home.alone(&["ledger", "verify"]).expect(0);
}

/// G23: with a time-out configured, `custody session` closes what its principal left idle. Nothing here waits
/// for an hour: a session that is in use stays.
#[test]
fn g23_a_configured_time_out_leaves_sessions_that_are_in_use() {
    let home = Home::of_ada();
    home.write("custody.toml", "[session]\nclose_idle_hours = 1\n");
    let host = home.host("--token-file token.txt");
    let left = host.session().to_owned();
    host.kill();
    let next = home.host("--token-file token.txt --config custody.toml");
    assert!(is_open(&home, &left));
    next.ends().expect(0);
    home.write("custody.toml", "[session]\nclose_idle_hours = 0\n");
    let args = ["session", "list", "--config", "custody.toml"];
    home.alone(&args).expect(2);
}

const COUNTED: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"Hm."},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":25,"prompt_tokens_details":{"cached_tokens":60}}}"#;

#[test]
fn what_a_session_took_is_shown_while_it_is_open_and_after_it_was_closed() {
    let (home, vendor) = (Home::founded(), Vendor::answering(COUNTED));
    let key = home.connect_client(&vendor.url);
    let mut gateway = home.gateway("");
    let request = |text: &str| {
        let body = serde_json::json!({"messages": [{"role": "user", "content": text}]}).to_string();
        let headers = format!("x-custody-key: {key}\r\nx-custody-session: one\r\n");
        gateway.send("POST", "/openai/v1/chat/completions", &headers, &body)
    };
    for text in ["Hello.", "Once more."] {
        assert!(request(text).ends_with(COUNTED));
    }
    let listed = open(&home);
    let usage = &listed[0]["usage"];
    let tokens = serde_json::json!({"input": 200, "cached_input": 120, "output": 50});
    assert_eq!((&usage["requests"], &usage["claimed_tokens"]), (&2.into(), &tokens), "{listed:?}");
    assert_eq!(usage["answer_bytes"], 2 * COUNTED.len());
    let table = home.alone(&["session", "list"]).expect(0).stdout;
    assert!(
        table.contains("2 requests") && table.contains("200 in (120 cached), 50 out"),
        "{table}"
    );
    let line = gateway.log();
    assert!(
        line.contains(r#""claimed_tokens":{"input":100,"cached_input":60,"output":25}"#),
        "{line}"
    );
    assert!(gateway.terminate().success());

    let session = listed[0]["session"].as_str().unwrap();
    assert!(!is_open(&home, session));
    let shown = home.alone(&["session", "show", session, "--json"]).expect(0).json();
    assert_eq!((&shown[0]["usage"], &shown[0]["open"]), (usage, &false.into()));
    assert_eq!(shown[0]["coverage"]["checked"], 2);
    assert_eq!(shown[0]["principal"], "openai");
    let shown = home.alone(&["session", "show", session]).expect(0).stdout;
    for said in ["closed", "2 checked", "by the vendors' own count"] {
        assert!(shown.contains(said), "{shown}");
    }
    let nobodys = format!("s-{}", "0".repeat(32));
    home.alone(&["session", "show", &nobodys]).refused("there was never a session");
    home.alone(&["ledger", "verify"]).expect(0);
}
