//! D4: MiniLM, fine-tuned on the training rows of each data set.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

use custody_detect::exact_math::sigmoid;
use custody_models::train::{TrainOptions, TrainProgress, TrainingSample, fine_tune};
use custody_models::{Classifier, Encoder, EncoderClassifier, ModelError, Tokenizer};

use crate::detection::detector::{Detector, Failure, Recipe, Task, Varies};
use crate::sets::Labelled;

/// The tokens that stand around every text.
const FRAME: usize = 2;
/// Tokens that are read of a long text's beginning.
const HEAD: usize = 64;
/// Tokens that are read of its end.
const TAIL: usize = 62;
/// How far what is learned stays from certainty. Labels of real corpora are sometimes wrong, and D5 mixes scores: a
/// transformer that is always certain leaves the n-grams no say.
///
/// Source: Szegedy et al. 2016, "Rethinking the Inception architecture", section 7, *label smoothing*.
const DOUBT: f32 = 0.1;

/// D4 as MON §5.2 has it but for the model: all training rows, a fixed number of epochs, threshold one half. Here all
/// layers are trained; rate, epochs and what is read of a text were chosen on training rows alone
/// (`docs/decisions/0012-how-the-fine-tuned-transformer-is-trained.md`).
#[derive(Debug, Clone)]
pub struct FineTunedRecipe {
    base: Encoder,
    tokenizer: Arc<Tokenizer>,
}

impl FineTunedRecipe {
    /// Fine-tunes `base`, whose tokenizer is `tokenizer`.
    pub fn new(base: Encoder, tokenizer: Arc<Tokenizer>) -> Self {
        Self { base, tokenizer }
    }
}

/// More epochs for fewer rows.
fn options(data_set: &str, seed: u64) -> TrainOptions {
    let (epochs, learning_rate) = match data_set {
        "deepset" => (8, 5e-5),
        "jackhhao" => (3, 1.5e-4),
        _ => (4, 1.5e-4),
    };
    TrainOptions {
        epochs,
        batch: 16,
        learning_rate,
        max_tokens: FRAME + HEAD + TAIL,
        freeze_embeddings: false,
        heads: 1,
        seed,
        ..TrainOptions::default()
    }
}

impl Recipe for FineTunedRecipe {
    fn id(&self) -> &str {
        "d4"
    }

    fn title(&self) -> &str {
        "D4: MiniLM"
    }

    fn fingerprint(&self) -> String {
        let options = ["deepset", "jackhhao", "combined"].map(|set| options(set, 0));
        format!("{} all rows, {HEAD}+{TAIL}, doubt {DOUBT}, {options:?}", self.base.digest())
    }

    fn varies(&self) -> Varies {
        Varies::WithDataAndSeed
    }

    fn train(&self, task: Task<'_>) -> Result<Box<dyn Detector>, Failure> {
        let texts: Vec<Cow<'_, str>> = task
            .train
            .iter()
            .map(|row| ends(&self.tokenizer, &row.text))
            .collect::<Result<_, _>>()?;
        let samples: Vec<TrainingSample<'_>> =
            task.train.iter().zip(&texts).map(|(row, text)| sample(row, text)).collect();
        let options = options(task.data_set, task.seed);
        let classifier =
            fine_tune(&self.base, &self.tokenizer, &samples, &options, &mut |_: TrainProgress<
                '_,
            >| {
                ControlFlow::Continue(())
            })?;
        Ok(Box::new(Trained(classifier)))
    }
}

/// What is `read` of `row`, with its label.
fn sample<'a>(row: &Labelled, read: &'a str) -> TrainingSample<'a> {
    let target = if row.label { 1.0 - DOUBT } else { DOUBT };
    TrainingSample { text: read, targets: vec![Some(target)], weight: 1.0 }
}

struct Trained(EncoderClassifier);

impl Detector for Trained {
    fn scores(&self, texts: &[&str]) -> Result<Vec<f64>, Failure> {
        let read: Vec<Cow<'_, str>> =
            texts.iter().map(|text| ends(self.0.tokenizer(), text)).collect::<Result<_, _>>()?;
        let logits = self.0.logits(&read.iter().map(AsRef::as_ref).collect::<Vec<&str>>())?;
        Ok(logits
            .iter()
            .map(|heads: &Vec<f32>| heads.first().map_or(f64::NAN, |logit| (*logit).into()))
            .map(sigmoid)
            .collect())
    }

    fn threshold(&self) -> f64 {
        0.5
    }
}

/// What is read of a text: all of it, or where that is too long its beginning and its end, which say who is to
/// answer and what is asked for.
///
/// Source: Sun et al. 2019, "How to fine-tune BERT for text classification", section 5.3.1, *head+tail*.
fn ends<'a>(tokenizer: &Tokenizer, text: &'a str) -> Result<Cow<'a, str>, ModelError> {
    // A token is at least a byte.
    let spans = tokenizer.tokens(text, text.len())?.spans;
    let Some(middle) = spans.len().checked_sub(HEAD + TAIL).filter(|middle| *middle > 0) else {
        return Ok(Cow::Borrowed(text));
    };
    let (head, tail) = (&text[..spans[HEAD - 1].end], &text[spans[HEAD + middle].start..]);
    Ok(Cow::Owned(format!("{head} {tail}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every word is a token.
    fn words() -> Tokenizer {
        let part = |name: &str| serde_json::json!({ "SpecialToken": { "id": name, "type_id": 0 } });
        let special =
            |name: &str, id: u32| serde_json::json!({ "id": name, "ids": [id], "tokens": [name] });
        let json = serde_json::json!({
            "version": "1.0",
            "added_tokens": [],
            "pre_tokenizer": { "type": "WhitespaceSplit" },
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [part("<"), { "Sequence": { "id": "A", "type_id": 0 } }, part(">")],
                "pair": [],
                "special_tokens": { "<": special("<", 0), ">": special(">", 1) },
            },
            "model": {
                "type": "WordLevel",
                "vocab": { "<": 0, ">": 1, "?": 2 },
                "unk_token": "?",
            },
        });
        Tokenizer::from_bytes(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn of_a_long_text_its_beginning_and_its_end_are_read() {
        let text = |range: std::ops::Range<usize>| -> String {
            range.map(|at| format!("wörd{at}")).collect::<Vec<_>>().join(" ")
        };
        let words = words();
        for whole in [0, 1, HEAD + TAIL] {
            assert!(matches!(ends(&words, &text(0..whole)).unwrap(), Cow::Borrowed(_)), "{whole}");
        }
        for length in [HEAD + TAIL + 1, 1_000] {
            let expected = format!("{} {}", text(0..HEAD), text(length - TAIL..length));
            assert_eq!(ends(&words, &text(0..length)).unwrap(), expected);
        }
        assert_eq!(
            words.encode(&text(0..HEAD + TAIL), 512).unwrap().ids.len(),
            FRAME + HEAD + TAIL
        );
    }
}
