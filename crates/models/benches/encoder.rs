//! How long one text and a batch of 32 take through an encoder of MiniLM's size, at 20, 128 and 256 tokens.
//!
//! The weights are random: speed does not depend on them. `RAYON_NUM_THREADS=1` gives the figures for one thread.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub, reason = "a bench")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use custody_models::Encoder;

#[path = "../tests/common/minilm_size.rs"]
mod minilm_size;

fn forward(criterion: &mut Criterion) {
    let encoder =
        Encoder::from_bytes(minilm_size::CONFIG.as_bytes(), &minilm_size::weights()).unwrap();
    for tokens in [20, 128, 256] {
        let ids: Vec<u32> = (0..tokens).map(|i| 1000 + i * 37).collect();
        for texts in [1, 32] {
            let batch = vec![ids.as_slice(); texts];
            let mut group = criterion.benchmark_group("forward");
            group.sample_size(10).throughput(Throughput::Elements(texts as u64));
            group.bench_function(format!("{texts} x {tokens}"), |bencher| {
                bencher.iter(|| encoder.mean_vectors(&batch).unwrap());
            });
            group.finish();
        }
    }
}

criterion_group!(benches, forward);
criterion_main!(benches);
