//! A fine-tuned encoder as the transformer of the cascade.

use custody_models::{Classifier, EncoderClassifier};

use crate::screen::Kind;
use crate::transformer::{ReadError, Reader};

/// One question for prompts and one for documents.
const HEADS: usize = 2;

/// A classifier with one head for prompts and one for documents.
#[derive(Debug, Clone)]
pub struct EncoderReader {
    classifier: EncoderClassifier,
}

/// A classifier that answers other questions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the classifier answers {heads} questions and not two, for prompts and documents; train it with `custody train transformer`"
)]
pub struct WrongHeads {
    /// How many it answers.
    pub heads: usize,
}

impl EncoderReader {
    /// Reads with `classifier`.
    ///
    /// # Errors
    /// [`WrongHeads`].
    pub fn new(classifier: EncoderClassifier) -> Result<Self, WrongHeads> {
        let heads = classifier.heads();
        if heads == HEADS { Ok(Self { classifier }) } else { Err(WrongHeads { heads }) }
    }

    /// The classifier.
    pub fn classifier(&self) -> &EncoderClassifier {
        &self.classifier
    }
}

impl Reader for EncoderReader {
    fn decisions(&self, texts: &[&str], kind: Kind) -> Result<Vec<f64>, ReadError> {
        let head = head_of(kind);
        let logits = self.classifier.logits(texts).map_err(|cause| ReadError(Box::new(cause)))?;
        Ok(logits
            .iter()
            .map(|heads| heads.get(head).copied().map_or(f64::INFINITY, f64::from))
            .collect())
    }
}

/// The place of the kind's question.
pub fn head_of(kind: Kind) -> usize {
    match kind {
        Kind::Prompt => 0,
        Kind::Content | Kind::Unknown => 1,
    }
}
