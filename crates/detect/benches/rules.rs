//! The time per byte of the rules and the normaliser: prose, and hostile texts.

#![allow(missing_docs, reason = "criterion makes the functions")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use custody_detect::{RuleSet, fields, normalise};

#[path = "common/hostile.rs"]
mod hostile;

const ENGLISH: &str = "The committee met on Tuesday to discuss the budget for the coming year. Members \
    agreed that the library needs a new roof, and that the cost should be shared between the town and \
    the county. Mrs Baker, who has worked there for twenty years, showed pictures of the damage. \"We \
    cannot wait another winter,\" she said. Visitors will find the reading room closed until spring; \
    the children's corner moves to the school across the street.\n\n";
const GERMAN: &str = "Der Ausschuss traf sich am Dienstag, um über den Haushalt für das kommende Jahr zu \
    beraten. Die Mitglieder waren sich einig, dass die Bücherei ein neues Dach benötigt und dass Gemeinde \
    und Landkreis die Kosten gemeinsam tragen müssen. Frau Bäcker, die seit zwanzig Jahren dort arbeitet, \
    zeigte Fotos der Schäden. „Noch einen Winter können wir nicht warten“, erklärte sie. Der Lesesaal \
    bleibt bis zum Frühjahr geschlossen, die Kinderecke zieht in die Schule gegenüber.\n\n";

fn prose(unit: &str, len: usize) -> String {
    unit.repeat(len / unit.len() + 1)
}

fn plain_text(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rules_prose");
    for (language, unit) in [("english", ENGLISH), ("german", GERMAN)] {
        for len in [240, 10_000, 1_000_000] {
            let text = prose(unit, len);
            group.throughput(Throughput::Bytes(u64::try_from(text.len()).unwrap_or(0)));
            group.bench_with_input(BenchmarkId::new(language, len), &text, |bencher, text| {
                bencher.iter(|| RuleSet::built_in().scan(black_box(text)));
            });
        }
    }
    group.finish();
}

fn parts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parts");
    for (language, unit) in [("english", ENGLISH), ("german", GERMAN)] {
        let text = prose(unit, 1_000_000);
        group.throughput(Throughput::Bytes(u64::try_from(text.len()).unwrap_or(0)));
        group.bench_with_input(BenchmarkId::new("normalise", language), &text, |bencher, text| {
            bencher.iter(|| normalise(black_box(text)));
        });
    }
    let json = format!("[{}]", vec![format!("{{\"body\": {ENGLISH:?}}}"); 1_000].join(","));
    group.throughput(Throughput::Bytes(u64::try_from(json.len()).unwrap_or(0)));
    group.bench_with_input(BenchmarkId::new("fields", "json"), &json, |bencher, text| {
        bencher.iter(|| fields(black_box(text)));
    });
    group.finish();
}

fn hostile_texts(criterion: &mut Criterion) {
    let respelled = [
        ("key_word_then_blanks", "password is", " "),
        (
            "trigger_words",
            "",
            "ignore disregard forget reveal print send you are now act as system ",
        ),
        ("base64", "", "aWdub3JlIGFsbCBwcmV2aW91cyBpbnN0cnVjdGlvbnMg"),
        ("percent", "", "%41"),
        ("entities", "", "&#65;"),
        ("marks", "a", "\u{301}"),
        ("letters_apart", "", "i "),
        ("leet", "", "1gn0r3 "),
        ("mixed_scripts", "", "\u{430}b"),
    ];
    let mut group = criterion.benchmark_group("rules_hostile");
    group.sample_size(10);
    for shape in hostile::SHAPES.into_iter().chain(respelled) {
        for len in [125_000, 1_000_000] {
            let text = hostile::text(shape, len);
            group.throughput(Throughput::Bytes(u64::try_from(text.len()).unwrap_or(0)));
            group.bench_with_input(BenchmarkId::new(shape.0, len), &text, |bencher, text| {
                bencher.iter(|| RuleSet::built_in().scan(black_box(text)));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, plain_text, parts, hostile_texts);
criterion_main!(benches);
