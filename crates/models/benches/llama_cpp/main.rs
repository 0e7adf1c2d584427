//! How fast SmolLM2-135M-Instruct reads and writes here and in llama.cpp: the same file, the same threads, in turns.
//!
//! `CUSTODY_MODELS` is the folder in which `custody models import` put the model, `CUSTODY_LLAMA_CPP` one in which
//! `npm install node-llama-cpp` was run; it brings llama.cpp as a program, for the processor alone. Without the two
//! nothing is measured. `RAYON_NUM_THREADS` sets the threads of both.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a bench")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use custody_models::chat::EmbeddedModel;
use serde_json::Value;

const FILE: &str = "smollm2-135m-instruct/SmolLM2-135M-Instruct.Q4_1.gguf";
const TOKENS: u32 = 256;
const WRITTEN: u32 = 128;
/// Turns, and what one of them takes the median of.
const TURNS: usize = 5;
const ROUNDS: usize = 3;

/// Tokens a second.
#[derive(Clone, Copy)]
struct Speed {
    reads: f64,
    writes: f64,
}

fn main() {
    let [models, llama_cpp] = ["CUSTODY_MODELS", "CUSTODY_LLAMA_CPP"]
        .map(|name| std::env::var_os(name).map(PathBuf::from));
    let (Some(models), Some(llama_cpp)) = (models, llama_cpp) else {
        println!("not measured: CUSTODY_MODELS and CUSTODY_LLAMA_CPP are not both set");
        return;
    };
    let file = models.join(FILE);
    let model = EmbeddedModel::open(&file).unwrap();
    let threads = rayon::current_num_threads();
    let turns: Vec<(Speed, Speed)> =
        (0..TURNS).map(|_| (ours(&model), theirs(&llama_cpp, &file, threads))).collect();
    println!(
        "{threads} threads, {TOKENS} tokens read, {WRITTEN} written, medians of {TURNS} turns"
    );
    show("reads", &turns, |speed| speed.reads);
    show("writes", &turns, |speed| speed.writes);
}

fn show(what: &str, turns: &[(Speed, Speed)], of: impl Fn(&Speed) -> f64) {
    let each = |value: &dyn Fn(&(Speed, Speed)) -> f64| median(turns.iter().map(value).collect());
    let ours = each(&|(ours, _)| of(ours));
    let theirs = each(&|(_, theirs)| of(theirs));
    let ratio = each(&|(ours, theirs)| of(ours) / of(theirs));
    println!("{what}: {ours:.0} tokens/s here, {theirs:.0} in llama.cpp, ratio {ratio:.2}");
}

fn ours(model: &EmbeddedModel) -> Speed {
    let prompt: Vec<u32> = (0..TOKENS).map(|at| 1000 + at * 37).collect();
    let round = |_| {
        let began = Instant::now();
        let mut reading = model.decoder().start();
        let mut logits = reading.read(&prompt).unwrap();
        let read = began.elapsed();
        for _ in 0..WRITTEN {
            logits = reading.read(&[greatest(&logits)]).unwrap();
        }
        let written = began.elapsed() - read;
        (f64::from(TOKENS) / read.as_secs_f64(), f64::from(WRITTEN) / written.as_secs_f64())
    };
    let (reads, writes) = (0..ROUNDS).map(round).unzip();
    Speed { reads: median(reads), writes: median(writes) }
}

fn theirs(folder: &Path, file: &Path, threads: usize) -> Speed {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/llama_cpp/speed.mjs");
    let numbers =
        [threads.to_string(), TOKENS.to_string(), WRITTEN.to_string(), ROUNDS.to_string()];
    let output = Command::new("node")
        .arg(script)
        .arg(file)
        .args(numbers)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line = String::from_utf8_lossy(&output.stdout);
    let speed: Value = serde_json::from_str(line.lines().last().unwrap()).unwrap();
    let [reads, writes] = ["reads", "writes"].map(|name| speed[name].as_f64().unwrap());
    Speed { reads, writes }
}

fn greatest(logits: &[f32]) -> u32 {
    let all = (0..).zip(logits);
    all.max_by(|one, other| one.1.total_cmp(other.1)).map_or(0, |(id, _)| id)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
