//! How many tokens a second a decoder of SmolLM2-135M's size reads, and how many it writes.
//!
//! The weights are random: speed does not depend on them. `RAYON_NUM_THREADS=1` gives the figures for one thread.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub, reason = "a bench")]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use custody_models::Decoder;
use custody_models::gguf::Gguf;

#[path = "../tests/common/gguf.rs"]
mod file;

use file::{File, Q8_0};

const VOCABULARY: usize = 49_152;
const WIDTH: usize = 576;
const INNER: usize = 1536;
const KEYS: usize = 192;
const LAYERS: usize = 30;
/// Written after a prompt.
const WRITTEN: u64 = 32;

fn decoder() -> Decoder {
    let mut file = File::default()
        .text("general.architecture", "llama")
        .number("llama.context_length", 8192)
        .number("llama.embedding_length", 576)
        .number("llama.feed_forward_length", 1536)
        .number("llama.block_count", 30)
        .number("llama.attention.head_count", 9)
        .number("llama.attention.head_count_kv", 3)
        .float("llama.attention.layer_norm_rms_epsilon", 1e-5)
        .texts("tokenizer.ggml.tokens", &vec![String::new(); VOCABULARY])
        .floats("output_norm.weight", &[WIDTH], &[1.0; WIDTH]);
    file = matrix(file, "token_embd", VOCABULARY, WIDTH);
    for layer in 0..LAYERS {
        for name in ["attn_norm", "ffn_norm"] {
            file = file.floats(&format!("blk.{layer}.{name}.weight"), &[WIDTH], &[1.0; WIDTH]);
        }
        for (name, rows, inputs) in [
            ("attn_q", WIDTH, WIDTH),
            ("attn_k", KEYS, WIDTH),
            ("attn_v", KEYS, WIDTH),
            ("attn_output", WIDTH, WIDTH),
            ("ffn_gate", INNER, WIDTH),
            ("ffn_up", INNER, WIDTH),
            ("ffn_down", WIDTH, INNER),
        ] {
            file = matrix(file, &format!("blk.{layer}.{name}"), rows, inputs);
        }
    }
    Decoder::from_gguf(&Gguf::parse(&file.bytes()).unwrap()).unwrap()
}

/// Blocks of any bytes, all with the scale 2^-11.
fn matrix(file: File, name: &str, rows: usize, inputs: usize) -> File {
    let mut bytes: Vec<u8> = (0..rows * inputs / 32 * 34).map(|at| at.to_le_bytes()[0]).collect();
    for block in bytes.chunks_exact_mut(34) {
        block[..2].copy_from_slice(&[0x00, 0x10]);
    }
    file.tensor(&format!("{name}.weight"), &[rows, inputs], Q8_0, bytes)
}

fn generate(criterion: &mut Criterion) {
    let decoder = decoder();
    for tokens in [32_u32, 256] {
        let prompt: Vec<u32> = (0..tokens).map(|at| 1000 + at * 37).collect();
        let mut group = criterion.benchmark_group("decoder");
        group.sample_size(10).throughput(Throughput::Elements(tokens.into()));
        group.bench_function(format!("reads {tokens} tokens"), |bencher| {
            bencher.iter(|| decoder.start().read(&prompt).unwrap());
        });
        group.throughput(Throughput::Elements(WRITTEN));
        let mut read = decoder.start();
        read.read(&prompt).unwrap();
        group.bench_function(format!("writes {WRITTEN} tokens after {tokens}"), |bencher| {
            bencher.iter_batched(
                || read.clone(),
                |mut reading| {
                    for id in 0..WRITTEN {
                        reading.read(&[u32::try_from(id).unwrap()]).unwrap();
                    }
                },
                BatchSize::PerIteration,
            );
        });
        group.finish();
    }
}

criterion_group!(benches, generate);
criterion_main!(benches);
