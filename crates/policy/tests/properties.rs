//! What holds for all policies, calls and lists.

mod common;

use common::{Call, outcome};
use custody_kernel::label::Channel;
use custody_kernel::principal::Role;
use custody_kernel::tool::call::Permission;
use custody_policy::{Manifests, Policy, draft, examples, run_cases};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value};

/// Conditions, and how often a call of `n` makes them hold: never, always, or only when tainted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Truth {
    Always,
    Never,
    WhenTainted,
    /// It cannot be evaluated.
    Fails,
}

const CONDITIONS: [(&str, Truth); 6] = [
    ("context.amount == 7", Truth::Always),
    ("resource.effect == Effect::\"writes\"", Truth::Always),
    ("context.amount > 7", Truth::Never),
    ("principal in Role::\"owner\"", Truth::Never),
    ("context.tainted", Truth::WhenTainted),
    ("context.amount + 9223372036854775807 > 0", Truth::Fails),
];

/// The heads of statements, from the mildest word to the strictest.
const HEADS: [&str; 4] =
    ["@floor(\"waived\") permit", "permit", "@answer(\"ask\") forbid", "forbid"];

#[derive(Debug, Clone, Copy)]
struct Drawn {
    head: usize,
    condition: usize,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    (0..HEADS.len(), 0..CONDITIONS.len()).prop_map(|(head, condition)| Drawn { head, condition })
}

fn text(statements: &[Drawn]) -> String {
    let one = |drawn: &Drawn| {
        format!(
            "{} (principal, action, resource) when {{ {} }};",
            HEADS[drawn.head], CONDITIONS[drawn.condition].0
        )
    };
    statements.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn call(is_tainted: bool) -> Call {
    let channel = if is_tainted { Channel::Web } else { Channel::User };
    let manifests = "[tools.pay]\neffect = 'writes'\narguments.n = { sink = 'amount' }";
    Call::new(manifests, &[(channel, "Pay 7")], "pay", r#"{"n": 7}"#)
}

/// The rule of docs/design.md §5.5, word by word.
fn expected(statements: &[Drawn], is_tainted: bool) -> &'static str {
    let holds =
        |truth: Truth| truth == Truth::Always || (truth == Truth::WhenTainted && is_tainted);
    let truth = |drawn: &&Drawn| CONDITIONS[drawn.condition].1;
    if statements.iter().any(|drawn| truth(&drawn) == Truth::Fails) {
        return "deny";
    }
    let any =
        |head: usize| statements.iter().any(|drawn| drawn.head == head && holds(truth(&drawn)));
    match (any(0), any(1), any(2), any(3)) {
        (_, _, _, true) | (false, false, _, _) => "deny",
        (_, _, true, false) => "ask",
        (true, _, false, false) => "allow, waived",
        (false, true, false, false) => "allow",
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_answer_is_the_designs(statements in prop::collection::vec(drawn(), 1..8), is_tainted: bool) {
        let policy = Policy::parse(&text(&statements)).unwrap();
        prop_assert_eq!(outcome(&call(is_tainted).answer(&policy)).0, expected(&statements, is_tainted));
    }

    #[test]
    fn one_more_forbid_never_loosens_anything(
        statements in prop::collection::vec(drawn(), 1..6),
        head in 2..HEADS.len(),
        condition in 0..CONDITIONS.len(),
        is_tainted: bool,
    ) {
        let call = call(is_tainted);
        let before = call.answer(&Policy::parse(&text(&statements)).unwrap());
        let more = [statements, vec![Drawn { head, condition }]].concat();
        let after = call.answer(&Policy::parse(&text(&more)).unwrap());
        prop_assert!(after.answer >= before.answer);
        prop_assert!(before.waives_floor || !after.waives_floor);
    }

    #[test]
    fn what_decides_is_in_the_policy(statements in prop::collection::vec(drawn(), 1..8), is_tainted: bool) {
        let policy = Policy::parse(&text(&statements)).unwrap();
        let answer = call(is_tainted).answer(&policy);
        let known = |id: &String| policy.statements().iter().any(|statement| statement.id == *id);
        prop_assert!(answer.by.iter().all(known));
        prop_assert!(answer.answer == Permission::Deny || !answer.by.is_empty());
    }

    #[test]
    fn any_text_is_a_policy_or_an_error_of_single_lines(text in cedar_like()) {
        if let Err(error) = Policy::parse(&text) {
            prop_assert!(!error.problems().is_empty());
            prop_assert_eq!(error.to_string().lines().count(), error.problems().len());
        }
    }

    #[test]
    fn any_arguments_get_an_answer(arguments in arguments(), manifest in manifest(), role in roles()) {
        let call = Call::of(role, &manifest, &[(Channel::User, "7 x")], "t", &arguments.to_string());
        for example in examples() {
            let policy = Policy::parse(example.text).unwrap();
            let answer = call.answer(&policy);
            prop_assert_eq!(&answer, &call.explain(&policy).answer);
            prop_assert!(!answer.by.contains(&"cedar".to_owned()));
        }
    }

    /// The sinks that a policy sees are those that the kernel traced, and all of them have their values.
    #[test]
    fn no_value_is_lost(arguments in arguments(), manifest in manifest()) {
        let call = Call::new(&manifest, &[(Channel::User, "7 x")], "t", &arguments.to_string());
        let facts = call.explain(&Policy::standard()).facts.context;
        prop_assert!(facts.in_text.all.is_empty(), "no text leaves: {:?}", facts.in_text);
        let traced: std::collections::BTreeSet<_> = call.leaves.iter().filter_map(|leaf| leaf.sink).collect();
        prop_assert_eq!(&facts.sinks.all, &traced);
        use custody_arguments::Sink;
        let valued = [
            (Sink::Recipient, &facts.recipients.values.all),
            (Sink::Url, &facts.urls.values.all),
            (Sink::Path, &facts.paths.values.all),
            (Sink::Account, &facts.accounts.all),
            (Sink::Command, &facts.commands.all),
            (Sink::Id, &facts.ids.all),
            (Sink::Other, &facts.others.all),
        ];
        for (sink, values) in valued {
            prop_assert_eq!(!values.is_empty(), traced.contains(&sink), "{:?}", sink);
        }
    }

    #[test]
    fn a_draft_of_anything_is_an_error_or_a_manifest_file(list in tool_list()) {
        if let Ok(draft) = draft(&list) {
            let manifests = Manifests::parse(&draft.toml);
            prop_assert!(manifests.is_ok(), "{:?}\n{}", manifests, draft.toml);
            let tools = list["tools"].as_array().map_or(0, Vec::len);
            prop_assert_eq!(manifests.unwrap().tools().len(), tools);
        }
    }

    #[test]
    fn any_text_is_a_table_of_cases_or_an_error(text in toml_like()) {
        let _ = run_cases(&Policy::standard(), &Manifests::default(), &text);
        let _ = Manifests::parse(&text);
    }
}

fn roles() -> impl Strategy<Value = Role> {
    select(vec![Role::Owner, Role::Reviewer, Role::User, Role::Agent, Role::Service])
}

/// Text that is nearly Cedar.
fn cedar_like() -> impl Strategy<Value = String> {
    const PARTS: [&str; 40] = [
        "permit",
        "forbid",
        "(",
        ")",
        "principal",
        "action",
        "resource",
        ",",
        ";",
        "when",
        "unless",
        "{",
        "}",
        "context",
        ".",
        "tainted",
        "amount",
        "==",
        "&&",
        "||",
        "!",
        "\"",
        "\\",
        "//",
        "\n",
        "@id",
        "@answer",
        "(\"ask\")",
        "Tool::\"a\"",
        "in",
        "[",
        "]",
        "has",
        "like",
        "\"*\"",
        "is Tool",
        "?principal",
        "-1",
        "if",
        "\u{202E}",
    ];
    let statement =
        Just("permit (principal, action, resource) when { context.tainted };".to_owned());
    let part = prop_oneof![
        4 => select(PARTS.to_vec()).prop_map(|part| format!("{part} ")),
        1 => statement,
        1 => any::<String>(),
    ];
    prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
}

fn toml_like() -> impl Strategy<Value = String> {
    const PARTS: [&str; 22] = [
        "[[case]]\n",
        "name = \"a\"\n",
        "call = \"t\"\n",
        "expect = \"allow\"\n",
        "expect = \"no\"\n",
        "arguments = { a = 1 }\n",
        "arguments = \"{\"\n",
        "arguments = { a = 1979-05-27 }\n",
        "heard.user = \"x\"\n",
        "heard.web = [\"x\"]\n",
        "heard.moon = \"x\"\n",
        "by = [\"floor\"]\n",
        "[tools.t]\n",
        "effect = \"reads\"\n",
        "[groups]\n",
        "g = [\"t\"]\n",
        "role = \"agent\"\n",
        "tenant = \"A B\"\n",
        "=",
        "'",
        "\u{0}",
        "made.id = [\"1\"]\n",
    ];
    prop::collection::vec(select(PARTS.to_vec()), 0..12).prop_map(|parts| parts.concat())
}

/// Names that could be taken for paths, among others.
fn name() -> impl Strategy<Value = String> {
    let tricky =
        select(vec!["a", "b", "a.b", "a[0]", "a > name", "a.b > name", "a > link", "", "é", "to"]);
    prop_oneof![4 => tricky.prop_map(str::to_owned), 1 => any::<String>()]
}

fn json() -> impl Strategy<Value = Value> {
    let texts =
        select(vec!["7", "x", "a@b.example", "https://a.example/x", "/srv/a", "123456", ""]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        texts.prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..4)
                .prop_map(|map| Value::Object(Map::from_iter(map))),
        ]
    })
}

fn arguments() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(name(), json(), 0..5)
        .prop_map(|map| Value::Object(Map::from_iter(map)))
}

/// A manifest of the tool `t`, whose text stays on the machine.
fn manifest() -> impl Strategy<Value = String> {
    let sinks = ["recipient", "url", "amount", "account", "path", "command", "id", "other"];
    let argument = (select(vec!["a", "b", "a.b", "to"]), prop::option::of(select(sinks.to_vec())));
    let arguments = prop::collection::btree_map(
        argument.clone().prop_map(|a| a.0),
        argument.prop_map(|a| a.1),
        0..4,
    );
    (arguments, subsequence(vec!["a", "b"], 0..3)).prop_map(|(arguments, fields)| {
        let mut text = "[tools.t]\neffect = 'writes'\ntext_leaves = false\n".to_owned();
        for (name, sink) in arguments {
            let sink = sink.map(|sink| format!("sink = '{sink}', ")).unwrap_or_default();
            text.push_str(&format!("arguments.'{name}' = {{ {sink}fields = {fields:?} }}\n"));
        }
        text
    })
}

/// What a server might answer to `tools/list`, and what it should not.
fn tool_list() -> impl Strategy<Value = Value> {
    let schema = prop::collection::btree_map(name(), json(), 0..4).prop_map(|properties| {
        serde_json::json!({ "type": "object", "properties": Map::from_iter(properties) })
    });
    let annotations = prop_oneof![
        json(),
        (any::<bool>(), any::<bool>()).prop_map(
            |(reads, open)| serde_json::json!({ "readOnlyHint": reads, "openWorldHint": open })
        ),
    ];
    let names = prop_oneof![
        3 => select(vec!["get_mail", "send\"mail", "a]\n[tools.b", "b\\", "c.d", "tools", "\u{202E}x"]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    let tool = (names, json(), schema, annotations, 0..4_u8).prop_map(|(name, description, schema, annotations, kind)| {
        let function = serde_json::json!({ "name": name, "description": description, "parameters": schema });
        match kind {
            0 => serde_json::json!({ "type": "function", "function": function }),
            1 => function,
            _ => serde_json::json!({
                "name": name, "description": description, "inputSchema": schema, "annotations": annotations
            }),
        }
    });
    let tools = prop::collection::vec(prop_oneof![9 => tool, 1 => json()], 0..4);
    tools.prop_map(|tools| serde_json::json!({ "tools": tools }))
}
