//! The transformer of the full detector: MiniLM with one head for prompts and one for documents.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use custody_detect::ngram_stage::NgramModels;
use custody_detect::normalise::normalise;
use custody_detect::screen::decisions_of_both;
use custody_detect::segments::{chunks, windows};
use custody_detect::text_kind::TextKind;
use custody_detect::transformer::{Blends, TransformerModel, head_index};
use custody_models::train::{TrainOptions, TrainProgress, TrainingSample, fine_tune};
use custody_models::{Encoder, EncoderClassifier, Tokenizer};

use super::buried::Planted;
use super::corpus::{Corpus, Prompt};
use super::cuts;
use super::error::RecipeError;
use super::ngrams::origin;

/// A stretch counts as an attack if at least this much of one stands in it, in bytes.
const MIN_PLANTED: usize = 24;

/// How the shipped weights are trained.
pub fn options(seed: u64) -> TrainOptions {
    TrainOptions {
        epochs: 2,
        batch: 32,
        learning_rate: 8e-5,
        max_tokens: 256,
        heads: 2,
        seed,
        ..TrainOptions::default()
    }
}

/// How a transformer is heard beside the n-grams of the same corpus, and where both together flag.
///
/// # Errors
/// [`RecipeError`] when a row cannot be read or the rows are too few for the rates.
pub fn calibrate(
    corpus: &Corpus,
    ngrams: &NgramModels,
    reader: &dyn TransformerModel,
) -> Result<Blends, RecipeError> {
    cuts::blend(corpus, |text, kind| decisions_of_both(ngrams, reader, text, kind))
}

/// A short text, what kind it is, and whether it is an attack.
#[derive(Clone)]
struct Example {
    text: String,
    kind: TextKind,
    is_attack: bool,
}

/// Fine-tunes `base` on the corpus.
///
/// # Errors
/// [`RecipeError`] when a row cannot be used, or the loss is no longer a number.
pub fn train(
    corpus: &Corpus,
    base: &Encoder,
    tokenizer: &Arc<Tokenizer>,
    options: &TrainOptions,
    watch: &mut dyn FnMut(TrainProgress<'_>) -> ControlFlow<()>,
) -> Result<EncoderClassifier, RecipeError> {
    let examples = examples(corpus)?;
    let samples: Vec<TrainingSample<'_>> = examples.iter().map(Example::sample).collect();
    let mut classifier = fine_tune(base, tokenizer, &samples, options, watch)?;
    let data = serde_json::to_string(&origin(corpus)).unwrap_or_default();
    classifier.notes.insert("data".to_owned(), data);
    Ok(classifier)
}

impl Example {
    fn sample(&self) -> TrainingSample<'_> {
        let mut targets = vec![None, None];
        targets[head_index(self.kind)] = Some(if self.is_attack { 1.0 } else { 0.0 });
        TrainingSample { text: &self.text, targets, weight: 1.0 }
    }
}

/// How often a prompt is seen in each epoch, beside once for a document's stretch, of which there are many.
/// deepset's rows are few, of a sort that no other source holds, and take some ten passes to learn; the personas
/// are long and much alike.
fn passes(prompt: &Prompt) -> usize {
    match prompt.group.as_str() {
        "deepset" => 6,
        "personas" => 1,
        _ => 2,
    }
}

fn examples(corpus: &Corpus) -> Result<Vec<Example>, RecipeError> {
    let mut examples = Vec::new();
    for prompt in &corpus.prompts {
        let text = normalise(&prompt.text)?;
        let Some(first) = chunks(text.text()).into_iter().next() else { continue };
        let example = Example {
            text: text.text()[first].to_owned(),
            kind: TextKind::Prompt,
            is_attack: prompt.is_attack,
        };
        examples.extend(std::iter::repeat_n(example, passes(prompt)));
    }
    let mut seen = BTreeSet::new();
    for document in &corpus.documents {
        seen.extend(stretches(&document.planted)?);
    }
    let kind = TextKind::Content;
    examples.extend(seen.into_iter().map(|(text, is_attack)| Example { text, kind, is_attack }));
    Ok(examples)
}

/// What the detector would read of a document, labelled. A stretch with a scrap of the attack is neither.
fn stretches(planted: &Planted) -> Result<Vec<(String, bool)>, RecipeError> {
    let text = normalise(&planted.text)?;
    let mut labelled = Vec::new();
    for range in windows(text.text()) {
        let here = text.original(range.clone());
        let (inside, whole) = planted.span.as_ref().map_or((0, 0), |span| {
            (here.end.min(span.end).saturating_sub(here.start.max(span.start)), span.len())
        });
        if inside == 0 || inside >= MIN_PLANTED.min(whole / 2).max(1) {
            labelled.push((text.text()[range].to_owned(), inside > 0));
        }
    }
    Ok(labelled)
}
