//! Which calls a declared intent covers, and that it binds every sink (G12).

#![allow(clippy::unwrap_used, reason = "a helper of a test may fail it")]

use custody_arguments::{
    Arguments, DeclaredIntents, Intent, IntentError, Parameter, Sink, TextIndex, ToolEffect,
    ToolManifest, trace,
};
use custody_log::Seq;
use serde_json::{Value, json};

fn manifest() -> ToolManifest {
    let sink = |sink| Parameter { sink: Some(sink), ..Parameter::default() };
    let arguments = [
        ("to", sink(Sink::Recipient)),
        ("cc", Parameter { optional: true, ..sink(Sink::Recipient) }),
        ("file", sink(Sink::Path)),
        ("amount", sink(Sink::Amount)),
        ("id", sink(Sink::Id)),
        ("colour", Parameter { optional: true, ..sink(Sink::Other) }),
        ("body", Parameter::default()),
    ];
    let arguments = arguments.map(|(name, parameter)| (name.to_owned(), parameter)).into();
    ToolManifest { effect: ToolEffect::Writes, arguments, ..ToolManifest::unknown() }
}

fn intent(sinks: &Value) -> Intent {
    serde_json::from_value(json!({ "tool": "send", "sinks": sinks })).unwrap()
}

/// Whether `intent` covers a call with these arguments, in a session whose user said `said`.
fn covers(intent: &Intent, arguments: &Value, said: &str) -> bool {
    covers_call_of(&manifest(), intent, arguments, said)
}

fn covers_call_of(tool: &ToolManifest, intent: &Intent, arguments: &Value, said: &str) -> bool {
    let mut texts = TextIndex::default();
    texts.add_user_text(said);
    texts.add_untrusted_text(Seq(3), "eve@evil.example /etc/passwd 999999");
    texts.add_trusted_value("f-77", "id");
    let arguments = Arguments::parse(&arguments.to_string()).unwrap();
    let leaves = trace(tool, &arguments, &texts).into_recorded();
    let mut declared = DeclaredIntents::default();
    declared.add(Seq(5), [intent.clone()]);
    let found = declared.matching("send", tool, &arguments, &leaves, |_| true);
    assert_eq!(declared.matching("other", tool, &arguments, &leaves, |_| true), None);
    assert_eq!(declared.matching("send", tool, &arguments, &leaves, |_| false), None);
    found.is_some()
}

fn full() -> Value {
    json!({
        "to": ["ann@example.com", "bob@example.com"],
        "file": { "under": "/srv/reports" },
        "amount": { "at_most": 50, "currency": "EUR" },
        "id": "x-1",
    })
}

fn call(change: &Value) -> Value {
    let mut call = json!({
        "to": "ann@example.com", "file": "/srv/reports/may.pdf", "amount": 49.99, "id": "x-1",
        "body": "Here it is.",
    });
    for (name, value) in change.as_object().unwrap() {
        call[name] = value.clone();
    }
    call
}

#[test]
fn g12_a_call_within_its_intent_is_covered() {
    let within = [
        json!({}),
        json!({ "to": ["ann@example.com", "bob@example.com"] }),
        json!({ "amount": 50, "file": "/srv/reports/2026/june.pdf" }),
        json!({ "amount": "50.00 EUR" }),
        json!({ "amount": "EUR 7" }),
        json!({ "cc": null }),
        json!({ "cc": [] }),
        json!({ "colour": null }),
    ];
    for change in within {
        assert!(covers(&intent(&full()), &call(&change), "Nothing of that."), "{change}");
    }
}

#[test]
fn g12_a_call_that_leaves_its_intent_in_any_sink_is_not_covered() {
    let outside = [
        json!({ "to": "eve@evil.example" }),
        json!({ "to": ["ann@example.com", "eve@evil.example"] }),
        json!({ "to": [] }),
        json!({ "to": null }),
        json!({ "to": "ANN@example.com" }),
        json!({ "to": "ann@example.com " }),
        json!({ "to": { "address": "ann@example.com" } }),
        json!({ "cc": "eve@evil.example" }),
        json!({ "cc": "ann@example.com" }),
        json!({ "bcc": "ann@example.com" }),
        json!({ "file": "/srv/reports" }),
        json!({ "file": "/srv/reports/../../etc/passwd" }),
        json!({ "file": "/srv/reports/./x" }),
        json!({ "file": "/srv/reports2/x" }),
        json!({ "file": "/srv/reports/~eve" }),
        json!({ "file": "/srv/reports/*" }),
        json!({ "file": "/srv/reports/%2e%2e/x" }),
        json!({ "file": "/etc/passwd" }),
        json!({ "amount": 50.01 }),
        json!({ "amount": -1 }),
        json!({ "amount": "1,000" }),
        json!({ "amount": "50 USD" }),
        json!({ "amount": "5e9" }),
        json!({ "amount": null }),
        json!({ "amount": [1, 999] }),
        json!({ "id": "x-2" }),
        json!({ "id": ["x-1", "x-2"] }),
        json!({ "body": "See https://evil.example/collect" }),
        json!({ "body": "Write to eve@evil.example" }),
    ];
    for change in outside {
        assert!(!covers(&intent(&full()), &call(&change), "Nothing of that."), "{change}");
    }
}

#[test]
fn a_list_of_one_value_is_a_list() {
    let one = intent(
        &json!({ "to": ["ann@example.com"], "file": { "under": "/srv" }, "amount": 1, "id": "x-1" }),
    );
    assert_eq!(one.check(&manifest()), Ok(()));
    let within = json!({ "to": ["ann@example.com"], "file": "/srv/a", "amount": 1 });
    assert!(covers(&one, &call(&within), ""));
    assert!(!covers(
        &one,
        &call(&json!({ "to": "bob@example.com", "file": "/srv/a", "amount": 1 })),
        ""
    ));
}

#[test]
fn what_stands_in_free_text_has_to_be_the_users_beside_an_intent() {
    let linked = call(&json!({ "body": "See https://intranet.example/may" }));
    assert!(covers(&intent(&full()), &linked, "Add the link https://intranet.example/may to it."));
    assert!(!covers(&intent(&full()), &linked, "Write to them."));
}

#[test]
fn a_name_that_a_server_made_needs_an_intended_sink_beside_it() {
    let mut sinks = full();
    sinks.as_object_mut().unwrap().remove("id");
    assert!(covers(&intent(&sinks), &call(&json!({ "id": "f-77" })), ""));
    assert!(!covers(&intent(&sinks), &call(&json!({ "id": "f-78" })), ""));
    let only = json!({ "tool": "send" });
    assert!(!covers(&serde_json::from_value(only).unwrap(), &json!({ "id": "f-77" }), ""));
}

#[test]
fn g12_any_value_is_intended_only_where_the_declaration_says_so_in_an_id_or_another_sink() {
    let any = json!({ "any": true });
    let mut sinks = full();
    sinks["id"] = any.clone();
    sinks["colour"] = any.clone();
    let wild = intent(&sinks);
    assert_eq!(wild.check(&manifest()), Ok(()));
    for change in [json!({ "id": "x-2" }), json!({ "id": 999_999, "colour": "red" })] {
        assert!(covers(&wild, &call(&change), ""), "{change}");
    }
    // What is left out or empty is no value, unless the manifest says that it does no more.
    // What else is bound stays bound.
    for change in [json!({ "id": null }), json!({ "id": [] }), json!({ "to": "eve@evil.example" })]
    {
        assert!(!covers(&wild, &call(&change), ""), "{change}");
    }
    // A wildcard binds nothing that a server's name could stand beside.
    let mut paint = manifest();
    paint.arguments.retain(|name, _| ["id", "colour"].contains(&name.as_str()));
    let call = json!({ "id": "f-77", "colour": "red" });
    for (colour, expected) in [(json!("red"), true), (any, false)] {
        let beside = intent(&json!({ "colour": colour }));
        assert_eq!(covers_call_of(&paint, &beside, &call, ""), expected, "{colour}");
    }
}

#[test]
fn g12_there_is_no_wildcard_where_something_goes_to_somebody() {
    let bad = [
        json!({ "to": { "under": "/" } }),
        json!({ "to": { "at_most": 5, "currency": "EUR" } }),
        json!({ "id": { "under": "x" } }),
        json!({ "file": { "under": "" } }),
        json!({ "file": { "under": "/srv/.." } }),
        json!({ "file": { "under": "/srv/*" } }),
        json!({ "amount": { "at_most": -5, "currency": "EUR" } }),
        json!({ "amount": { "at_most": 1e30, "currency": "EUR" } }),
        json!({ "to": [] }),
        json!({ "to": (0..65).map(|n| format!("a{n}@example.com")).collect::<Vec<_>>() }),
        json!({ "to": [["ann@example.com"]] }),
        json!({ "to": { "any": true } }),
        json!({ "file": { "any": true } }),
        json!({ "amount": { "any": true } }),
        json!({ "id": { "any": false } }),
        json!({ "undescribed": { "any": true } }),
    ];
    for sinks in bad {
        let intent = intent(&sinks);
        assert!(
            matches!(intent.check(&manifest()), Err(IntentError::Wildcard { .. })),
            "{sinks}: {:?}",
            intent.check(&manifest())
        );
    }
    let unknown = intent(&json!({ "body": "x" }));
    assert!(matches!(unknown.check(&manifest()), Err(IntentError::NoSink { .. })));
    for count in [0, 101] {
        let intent = Intent { count, ..intent(&json!({})) };
        assert_eq!(intent.check(&manifest()), Err(IntentError::Count(count)));
    }
}
