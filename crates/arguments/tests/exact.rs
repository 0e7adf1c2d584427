//! What is judged is what runs: a sink is the user's to the character (G18).

use custody_arguments::{
    ArgumentOrigin, Arguments, Parameter, Sink, TextIndex, ToolEffect, ToolManifest, trace,
};
use serde_json::{Value, json};

fn is_users(sink: Sink, said: &str, value: &Value) -> bool {
    let to = Parameter { sink: Some(sink), ..Parameter::default() };
    let arguments = [("amount".to_owned(), to)].into();
    let tool = ToolManifest { effect: ToolEffect::Writes, arguments, ..ToolManifest::unknown() };
    let mut texts = TextIndex::default();
    texts.add_user_text(said);
    let call = Arguments::parse(&json!({ "amount": value }).to_string()).expect("I-JSON");
    let traced = trace(&tool, &call, &texts).into_recorded();
    traced.iter().all(|value| value.origin == ArgumentOrigin::User)
}

#[test]
fn g18_a_sink_that_differs_in_blanks_or_signs_is_not_what_the_user_said() {
    let said = "Write to ann@example.com, read https://a.example/x and a.example, open /data/a b, run `rm a  b`, \
                pay 50 dollars on 15 May 2024 to Mark Black.";
    let cases = [
        (Sink::Recipient, "ann@example.com"),
        (Sink::Url, "https://a.example/x"),
        (Sink::Path, "/data/a b"),
        (Sink::Command, "rm a  b"),
        (Sink::Other, "15 May 2024"),
        (Sink::Recipient, "Mark Black"),
    ];
    let ends = [
        "\r\n ",
        "\n",
        " ",
        "\t",
        "\u{A0}",
        "\u{2028}",
        "\u{200B}",
        "\u{FEFF}",
        "\u{3164}",
        "\u{2800}",
        "\0",
        "\u{85}",
        "\u{E0041}",
        "\u{202E}",
    ];
    for (sink, value) in cases {
        assert!(is_users(sink, said, &json!(value)), "{value}");
        for end in ends {
            let middle = value.len() / 2;
            let inside = format!("{}{end}{}", &value[..middle], &value[middle..]);
            for other in [format!("{value}{end}"), format!("{end}{value}"), inside] {
                assert!(!is_users(sink, said, &json!(other)), "{other:?}");
            }
        }
    }
    for (sink, said, value) in [
        (Sink::Path, "Open /data/a b", "/data/a  b"),
        (Sink::Path, "Open /data/a  b", "/data/a b"),
        (Sink::Path, "Open /data/a\nb", "/data/a b"),
        (Sink::Command, "Run `rm a b`", "rm a\nb"),
        (Sink::Path, "Open /data/caf\u{E9}", "/data/cafe\u{301}"),
        (Sink::Path, "Open /data/cafe\u{301}", "/data/caf\u{E9}"),
        (Sink::Amount, "Pay 50 dollars", " 50"),
        (Sink::Amount, "Pay 50 dollars", "50.00\n"),
        (Sink::Other, "On 15 May 2024", "15  May 2024"),
        (Sink::Recipient, "Write to Ann@example.com", "ann@example.com"),
        (Sink::Url, "Read https://a.example/x", "http://a.example/x"),
        (Sink::Url, "Read https://a.example/x", "https://a.example/x/"),
        (Sink::Url, "Read https://a.example/X", "https://a.example/x"),
        (Sink::Url, "Read www.a.example", "http://www.a.example"),
    ] {
        assert!(!is_users(sink, said, &json!(value)), "{value:?} after {said:?}");
    }
}

#[test]
fn g18_hosts_do_not_tell_cases_apart_and_blanks_that_the_user_typed_are_the_users() {
    for (sink, said, value) in [
        (Sink::Recipient, "Write to Ann@Example.com", "Ann@example.COM"),
        (Sink::Url, "Read https://A.example/X", "HTTPS://a.EXAMPLE/X"),
        (Sink::Url, "Read https://a.example", "https://a.example/"),
        (Sink::Url, "Read www.a.example", "https://www.a.example"),
        (Sink::Path, "Open /data/a  b, please", "/data/a  b"),
        // A fence quotes (G12), so the lines stand without one.
        (Sink::Command, "Run:\nls -l\nrm a", "ls -l\nrm a"),
        (Sink::Path, "Open\r\n/data/a\r\nnow", "/data/a"),
    ] {
        assert!(is_users(sink, said, &json!(value)), "{value:?} after {said:?}");
    }
}

#[test]
fn g18_a_number_that_is_read_in_two_ways_supports_nothing() {
    let cases = [
        ("Pay 1,234 euros", json!(1234), false),
        ("Pay 1,234 euros", json!(1.234), false),
        ("Pay 1.234 euros", json!(1.234), false),
        ("Pay 1.234 euros", json!("1.234"), false),
        ("Pay 1,234 euros", json!("1,234"), false),
        ("Pay 1,234.00 euros", json!(1234), true),
        ("Pay 1,234,567 euros", json!(1_234_567), true),
        ("Pay 1234 euros", json!(1234), true),
        ("Pay 0,500 euros", json!(0.5), true),
        ("Pay 12,50 euros", json!(12.5), true),
    ];
    for (said, value, expected) in cases {
        assert_eq!(is_users(Sink::Amount, said, &value), expected, "{value} after {said}");
    }
    assert!(is_users(Sink::Path, "Open the file 1.234, please", &json!("1.234")), "no number");
}
