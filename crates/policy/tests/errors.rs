//! The problems of a policy or a table of cases that cannot be used: one line each, with the place and the remedy.

use custody_policy::{Manifests, Policy, run_cases};

fn problems(text: &str) -> Vec<String> {
    match Policy::parse(text) {
        Ok(_) => vec!["valid".to_owned()],
        Err(error) => error.to_string().lines().map(str::to_owned).collect(),
    }
}

#[test]
fn a_policy_that_cannot_be_read_is_reported_with_the_place_and_the_reason() {
    let cases = [
        (
            "permit (principal, action, resource)",
            "line 1, column 37: unexpected end of input; expected `;` or identifier",
        ),
        (
            "permit (principal,\n action, resource) when { context.tainted &&& };",
            "line 2, column 45: invalid token",
        ),
        (
            "deny (principal, action, resource);",
            "line 1, column 1: invalid policy effect: deny; effect must be either `permit` or `forbid`",
        ),
        ("", "there is no `permit` in it, so every call would be denied; add one"),
        ("// nothing", "there is no `permit` in it, so every call would be denied; add one"),
        (
            "permit (principal == ?principal, action, resource);",
            "line 1, column 1: templates are not supported; write the principal or resource instead of `?principal` or `?resource`",
        ),
        (
            "permit (principal, action, resource in [Tool::\"a\"]);",
            "line 1, column 40: expected single entity uid or template slot, found set of entity uids; the head takes one; write `when { resource in […] }`",
        ),
        (
            "@id(\"a\") @id(\"b\") permit (principal, action, resource);",
            "line 1, column 10: duplicate annotation: @id",
        ),
        (
            "permit (principal, action, resource\u{202E});",
            "line 1, column 36: the character \\u{202e} hides or reorders text; remove it",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(problems(text), [expected], "{text}");
    }
}

#[test]
fn a_condition_that_the_schema_does_not_know_is_reported_with_the_place_and_the_reason() {
    let cases = [
        (
            r#"context.amout > 1"#,
            r#"line 2, column 8: policy `x`: attribute `amout` in context for Action::"call" not found; did you mean `amount`?"#,
        ),
        (
            r#"context.amount > "1""#,
            r#"line 2, column 25: policy `x`: unexpected type: expected Long but saw String"#,
        ),
        (
            r#"context.channels.contains(Channel::"wbe")"#,
            r#"line 2, column 34: policy `x`: entity `Channel::"wbe"` does not exist; use one of "system", "user", "web", "tool", "skill", "retrieval", "memory", "model", "file", "peer-agent""#,
        ),
        (
            r#"resource.effect == "writes""#,
            r#"line 2, column 8: policy `x`: the types String and Effect are not compatible; write an effect as `Effect::"reads"` or `Effect::"writes"`"#,
        ),
        (
            r#"context.sinks.all.contains("url")"#,
            r#"line 2, column 8: policy `x`: the types String and Sink are not compatible; write a sink as `Sink::"recipient"`"#,
        ),
        (
            r#"context.channels.contains("web")"#,
            r#"line 2, column 8: policy `x`: the types String and Channel are not compatible; write a channel as `Channel::"web"`"#,
        ),
        (
            r#"context.origins.contains("tool")"#,
            r#"line 2, column 8: policy `x`: the types String and Origin are not compatible; write an origin as `Origin::"user"`"#,
        ),
        (
            r#"context.arguments.getTag("to") == "a""#,
            r#"line 2, column 8: policy `x`: unable to guarantee safety of access to tag `"to"` on entity type `Arguments`; try testing for the tag's presence with `.hasTag("to") && ..`"#,
        ),
        (
            r#"principal.age > 3"#,
            r#"line 2, column 8: policy `x`: attribute `age` on entity type `Principal` not found; did you mean `tenant`?"#,
        ),
        (
            r#"false"#,
            r#"line 1, column 1: policy `x`: policy is impossible: the policy expression evaluates to false for all valid requests; delete it, or correct its condition"#,
        ),
        (
            r#"resource in Grup::"a""#,
            r#"line 2, column 20: policy `x`: unrecognized entity type `Grup`; did you mean `Group`?"#,
        ),
        (
            r#"[].containsAll(context.ids.all)"#,
            r#"line 2, column 8: policy `x`: empty set literals are forbidden in policies; use `.isEmpty()`"#,
        ),
    ];
    for (condition, expected) in cases {
        let text =
            format!("@id(\"x\") permit (principal, action, resource)\nwhen {{ {condition} }};");
        assert_eq!(problems(&text), [expected], "{condition}");
    }
}

#[test]
fn an_annotation_that_means_nothing_is_an_error() {
    let cases = [
        (
            "@anwser(\"ask\") permit",
            "`@anwser` means nothing; use `@id`, `@answer`, `@floor`, `@extracts` or `@description`",
        ),
        ("@extracts(\"balance\") forbid", "`@extracts` is for `permit`"),
        (
            "@extracts(\"*.id\") permit",
            "`@extracts(\"*.id\")` names no fields; write their paths with blanks between: `balance owner.id`",
        ),
        ("@answer(\"ask\") permit", "`@answer(\"ask\")` is for `forbid`; a `permit` allows"),
        (
            "@answer(\"asks\") forbid",
            "`@answer(\"asks\")` is none; write `@answer(\"ask\")`, or leave it out to deny",
        ),
        (
            "@answer forbid",
            "`@answer(\"\")` is none; write `@answer(\"ask\")`, or leave it out to deny",
        ),
        ("@floor(\"waived\") forbid", "`@floor(\"waived\")` is for `permit`"),
        ("@floor(\"waive\") permit", "`@floor(\"waive\")` is none; write `@floor(\"waived\")`"),
        ("@description(\"\") permit", "`@description` is empty; say why in one sentence"),
        ("@id(\"\") permit", "`@id` is 1 to 64 letters, digits, `-`, `_` and `.`"),
        ("@id(\"two words\") permit", "`@id` is 1 to 64 letters, digits, `-`, `_` and `.`"),
        ("@id(\"floor\") permit", "the id `floor` is reserved; rename it"),
    ];
    for (head, expected) in cases {
        let found = problems(&format!("// one\n{head} (principal, action, resource);"));
        assert_eq!(found, [format!("line 2, column 1: policy `policy0`: {expected}")]);
    }
    let twice = "permit (principal, action, resource);\n@id(\"policy0\") permit (principal, action, resource);";
    assert_eq!(
        problems(twice),
        ["line 2, column 1: policy `policy1`: `policy0` already names another one; rename it"]
    );
}

#[test]
fn a_policy_that_mixes_both_names_of_an_attribute_is_refused() {
    let text = "permit (principal, action, resource) when { context.ids.unsaid.isEmpty() };\n\
                forbid (principal, action, resource) when { !context.urls.not_from_user.isEmpty() };";
    let expected = "`unsaid` is the earlier name of `not_from_user`, and a policy uses one of them; \
                    write `not_from_user` everywhere";
    assert_eq!(problems(text), [expected]);
}

#[test]
fn a_word_in_two_scripts_is_allowed_and_pointed_out() {
    let text =
        "@id(\"x\") permit (principal, action, resource) when { resource.name == \"p\u{430}y\" };";
    let policy = Policy::parse(text).unwrap();
    let warnings: Vec<String> = policy.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "line 1, column 71: policy `x`: string `\"p\u{430}y\"` contains mixed scripts; spell it in one if it is not meant"
        ]
    );
}

#[test]
fn a_table_of_cases_that_cannot_be_run_is_reported_with_the_place_and_the_reason() {
    let case = |more: &str| {
        format!("# one\n[[case]]\nname = \"a\"\ncall = \"t\"\nexpect = \"allow\"\n{more}\n")
    };
    let cases = [
        (String::new(), "line 1, column 1: missing field `case`"),
        (case("expct = 1"), "line 6, column 1: unknown field `expct`"),
        (
            "[[case]]\nname = 'a'\ncall = 't'\nexpect = 'maybe'".to_owned(),
            "line 4, column 10: unknown variant `maybe`",
        ),
        (case("heard.moon = 'x'"), "line 6, column 7: unknown variant `moon`"),
        (case("heard.web = 7"), "line 6, column 13: expected a text or a list of texts"),
        (case("arguments = 7"), "line 6, column 13: expected a table, or JSON in quotes"),
        (
            case("arguments = '{\"a\": 1, \"a\": 2}'"),
            "line 2, column 1: case `a`: the arguments are not one JSON object",
        ),
        (
            case("arguments = { a = 1979-05-27 }"),
            "line 2, column 1: case `a`: JSON has no dates; put `1979-05-27` in quotes",
        ),
        (case("arguments = { a = nan }"), "line 2, column 1: case `a`: JSON has no number `NaN`"),
        (
            case("arguments = { a = 9007199254740993 }"),
            "line 2, column 1: case `a`: the arguments are not one JSON",
        ),
        (case("tenant = 'A B'"), "line 2, column 1: case `a`: `A B` is not a tenant name"),
        (
            case("") + &case(""),
            "line 8, column 1: case `a`: another case has this name; give it its own",
        ),
        (
            case("") + "[tools.known]\neffect = 'reads'",
            "`known` has a manifest already; leave it out here",
        ),
    ];
    let manifests = Manifests::parse("[tools.known]\neffect = 'reads'").unwrap();
    for (text, expected) in cases {
        let error = run_cases(&Policy::standard(), &manifests, &text).expect_err(&text).to_string();
        assert!(error.starts_with(expected), "{text}\n{error}");
    }
}

#[test]
fn a_case_that_fails_says_what_was_decided_instead() {
    let text = "[[case]]\nname = 'sent'\nheard.user = 'Write to ann@example.com'\nheard.web = 'x'\ncall = 'send'\n\
                arguments.to = 'eve@evil.example'\nexpect = 'allow'\nby = ['calls']\n\n\
                [[case]]\nname = 'asked'\nheard.web = 'x'\ncall = 'send'\nexpect = 'ask'\nby = ['floor']\n\n\
                [[case]]\nname = 'made'\nheard.user = 'Share it with Anna'\nheard.web = 'x'\nmade.id = '13'\n\
                call = 'share'\narguments = '{\"id\": \"13\", \"to\": \"Anna\"}'\nexpect = 'allow'\n\
                [tools.share]\neffect = 'writes'\narguments.id = { sink = 'id' }\n\
                arguments.to = { sink = 'recipient' }\n";
    let outcomes = run_cases(&Policy::standard(), &Manifests::default(), text).unwrap();
    let shown: Vec<String> = outcomes.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "FAILED  sent (line 1): expected allow by [calls], decided ask by [floor]: untrusted text was read before, \
             and the user did not say `to > name`, `to`; a reviewer may approve it",
            "ok      asked",
            "ok      made",
        ]
    );
    let json = serde_json::to_value(&outcomes[0]).unwrap();
    assert_eq!((json["passed"].as_bool(), json["decided"].as_str()), (Some(false), Some("ask")));
}
