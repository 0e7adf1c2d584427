//! The bytes of every kind of record stay as they are: what was hashed into a tree is read and written alike for ever.

#![allow(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::collections::BTreeSet;

use custody_kernel::record::Record;
use serde_json::Value;

const RECORDS: &str = include_str!("golden/records.jsonl");

/// The one name of an externally tagged variant.
fn tag(value: &Value) -> String {
    match value {
        Value::String(name) => name.clone(),
        Value::Object(members) => members.keys().next().unwrap().clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            unreachable!("{value}")
        }
    }
}

fn tags(of: impl Fn(&Value) -> &Value) -> BTreeSet<String> {
    RECORDS.lines().map(|line| tag(of(&serde_json::from_str(line).unwrap()))).collect()
}

#[test]
fn every_kind_of_record_has_the_bytes_it_always_had() {
    for line in RECORDS.lines() {
        let record = Record::from_bytes(line.as_bytes()).expect(line);
        assert_eq!(String::from_utf8(record.to_bytes().unwrap()).unwrap(), line);
    }
}

#[test]
fn every_kind_of_request_and_answer_is_among_them() {
    let requests = [
        "adapt",
        "add_principal",
        "adopt_file",
        "adopt_ledger",
        "approve",
        "call",
        "close_session",
        "delete",
        "deny",
        "end_session",
        "extract",
        "found",
        "list",
        "observe",
        "open_session",
        "promote",
        "read",
        "recover",
        "revoke_principal",
        "rotate_log_key",
        "route",
        "set_limits",
        "set_mode",
        "set_policy",
        "withhold",
        "write",
    ];
    let found = tags(|record| &record["request"]);
    assert_eq!(found, requests.map(String::from).into());
    let answers = ["absent", "done", "found", "pending", "refused"];
    assert_eq!(tags(|record| &record["answer"]), answers.map(String::from).into());
}

#[test]
fn no_request_of_another_kind_or_with_another_field_is_read() {
    let record: Value = serde_json::from_str(RECORDS.lines().next().unwrap()).unwrap();
    let altered = |request: Value| {
        let mut record = record.clone();
        record["request"] = request;
        Record::from_bytes(&serde_json::to_vec(&record).unwrap())
    };
    assert!(altered(record["request"].clone()).is_ok());
    for request in
        ["\"open\"", "\"write\"", "{}", "{\"Write\":{}}", "[]", "null", "{\"close_session\":1}"]
    {
        assert!(altered(serde_json::from_str(request).unwrap()).is_err(), "{request}");
    }
    let two =
        r#"{"set_limits":{"changes":1,"window_ms":1,"proposal_ttl_ms":1},"close_session":null}"#;
    assert!(altered(serde_json::from_str(two).unwrap()).is_err());
}
