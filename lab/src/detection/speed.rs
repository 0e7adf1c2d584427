//! How long our n-grams and our embedding take for one text, beside Python doing the same work.

use std::path::Path;
use std::sync::Arc;

use custody_models::{Embedder as _, Encoder, SentenceEmbedder, Tokenizer};

use super::detector::{Failure, Recipe as _, Task};
use super::methods::ngrams::{NgramRecipe, max_features};
use super::python;
use crate::error::EvalError;
use crate::metrics::percentile;
use crate::recipe::corpus::Held;
use crate::report::Figure;
use crate::sets::rows::split;
use crate::stopwatch::timed;

/// The length of the text, in characters: a usual prompt, and the one that the claims name.
const CHARACTERS: usize = 240;
const CALLS: usize = 200;
const TIMEOUT_MS: u64 = 300_000;

/// Times D2 trained on deepset and, with `model` (the folder of MiniLM), the embedding; then asks Python.
///
/// # Errors
/// When the data is not there, or a model fails.
pub fn measure(data: &Path, model: Option<&Path>) -> Result<Vec<Figure>, EvalError> {
    const DATA_SET: &str = "deepset";
    let failed = |cause: Failure| EvalError::Detector {
        method: "speed".to_owned(),
        data_set: DATA_SET.to_owned(),
        cause,
    };
    let split = split(data, DATA_SET)?;
    let letters = split.train.iter().flat_map(|row| row.text.chars().chain([' ']));
    let text: String = letters.take(CHARACTERS).collect();
    let held = Held::default();
    let task = Task { data_set: DATA_SET, train: &split.train, held: &held, seed: 0 };
    let ngrams = NgramRecipe.train(task).map_err(failed)?;
    let ngram_us = median_us(|| ngrams.scores(&[&text]).map(drop)).map_err(failed)?;
    let embedding_us = match model {
        Some(folder) => Some(embedding_us(folder, &text).map_err(failed)?),
        None => None,
    };
    let answer = python::ask(&python::InterpreterQuestion {
        train: &split.train,
        max_features: max_features(DATA_SET),
        text: &text,
        calls: CALLS,
        model,
        onnx: None,
        timeout_ms: TIMEOUT_MS,
    });
    Ok(python::figures(ngram_us, embedding_us, answer.as_ref()))
}

fn embedding_us(folder: &Path, text: &str) -> Result<f64, Failure> {
    let tokenizer = Arc::new(Tokenizer::open(&folder.join("tokenizer.json"))?);
    let embedder = SentenceEmbedder::new(Arc::new(Encoder::open(folder)?), tokenizer)?;
    // One thread, as Python is given.
    let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    one_thread.install(|| median_us(|| Ok(embedder.embed(&[text]).map(drop)?)))
}

/// The median of single calls, after three that warm up.
fn median_us(call: impl Fn() -> Result<(), Failure>) -> Result<f64, Failure> {
    for _ in 0..3 {
        call()?;
    }
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let (answer, seconds) = timed(&call);
        answer?;
        times.push(seconds * 1e6);
    }
    percentile(&times, 50.0).ok_or_else(|| "no call was timed".into())
}
