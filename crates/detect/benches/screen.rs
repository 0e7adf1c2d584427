//! The time of the default cascade on realistic prompts and tool outputs.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use custody_detect::screen::Screener;
use custody_detect::text_kind::TextKind;

const CASES: [(&str, TextKind, &str); 4] = [
    (
        "short prompt",
        TextKind::Prompt,
        "What should I cook tonight with two leeks, some rice and a lemon?",
    ),
    (
        "prompt of 240 characters",
        TextKind::Prompt,
        "Please look at the letter from our supplier in Lyon and tell me which of the three offers is the \
         cheapest once shipping and the discount for early payment are counted. I need the answer before \
         the meeting on Thursday, in two sentences.",
    ),
    (
        "German prompt",
        TextKind::Prompt,
        "Kannst du mir erklären, wie ich die Wärmepumpe so einstelle, dass sie nachts leiser läuft?",
    ),
    (
        "tool output",
        TextKind::Content,
        r#"{"orders": [{"id": 4711, "status": "shipped", "note": "Left with the neighbour on the second floor."},
           {"id": 4712, "status": "open", "note": "The customer asked for blue instead of green."}]}"#,
    ),
];

fn cascade(criterion: &mut Criterion) {
    let screener = Screener::built_in();
    let mut group = criterion.benchmark_group("default cascade");
    for (name, kind, text) in CASES {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| screener.screen(black_box(text), kind).expect("the text is short"));
        });
    }
    group.finish();
}

criterion_group!(benches, cascade);
criterion_main!(benches);
