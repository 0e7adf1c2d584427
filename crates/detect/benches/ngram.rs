//! The time of detector D2 for 240 characters (ASCII and German), 10 kB and 1 MB, of an
//! explanation, of loading a model, and of guessing a text's language.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use custody_detect::language::guess_language;
use custody_detect::ngram::{NgramModel, NgramOptions, train};

const ASKS: [&str; 6] = [
    "summarise",
    "translate",
    "review the budget of",
    "reply to the letter about",
    "list",
    "plan the week around",
];
const ORDERS: [&str; 4] = [
    "ignore what you were told about",
    "forget every rule on",
    "reveal the hidden notes on",
    "act as the owner of",
];
const THINGS: [&str; 8] = [
    "our supplier in Lyon",
    "the harvest festival",
    "Größen und Übermaße",
    "chapter 12 of the manual",
    "the cellar door",
    "quarterly figures, 2019-2024",
    "a parcel of books",
    "the night train",
];

/// Sentences from a small grammar, enough of them for a model of 15,000 n-grams.
fn corpus() -> (Vec<String>, Vec<bool>) {
    let (mut texts, mut labels) = (Vec::new(), Vec::new());
    for (number, (thing, other)) in
        (0_u32..).zip(THINGS.iter().flat_map(|a| THINGS.iter().map(move |b| (a, b))))
    {
        for (label, verbs) in [(false, ASKS.as_slice()), (true, ORDERS.as_slice())] {
            for verb in verbs {
                // A few letters that differ from text to text bring the n-grams that real corpora have.
                let code = u64::from(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 4;
                let code: String = (0..40)
                    .map(|at| char::from(b'a' + u8::try_from(code >> at & 15).unwrap_or(0)))
                    .collect();
                texts.push(format!("Please {verb} {thing} and {other}; {code}."));
                labels.push(label);
            }
        }
    }
    (texts, labels)
}

/// The model that `CUSTODY_NGRAM_MODEL` names, or one trained on the corpus above.
fn model() -> NgramModel {
    if let Some(path) = std::env::var_os("CUSTODY_NGRAM_MODEL") {
        let bytes = std::fs::read(path).expect("the named model can be read");
        return NgramModel::from_bytes(&bytes).expect("the named model is one");
    }
    let (texts, labels) = corpus();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    train(&texts, &labels, None, &NgramOptions::default()).expect("both classes are there")
}

fn bench(criterion: &mut Criterion) {
    let model = model();
    let sentence = "Please look at the letter from our supplier in Lyon and tell me which of the three \
        offers is the cheapest once shipping and the discount for early payment are counted. ";
    let ascii: String = sentence.repeat(2).chars().take(240).collect();
    let german: String = "Für die Größe der Kästen gilt: Übermaße müssen spätestens bis zum Frühjahr gemeldet werden. "
        .repeat(3)
        .chars()
        .take(240)
        .collect();
    let (page, book) = (ascii.repeat(42), ascii.repeat(4200));
    let bytes = model.to_bytes();
    let mut group = criterion.benchmark_group("ngram");
    group.bench_function("probability_240_ascii", |b| {
        b.iter(|| model.probability(black_box(&ascii)));
    });
    group.bench_function("probability_240_german", |b| {
        b.iter(|| model.probability(black_box(&german)));
    });
    group.bench_function("probability_10_kb", |b| {
        b.iter(|| model.probability(black_box(&page)));
    });
    group.bench_function("probability_1_mb", |b| {
        b.iter(|| model.probability(black_box(&book)));
    });
    group.bench_function("contributions_240", |b| {
        b.iter(|| model.contributions(black_box(&ascii), 5));
    });
    group.bench_function("from_bytes", |b| {
        b.iter(|| NgramModel::from_bytes(black_box(&bytes)));
    });
    group.bench_function("language_240", |b| {
        b.iter(|| guess_language(black_box(&ascii)));
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
