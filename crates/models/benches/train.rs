//! How long one training step takes, forward, backward and update, through an encoder of MiniLM's size.
//!
//! The weights are random: speed does not depend on them. `RAYON_NUM_THREADS=1` gives the figures for one thread.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub, reason = "a bench")]

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use custody_models::train::{TrainOptions, TrainProgress, TrainingSample, fine_tune};
use custody_models::{Encoder, Tokenizer};

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/common/minilm_size.rs"]
mod minilm_size;

fn step(criterion: &mut Criterion) {
    let encoder =
        Encoder::from_bytes(minilm_size::CONFIG.as_bytes(), &minilm_size::weights()).unwrap();
    let tokenizer = Arc::new(Tokenizer::from_bytes(common::tiny_tokenizer().as_bytes()).unwrap());
    for (batch, max_tokens) in [(16, 32), (16, 128)] {
        let text = "the cat sat on the mat ".repeat(30);
        let mut group = criterion.benchmark_group("step");
        group.sample_size(10).throughput(Throughput::Elements((batch * max_tokens) as u64));
        group.bench_function(format!("{batch} x {max_tokens}"), |bencher| {
            bencher.iter_custom(|count| {
                let count = usize::try_from(count).unwrap();
                let samples: Vec<TrainingSample<'_>> = (0..batch * (count + 1))
                    .map(|index| TrainingSample {
                        text: &text,
                        targets: vec![Some(f32::from(index % 2 == 0))],
                        weight: 1.0,
                    })
                    .collect();
                let options =
                    TrainOptions { epochs: 1, batch, max_tokens, ..TrainOptions::default() };
                // The clock runs from the end of the first step to the end of the last.
                let mut clock = None;
                let mut spent = Duration::ZERO;
                fine_tune(&encoder, &tokenizer, &samples, &options, &mut |progress| {
                    if matches!(progress, TrainProgress::Batch { .. }) {
                        spent = clock.get_or_insert_with(Instant::now).elapsed();
                    }
                    ControlFlow::Continue(())
                })
                .unwrap();
                spent
            });
        });
        group.finish();
    }
}

criterion_group!(benches, step);
criterion_main!(benches);
