//! One tool call: what the session heard is indexed, the arguments are traced, the call is decided.
//!
//! `cargo bench -p custody-kernel --bench call`. To hold: tracing twenty arguments in 100 kB and deciding takes
//! at most 100 µs; the index grows linearly.

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use custody_arguments::{Arguments, TextIndex, ToolManifest, trace};
use custody_kernel::actions::call::{CallContext, decide_call};
use custody_kernel::label::{Channel, Label, Trust};
use custody_kernel::record::Value;
use custody_kernel::tool::call::{Call, Permission, PolicyAnswer};
use custody_log::{Digest, Seq};

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

/// A context of `bytes`, a tenth of it the user's.
fn heard(bytes: usize) -> TextIndex {
    let mut heard = TextIndex::default();
    heard.add_user_text(&prose(bytes / 10));
    for (seq, text) in (0..9).zip(std::iter::repeat(prose(bytes / 10))) {
        heard.add_untrusted_text(Seq(seq), &text);
    }
    heard
}

/// Twenty arguments: addresses, amounts and sentences, of the user, of tools and of nobody.
fn arguments() -> String {
    let value = |n: usize| match n % 4 {
        0 => format!("\"person{n}@example.com\""),
        1 => format!("{n}.5"),
        2 => format!(
            "\"Order {n} went to person{n}@example.com for {n}.50 euros, call 555-0100-{n}.\""
        ),
        _ => format!("\"nobody-{n}\""),
    };
    let members: Vec<String> = (0..20).map(|n| format!("\"a{n}\":{}", value(n))).collect();
    format!("{{{}}}", members.join(","))
}

fn call(c: &mut Criterion) {
    let heard = heard(100_000);
    let json = arguments();
    let tool = ToolManifest::unknown();
    let label = Label::at_ingress(Channel::Tool, Trust::Trusted);
    let context = CallContext { label: Some(label), signed_policy: None, is_intended: false };
    c.bench_function("call/20 arguments in 100 kB", |b| {
        b.iter(|| {
            let arguments = Arguments::parse(black_box(&json)).expect("I-JSON");
            let call = Call {
                tool: "send".into(),
                effect: tool.effect,
                known: false,
                manifest: Digest([0; 32]),
                arguments: Value::New(Digest([1; 32])),
                leaves: trace(&tool, &arguments, &heard).into_recorded(),
                policy: PolicyAnswer {
                    version: Digest([2; 32]),
                    answer: Permission::Allow,
                    waives_floor: false,
                    extracts: Vec::new(),
                    by: Vec::new(),
                },
                local_policy: None,
                intent: None,
                approval: None,
            };
            decide_call(&call, context).is_ok()
        });
    });
}

fn index(c: &mut Criterion) {
    let mut group = c.benchmark_group("index");
    for bytes in [10_000, 100_000, 1_000_000] {
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::from_parameter(bytes), |b| {
            b.iter(|| heard(black_box(bytes)));
        });
    }
    group.finish();
}

criterion_group!(benches, call, index);
criterion_main!(benches);
