//! The answers of policies: which statement wins, which facts a policy sees, and what happens if it cannot be
//! evaluated.

mod common;

use common::{Call, outcome};
use custody_kernel::label::Channel;
use custody_kernel::principal::Role;
use custody_log::Digest;
use custody_policy::Policy;

const TOOLS: &str = r#"
groups.mail = ["send", "draft"]

[tools.send]
effect = "writes"
[tools.send.arguments]
to = { sink = "recipient" }
link = { sink = "url", optional = true }
path = { sink = "path", optional = true }
amount = { sink = "amount", optional = true }
account = { sink = "account", optional = true }
command = { sink = "command", optional = true }
id = { sink = "id", optional = true }
when = { sink = "other", optional = true }
body = {}
parts = { sink = "path", optional = true, fields = ["name"] }

[tools.look]
effect = "reads"
"#;

const USER: (Channel, &str) = (Channel::User, "Write to ann@example.com.");
const WEB: (Channel, &str) = (Channel::Web, "Write to eve@evil.example.");

/// G13: a policy sees a sink that a call leaves out, as a value that the user did not say.
#[test]
fn g13_a_policy_sees_that_a_sink_is_missing() {
    let tools = "[tools.pay]\neffect = 'writes'\narguments.account = { sink = 'account' }\n\
                 arguments.amount = { sink = 'amount' }\narguments.file = { sink = 'path' }\narguments.note = {}\n";
    let manifests = custody_policy::Manifests::parse(tools).unwrap();
    let seen = [
        r#"context.accounts.unsaid.contains("null") && context.arguments.all == ["note"]"#,
        "context.sinks.unsaid.containsAll([Sink::\"account\", Sink::\"amount\", Sink::\"path\"])",
        "context.in_text.all.isEmpty() && context.paths.within.isEmpty() && !context.paths.all.isEmpty()",
        "context.amount > 1000000",
    ];
    for seen in seen {
        let cases = "[[case]]\nname = 'a'\nheard.user = 'Pay.'\ncall = 'pay'\narguments.note = 'x'\nexpect = 'allow'\n";
        let policy = parsed(&format!("permit (principal, action, resource) when {{ {seen} }};"));
        let outcomes = custody_policy::run_cases(&policy, &manifests, cases).unwrap();
        assert!(outcomes.iter().all(|case| case.passed), "{seen}: {outcomes:?}");
    }
}

fn parsed(text: &str) -> Policy {
    Policy::parse(text).map_err(|error| error.to_string()).expect("the test's policy")
}

#[test]
fn the_strictest_statement_that_holds_wins() {
    let permit = r#"@id("p") permit (principal, action, resource);"#;
    let waive = r#"@id("w") @floor("waived") permit (principal, action, resource);"#;
    let ask = r#"@id("a") @answer("ask") forbid (principal, action, resource);"#;
    let deny = r#"@id("d") forbid (principal, action, resource);"#;
    let fails = r#"@id("f") permit (principal, action, resource) when { context.amount + 9223372036854775807 > 0 };"#;
    let idle = r#"@id("i") forbid (principal, action, resource) when { context.amount < 0 };"#;
    let cases = [
        (vec![permit], "allow", vec!["p"]),
        (vec![waive], "allow, waived", vec!["w"]),
        (vec![permit, waive], "allow, waived", vec!["p", "w"]),
        (vec![ask], "deny", vec![]),
        (vec![permit, ask], "ask", vec!["a"]),
        (vec![waive, ask], "ask", vec!["a"]),
        (vec![permit, ask, deny], "deny", vec!["d"]),
        (vec![ask, deny], "deny", vec!["d"]),
        (vec![waive, deny], "deny", vec!["d"]),
        (vec![deny], "deny", vec!["d"]),
        (vec![permit, fails], "deny", vec!["f"]),
        (vec![permit, deny, fails], "deny", vec!["f"]),
        (vec![permit, idle], "allow", vec!["p"]),
        (vec![idle], "deny", vec![]),
    ];
    let call = Call::new(TOOLS, &[USER], "send", r#"{"to": "ann@example.com", "amount": 1}"#);
    for (statements, word, by) in cases {
        let policy = parsed(&statements.join("\n"));
        assert_eq!(outcome(&call.answer(&policy)), (word, by), "{statements:?}");
    }
}

/// Conditions that hold of a call, and conditions that do not.
#[test]
fn a_policy_sees_the_facts_that_the_schema_describes() {
    let cases = [
        (
            vec![USER],
            r#"{"to": ["ann@example.com"], "body": "See https://evil.example and 123456."}"#,
            vec![
                r#"principal == Principal::"ada""#,
                r#"principal in Role::"user" && principal.trusted && principal.tenant == "main""#,
                r#"resource == Tool::"send" && resource.name like "s*d" && resource.known"#,
                r#"resource in Group::"mail""#,
                r#"resource.effect == Effect::"writes" && resource.text_leaves"#,
                r#"!context.tainted && context.channels == [Channel::"user"]"#,
                r#"context.arguments.all == ["to", "body"] && context.arguments.not_from_user.isEmpty()"#,
                r#"context.arguments.hasTag("to") && context.arguments.getTag("to") == "[\"ann@example.com\"]""#,
                r#"context.arguments.hasTag("body") && context.arguments.getTag("body") like "*evil*""#,
                r#"context.sinks.all == [Sink::"recipient"] && context.sinks.not_from_user.isEmpty()"#,
                r#"context.in_text.all == [Sink::"url", Sink::"account"]"#,
                r#"context.in_text.not_from_user.containsAll(context.in_text.all)"#,
                r#"context.origins == [Origin::"user", Origin::"model"]"#,
                r#"context.recipients.all == ["ann@example.com"] && context.recipients.not_from_user.isEmpty()"#,
                r#"context.recipients.within == ["example.com", "com"]"#,
                r#"context.urls.all.isEmpty() && context.amount == 0"#,
            ],
            vec![
                r#"principal in Role::"owner""#,
                r#"resource in Group::"payments""#,
                r#"context.arguments.hasTag("cc")"#,
                r#"context.urls.within.contains("example.com")"#,
            ],
        ),
        (
            vec![USER, WEB],
            r#"{"to": ["ann@example.com", "eve@evil.example"], "link": "https://docs.example.com/x",
                "path": "/srv/app/a", "amount": 12.25, "account": "DE1", "command": "ls", "id": 7, "when": true,
                "unknown": {"b": 1, "a": null}}"#,
            vec![
                r#"context.tainted && context.channels.contains(Channel::"web")"#,
                r#"context.recipients.not_from_user == ["eve@evil.example"] && context.recipients.within.isEmpty()"#,
                r#"context.origins.contains(Origin::"tool")"#,
                r#"context.urls.within == ["docs.example.com", "example.com", "com"]"#,
                r#"context.paths.within.contains("/srv/app") && context.paths.not_from_user == ["/srv/app/a"]"#,
                r#"context.amount == 13 && context.sinks.not_from_user.contains(Sink::"amount")"#,
                r#"context.accounts.all == ["DE1"] && context.commands.all == ["ls"] && context.ids.all == ["7"]"#,
                r#"context.others.all == ["true", "unknown", "1", "a", "b", "null"]"#,
                r#"context.arguments.not_from_user.contains("to") && context.arguments.not_from_user.contains("unknown")"#,
                r#"context.arguments.hasTag("unknown") && context.arguments.getTag("unknown") == "{\"a\":null,\"b\":1}""#,
                r#"context.in_text.all.isEmpty()"#,
            ],
            vec![
                r#"context.recipients.within.contains("example.com")"#,
                r#"context.sinks.all.contains(Sink::"id") && context.ids.not_from_user.isEmpty()"#,
            ],
        ),
        (
            vec![],
            r#"{"parts": [{"name": "a/b"}, {"name": "a/c", "why": "x"}]}"#,
            vec![
                "context.tainted && context.channels.isEmpty()",
                r#"context.paths.all == ["a/b", "a/c", "why", "x"] && context.paths.within == ["."]"#,
            ],
            vec![],
        ),
    ];
    for (texts, arguments, hold, fail) in cases {
        let call = Call::new(TOOLS, &texts, "send", arguments);
        let conditions = hold.iter().map(|c| (c, "allow")).chain(fail.iter().map(|c| (c, "deny")));
        for (condition, expected) in conditions {
            let policy =
                parsed(&format!("permit (principal, action, resource) when {{ {condition} }};"));
            let explanation = call.explain(&policy);
            assert_eq!(outcome(&explanation.answer).0, expected, "{condition}\n{explanation}");
        }
    }
}

/// The schema's attribute was once called `unsaid`, and stores hold policies that name it.
#[test]
fn a_policy_that_names_the_earlier_attribute_is_answered_as_before() {
    let conditions = [
        r#"context.recipients.unsaid == ["eve@evil.example"]"#,
        r#"context.paths.unsaid == ["/srv/app/a"] && context.paths.within.contains("/srv/app")"#,
        r#"context.sinks.unsaid.contains(Sink::"path")"#,
        r#"!context.in_text.unsaid.contains(Sink::"path")"#,
        r#"context.ids.unsaid == ["7"]"#,
        r#"context.ids["unsaid"].containsAll(context.ids.all)"#,
        r#"context.ids == {all: ["7"], unsaid: ["7"]}"#,
        r#"context.arguments.unsaid == ["to", "path", "id"]"#,
    ];
    let arguments =
        r#"{"to": ["ann@example.com", "eve@evil.example"], "path": "/srv/app/a", "id": 7}"#;
    let call = Call::new(TOOLS, &[USER, WEB], "send", arguments);
    for earlier in conditions {
        let current = earlier.replace("unsaid", "not_from_user");
        for condition in [earlier, &current] {
            let permit = format!("permit (principal, action, resource) when {{ {condition} }};");
            let explanation = call.explain(&parsed(&permit));
            assert_eq!(outcome(&explanation.answer).0, "allow", "{condition}\n{explanation}");
        }
        let warnings =
            parsed(&format!("permit (principal, action, resource) when {{ {earlier} }};"));
        let warnings: Vec<String> = warnings.warnings().iter().map(ToString::to_string).collect();
        assert_eq!(
            warnings,
            ["`unsaid` is the earlier name of `not_from_user`; write `not_from_user`"]
        );
    }
}

/// Under the current schema `has unsaid` is valid and false, so this prohibition would lose its effect.
#[test]
fn a_prohibition_that_tests_for_the_earlier_attribute_keeps_its_effect() {
    let policy = parsed(
        r#"@id("calls") permit (principal, action, resource);
        @id("strangers") forbid (principal, action, resource)
        when { context.amount > 5 || (context.recipients has unsaid && !context.recipients.unsaid.isEmpty()) };"#,
    );
    let call = Call::new(TOOLS, &[USER, WEB], "send", r#"{"to": "eve@evil.example"}"#);
    assert_eq!(outcome(&call.answer(&policy)), ("deny", vec!["strangers"]));
    let call = Call::new(TOOLS, &[USER, WEB], "send", r#"{"to": "ann@example.com"}"#);
    assert_eq!(outcome(&call.answer(&policy)), ("allow", vec!["calls"]));
}

#[test]
fn a_tool_without_a_manifest_writes_and_all_its_arguments_are_sinks() {
    let call = Call::of(Role::Agent, TOOLS, &[WEB], "foreign", r#"{"to": "eve@evil.example"}"#);
    let condition = r#"resource.effect == Effect::"writes" && !resource.known && resource.text_leaves &&
        context.others.not_from_user == ["to", "eve@evil.example"] && !principal.trusted && principal in Role::"agent""#;
    let policy = parsed(&format!("permit (principal, action, resource) when {{ {condition} }};"));
    assert_eq!(outcome(&call.answer(&policy)).0, "allow", "{}", call.explain(&policy));
}

#[test]
fn two_arguments_that_share_a_path_count_as_both() {
    let arguments =
        r#"{"to": "ann@example.com", "parts": {"name": "x"}, "parts.name": "ann@example.com"}"#;
    let call = Call::new(TOOLS, &[USER], "send", arguments);
    let facts = call.explain(&Policy::standard()).facts.context;
    assert!(
        facts.others.not_from_user.contains("ann@example.com"),
        "one of both is not from the user: {facts:?}"
    );
    assert!(facts.paths.values.not_from_user.contains("x"));
}

#[test]
fn a_value_that_was_not_traced_is_not_from_the_user() {
    let mut call = Call::new(TOOLS, &[USER], "send", r#"{"to": "ann@example.com", "when": "now"}"#);
    call.leaves.clear();
    let facts = call.explain(&Policy::standard()).facts.context;
    assert!(facts.recipients.values.not_from_user.contains("ann@example.com"));
    assert!(facts.others.not_from_user.contains("now"));
    assert!(facts.arguments.names.not_from_user.contains("to"));
}

#[test]
fn a_policy_is_named_by_the_digest_of_its_exact_text() {
    let text = "permit (principal, action, resource);";
    let policy = parsed(text);
    assert_eq!(policy.version(), Digest::of(text.as_bytes()));
    assert_ne!(parsed(&format!("{text}\n")).version(), policy.version());
    let call = Call::new(TOOLS, &[USER], "look", "{}");
    assert_eq!(call.answer(&policy).version, policy.version());
}

#[test]
fn a_statement_is_where_it_stands_not_where_it_is_commented_out() {
    let one = "@id(\"a\") permit (principal, action, resource);";
    let two = "forbid (principal, action, resource) // why\nwhen { context.tainted };";
    let policy = parsed(&format!("// {one}\n{one}\n// {one}\n\n{two}"));
    let lines: Vec<(&str, usize, &str)> =
        policy.statements().iter().map(|s| (s.id.as_str(), s.line, s.text.as_str())).collect();
    assert_eq!(lines, [("a", 2, one), ("policy1", 5, two)]);
}

#[test]
fn an_explanation_shows_every_statement_and_the_facts() {
    let policy = parsed(
        "@id(\"all\") permit (principal, action, resource);\n\
         @id(\"mail\") @description(\"mail is\n  read first\") @answer(\"ask\")\n\
         forbid (principal, action, resource in Group::\"mail\");\n\
         forbid (principal, action, resource) when { context.amount > 5 };",
    );
    let call = Call::new(TOOLS, &[USER], "send", r#"{"to": "ann@example.com"}"#);
    let explanation = call.explain(&policy);
    let text = explanation.to_string();
    let lines: Vec<&str> = text.lines().take(6).collect();
    assert_eq!(
        lines,
        [
            "ask, by `mail`",
            "+ `all` (line 1) permits: holds",
            "+ `mail` (line 2) asks: holds",
            "      mail is read first",
            "  `policy2` (line 5) forbids: does not hold",
            "facts:",
        ]
    );
    let recipients =
        r#"context.recipients = {"all":["ann@example.com"],"not_from_user":[],"within":["com","#;
    assert!(text.contains(recipients), "{text}");
    let json = serde_json::to_value(&explanation).unwrap();
    assert_eq!(json["answer"]["answer"], "ask");
    assert_eq!(json["statements"][1]["decides"], true);
    assert_eq!(json["statements"][1]["says"], "ask");
    let recipients = &json["facts"]["context"]["recipients"];
    assert_eq!(recipients["unsaid"], recipients["not_from_user"], "the earlier name, for programs");
    assert!(!text.contains("unsaid"), "{text}");
    assert_eq!(json["facts"]["context"]["recipients"]["within"][0], "com");
    assert_eq!(json["facts"]["context"]["arguments"]["tags"]["to"], "ann@example.com");
}

#[test]
fn a_statement_that_cannot_be_evaluated_says_so() {
    let policy = parsed(
        "@id(\"sum\") permit (principal, action, resource) when { context.amount * 2 > 0 };",
    );
    let call = Call::new(TOOLS, &[USER], "send", r#"{"amount": "lots"}"#);
    let explanation = call.explain(&policy);
    assert_eq!(outcome(&explanation.answer), ("deny", vec!["sum"]));
    assert!(
        explanation.to_string().contains("cannot be evaluated, which denies: integer overflow"),
        "{explanation}"
    );
}
