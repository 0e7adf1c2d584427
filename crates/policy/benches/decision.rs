//! One whole decision of a tool call, as its median and its slowest hundredth.
//!
//! `cargo bench -p custody-policy --bench decision`. Twenty arguments are read, traced in a session that heard 100 kB,
//! put to twenty policies and decided; the session's index is built beforehand. To hold: 100 µs at the 99th
//! percentile. Criterion gives means, so this counts for itself.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use custody_arguments::{Arguments, TextIndex, trace};
use custody_kernel::actions::call::{CallContext, decide_call};
use custody_kernel::label::{Channel, Label, Taint, Trust};
use custody_kernel::namespace::Tenant;
use custody_kernel::principal::Role;
use custody_kernel::record::Value;
use custody_kernel::tool::call::Call;
use custody_log::{Digest, Seq};
use custody_policy::{Caller, Manifests, Policy, Question};

const RUNS: usize = 20_000;
const SINKS: [&str; 6] = ["recipient", "url", "path", "id", "account", "other"];

/// Prose of about `bytes` bytes, in which no two sentences are alike.
fn prose(bytes: usize) -> String {
    let mut text = String::new();
    let mut n = 0_u32;
    while text.len() < bytes {
        n += 1;
        let _ = write!(text, "Order {n} went to person{n}@example.com for {}.50 euros. ", n % 977);
    }
    text
}

/// A context of 100 kB, a tenth of it the user's.
fn heard() -> TextIndex {
    let mut heard = TextIndex::default();
    heard.add_user_text(&prose(10_000));
    for seq in 0..9 {
        heard.add_untrusted_text(Seq(seq), &prose(10_000));
    }
    heard
}

/// Twenty statements of the usual kinds.
fn policy() -> Policy {
    let mut text = String::from("@id(\"calls\") permit (principal, action, resource);\n");
    for n in 0..6 {
        let _ = write!(
            text,
            "@id(\"to-{n}\") @answer(\"ask\") forbid (principal, action, resource == Tool::\"t{n}\")
             unless {{ [\"a{n}@example.com\", \"b@example.com\"].containsAll(context.recipients.not_from_user) }};
             @id(\"amount-{n}\") forbid (principal, action, resource) when {{ context.amount > {n}000 }};
             @id(\"web-{n}\") forbid (principal, action, resource in Group::\"g{n}\")
             when {{ context.tainted && context.channels.contains(Channel::\"web\") }};\n"
        );
    }
    text.push_str("forbid (principal, action, resource) when { !principal.trusted };");
    Policy::parse(&text).expect("it is written for the schema")
}

/// A tool with twenty arguments: addresses, numbers, sentences, and what nobody said.
fn tool_and_arguments() -> (Manifests, String) {
    let mut manifests = String::from("groups.g = ['send']\n[tools.send]\neffect = 'writes'\n");
    let mut members = Vec::new();
    for n in 0..20 {
        let sink = SINKS.get(n % (SINKS.len() + 1)).map(|sink| format!("sink = '{sink}'"));
        let _ = writeln!(manifests, "arguments.a{n} = {{ {} }}", sink.unwrap_or_default());
        members.push(match n % 4 {
            0 => format!("\"a{n}\":\"person{n}@example.com\""),
            1 => format!("\"a{n}\":{n}.5"),
            2 => format!("\"a{n}\":\"Order {n} went to person{n}@example.com for {n}.50 euros.\""),
            _ => format!("\"a{n}\":\"nobody-{n}\""),
        });
    }
    let manifests = Manifests::parse(&manifests).expect("it is a manifest file");
    (manifests, format!("{{{}}}", members.join(",")))
}

fn main() {
    let (manifests, json) = tool_and_arguments();
    let (heard, policy, tenant) = (heard(), policy(), Tenant::main());
    let channels = BTreeSet::from([Channel::User, Channel::Tool]);
    let context = Some(Label::at_ingress(Channel::Tool, Trust::Trusted));
    let tool = manifests.tool("send");
    let decide = || {
        let arguments = Arguments::parse(black_box(&json)).expect("I-JSON");
        let leaves = trace(tool.tool, &arguments, &heard).into_recorded();
        let name = "ada";
        let caller = Caller { name, role: Role::User, trust: Trust::Trusted, tenant: &tenant };
        let answer = policy.answer(&Question {
            caller,
            tool,
            arguments: &arguments,
            leaves: &leaves,
            taint: Taint::Tainted,
            channels: &channels,
            is_intended: false,
        });
        let call = Call {
            tool: "send".into(),
            effect: tool.tool.effect,
            known: true,
            manifest: Digest([0; 32]),
            arguments: Value::New(Digest([1; 32])),
            leaves,
            policy: answer,
            local_policy: None,
            intent: None,
            approval: None,
        };
        decide_call(&call, CallContext { label: context, signed_policy: None, is_intended: false })
            .is_ok()
    };
    let time = |_| {
        let started = Instant::now();
        black_box(decide());
        started.elapsed()
    };
    let mut times: Vec<Duration> = (0..RUNS).map(time).collect();
    times.sort_unstable();
    for (name, part) in [("median", 0.5), ("90 %", 0.9), ("99 %", 0.99)] {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
        #[expect(clippy::cast_precision_loss, reason = "an index")]
        let index = (RUNS as f64 * part) as usize;
        let micros = times.get(index).map_or(f64::NAN, |time| time.as_secs_f64() * 1e6);
        println!("{name:>6}: {micros:.1} µs");
    }
}
