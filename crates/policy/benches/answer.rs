//! One answer: what a policy adds to the decision of a call.
//!
//! `cargo bench -p custody-policy`.

use std::collections::BTreeSet;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use custody_arguments::{Arguments, TextIndex, trace};
use custody_kernel::label::{Channel, Taint, Trust};
use custody_kernel::namespace::Tenant;
use custody_kernel::principal::Role;
use custody_policy::{Caller, Manifests, Policy, Question};

/// Twenty statements of the usual kinds.
fn policy() -> Policy {
    let mut text = String::from("@id(\"calls\") permit (principal, action, resource);\n");
    for number in 0..6 {
        text.push_str(&format!(
            "@id(\"to-{number}\") @answer(\"ask\") forbid (principal, action, resource == Tool::\"t{number}\")
             unless {{ [\"a{number}@example.com\", \"b@example.com\"].containsAll(context.recipients.not_from_user) }};
             @id(\"amount-{number}\") forbid (principal, action, resource) when {{ context.amount > {number}000 }};
             @id(\"web-{number}\") forbid (principal, action, resource in Group::\"g{number}\")
             when {{ context.tainted && context.channels.contains(Channel::\"web\") }};\n"
        ));
    }
    text.push_str("forbid (principal, action, resource) when { !principal.trusted && resource.effect == Effect::\"writes\" };");
    Policy::parse(&text).expect("it is written for the schema")
}

fn answer(criterion: &mut Criterion) {
    let sinks = ["recipient", "url", "path", "id", "other"];
    let mut manifests = String::from("groups.g = ['send']\n[tools.send]\neffect = 'writes'\n");
    let mut arguments = serde_json::Map::new();
    for number in 0..20 {
        let sink = sinks[number % sinks.len()];
        manifests.push_str(&format!("arguments.a{number} = {{ sink = '{sink}' }}\n"));
        arguments.insert(format!("a{number}"), format!("value{number}@example.com").into());
    }
    let manifests = Manifests::parse(&manifests).expect("it is a manifest file");
    let arguments = serde_json::Value::Object(arguments).to_string();
    let arguments = Arguments::parse(&arguments).expect("it is I-JSON");
    let mut heard = TextIndex::default();
    heard.add_user_text("Write to value0@example.com.");
    let tool = manifests.tool("send");
    let leaves = trace(tool.tool, &arguments, &heard).into_recorded();
    let tenant = Tenant::main();
    let channels = BTreeSet::from([Channel::User, Channel::Web]);
    let question = Question {
        caller: Caller { name: "ada", role: Role::User, trust: Trust::Trusted, tenant: &tenant },
        tool,
        arguments: &arguments,
        leaves: &leaves,
        taint: Taint::Tainted,
        channels: &channels,
        is_intended: false,
    };
    let twenty = policy();
    assert_eq!(twenty.statements().len(), 20);
    criterion.bench_function("answer/20 policies, 20 arguments", |bench| {
        bench.iter(|| twenty.answer(black_box(&question)));
    });
    let standard = Policy::standard();
    criterion.bench_function("answer/standard, 20 arguments", |bench| {
        bench.iter(|| standard.answer(black_box(&question)));
    });
    criterion.bench_function("parse/20 policies", |bench| {
        bench.iter(|| Policy::parse(black_box(twenty.text())));
    });
}

criterion_group!(benches, answer);
criterion_main!(benches);
