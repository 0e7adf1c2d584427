//! Sinks that a call leaves out or leaves empty (G13).

use custody_arguments::{
    ArgumentOrigin, Arguments, Parameter, RecordedArgument, Sink, TextIndex, ToolEffect,
    ToolManifest, trace,
};
use serde_json::{Value, json};

/// `delete_rows(table, where)`.
fn delete_rows(is_optional: bool) -> ToolManifest {
    let table = Parameter { sink: Some(Sink::Id), ..Parameter::default() };
    let condition =
        Parameter { sink: Some(Sink::Command), optional: is_optional, ..Parameter::default() };
    let arguments = [("table", table), ("where", condition), ("note", Parameter::default())];
    let arguments = arguments.map(|(name, parameter)| (name.to_owned(), parameter)).into();
    ToolManifest { effect: ToolEffect::Writes, arguments, ..ToolManifest::unknown() }
}

fn traced(tool: &ToolManifest, arguments: &Value) -> Vec<RecordedArgument> {
    let mut texts = TextIndex::default();
    texts.add_user_text("Delete the old rows of orders where paid = 1.");
    let arguments = Arguments::parse(&arguments.to_string()).expect("the test writes I-JSON");
    trace(tool, &arguments, &texts).into_recorded()
}

/// The sinks that are not the user's.
fn not_from_user(tool: &ToolManifest, arguments: &Value) -> Vec<String> {
    let sinks = traced(tool, arguments).into_iter().filter(|value| value.sink.is_some());
    sinks.filter(|value| value.origin != ArgumentOrigin::User).map(|value| value.path).collect()
}

#[test]
fn g13_a_sink_that_is_absent_is_a_value_that_nobody_said() {
    let absent = [
        (json!(null), "where"),
        (json!([]), "where"),
        (json!({}), "where"),
        (json!(""), "where"),
        (json!("   "), "where"),
        (json!("\r\n\t"), "where"),
        (json!("\u{A0}\u{3000}"), "where"),
        (json!("\u{200B}\u{2060}"), "where"),
        (json!("\u{3164}\u{2800}"), "where"),
        (json!([null]), "where[0]"),
        (json!([[]]), "where[0]"),
        (json!([{}]), "where[0]"),
        (json!([""]), "where[0]"),
        (json!([[[[null]]]]), "where[0][0][0][0]"),
        (json!(["paid = 1", null]), "where[1]"),
        (json!(["paid = 1", " "]), "where[1]"),
    ];
    for (value, path) in absent {
        let call = json!({ "table": "orders", "where": value });
        assert_eq!(not_from_user(&delete_rows(false), &call), [path], "{call}");
        let found = traced(&delete_rows(false), &call);
        let at_path = found.iter().find(|value| value.path == path);
        assert_eq!(at_path.map(|value| &value.origin), Some(&ArgumentOrigin::Model), "{call}");
        assert_eq!(not_from_user(&delete_rows(true), &call), [""; 0], "harmless: {call}");
    }
    let members = json!({ "table": "orders", "where": { "paid": null } });
    // A word of a statement is no statement (G12).
    assert_eq!(not_from_user(&delete_rows(false), &members), ["where.paid > name", "where.paid"]);
    let missing = json!({ "table": "orders" });
    assert_eq!(not_from_user(&delete_rows(false), &missing), ["where"]);
    assert_eq!(not_from_user(&delete_rows(true), &missing), [""; 0]);
    let whole = json!({ "table": "orders", "where": "paid = 1" });
    assert_eq!(not_from_user(&delete_rows(false), &whole), [""; 0], "what was said is not absent");
}

#[test]
fn g13_what_decides_nothing_may_be_left_out() {
    for note in [json!(null), json!([]), json!("")] {
        let call = json!({ "table": "orders", "where": "paid = 1", "note": note });
        assert_eq!(not_from_user(&delete_rows(false), &call), [""; 0], "{call}");
    }
}
