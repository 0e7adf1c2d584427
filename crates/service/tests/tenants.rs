//! Many connections, and many users of one: nothing of one conversation is in another's.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use common::{CHAT, Running, Vendor, answer, options};
use custody_gateway::proxy::GuardMode;
use custody_kernel::principal::Role;
use custody_kernel::record::Author;
use custody_runtime::store::content_of;
use custody_service::settings::ConnectionEntry;
use serde_json::{Value, json};

/// A vendor that repeats what it was told last.
fn echo() -> Vendor {
    Vendor::scripted(|stream, request| {
        let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
        let last = body["messages"].as_array().unwrap().last().unwrap()["content"].clone();
        let message = json!({"role": "assistant", "content": format!("You said: {}", last.as_str().unwrap())});
        let choices = json!([{"index": 0, "message": message, "finish_reason": "stop"}]);
        let body = json!({ "choices": choices }).to_string();
        let _ = stream.write_all(answer("200 OK", "application/json", &body));
    })
}

/// A conversation of three turns, the first of which is everybody's.
fn converse(running: &Running, token: &str, conversation: Option<&str>, secret: &str) {
    let mut messages = Vec::new();
    for said in ["Hello.", secret, "Go on."] {
        messages.push(json!({"role": "user", "content": said}));
        let named = conversation.map_or(String::new(), |id| format!("\r\nx-custody-session: {id}"));
        let headers = format!("x-custody-key: {token}{named}");
        let body = json!({ "messages": messages }).to_string();
        let got = running.post(CHAT, &headers, body.as_bytes());
        assert!(got.starts_with("HTTP/1.1 200"), "{got}");
        assert!(got.contains(&format!("You said: {said}")), "another's answer: {got}");
        let body: Value = serde_json::from_str(got.split_once("\r\n\r\n").unwrap().1).unwrap();
        messages.push(body["choices"][0]["message"].clone());
    }
}

#[test]
fn of_twenty_connections_and_twenty_users_of_one_nothing_crosses() {
    let vendor = echo();
    // Names that look alike, or like parts of each other.
    let names: Vec<String> = (0..20)
        .map(|at| match at {
            0 => "ada".to_owned(),
            at if at % 2 == 0 => format!("ada-{at}"),
            at => format!("ada-0{at}"),
        })
        .collect();
    let entry = ConnectionEntry {
        mode: GuardMode::Guard,
        upstream: Some(format!("http://{}", vendor.address)),
        ..Default::default()
    };
    let entries = names.iter().map(|name| (name.clone(), entry.clone())).collect();
    let running = Running::with(entries, Role::User, options());
    std::thread::scope(|scope| {
        for (at, name) in names.iter().enumerate() {
            let (running, token) = (&running, &running.tokens[name]);
            // The same ids under every credential, some of which look like another one's.
            let ids = ["s", "ada/s", "../ada/s", "ada-3/s"];
            let id = ids[at % ids.len()];
            scope.spawn(move || converse(running, token, Some(id), &format!("secret of {name}!")));
        }
        for user in 0..20 {
            let running = &running;
            let secret = format!("secret of user {user}!");
            scope.spawn(move || converse(running, &running.token, None, &secret));
        }
    });

    let mut contents: BTreeMap<String, String> = BTreeMap::new();
    for record in running.all_records() {
        let Author::Session(session) = &record.by else { continue };
        if let Some(content) = content_of(&record) {
            let text = running.scratch.store.content(content).unwrap();
            *contents.entry(session.to_string()).or_default() += &String::from_utf8_lossy(&text);
        }
    }
    let mut found = 0;
    for (session, text) in &contents {
        let secrets: BTreeSet<&str> = text
            .match_indices("secret of ")
            .map(|(at, _)| text[at..].split('!').next().unwrap())
            .collect();
        assert!(secrets.len() <= 1, "{session}: {secrets:?}");
        found += secrets.len();
    }
    assert_eq!(found, 40, "each secret is in one session");
}
