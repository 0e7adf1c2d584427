//! A fine-tuned encoder as the transformer of the cascade, and the files that it is made of.

use std::sync::Arc;

use custody_models::sha256::Sha256;
use custody_models::{Classifier, Encoder, EncoderClassifier, ModelError, Tokenizer};

use super::stage::{TransformerError, TransformerModel, TransformerStage};
use crate::built_in;
use crate::text_kind::TextKind;

/// One head for prompts, one for documents.
const HEADS: usize = 2;

/// A classifier with one head for prompts and one for documents.
#[derive(Debug, Clone)]
pub struct EncoderTransformer {
    classifier: EncoderClassifier,
}

/// A classifier with another number of heads than two.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the classifier has {heads} heads; it needs 2, for prompts and for documents")]
pub struct WrongHeads {
    /// The number of heads found.
    pub heads: usize,
}

/// What a fine-tuned transformer adds to its public base model.
#[derive(Debug, Clone, Copy)]
pub struct TransformerFiles<'a> {
    /// The tensors that differ from the base model, as `EncoderClassifier::overlay` writes them.
    pub overlay: &'a [u8],
    /// [`Blends`](super::Blends) as JSON.
    pub blends: &'a [u8],
}

/// Transformer files that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TransformerFilesError {
    /// The weights are damaged, or were trained on another base model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The classifier does not have two heads.
    #[error(transparent)]
    Heads(#[from] WrongHeads),
    /// The thresholds are not valid JSON of [`Blends`](super::Blends).
    #[error("the transformer's thresholds are damaged or of another format")]
    Blends(#[from] serde_json::Error),
}

impl EncoderTransformer {
    /// A transformer that runs `classifier`.
    ///
    /// # Errors
    /// [`WrongHeads`] unless it has two heads.
    pub fn new(classifier: EncoderClassifier) -> Result<Self, WrongHeads> {
        let heads = classifier.heads();
        if heads == HEADS { Ok(Self { classifier }) } else { Err(WrongHeads { heads }) }
    }

    /// The classifier.
    #[must_use]
    pub fn classifier(&self) -> &EncoderClassifier {
        &self.classifier
    }
}

impl TransformerModel for EncoderTransformer {
    fn decisions(&self, texts: &[&str], kind: TextKind) -> Result<Vec<f64>, TransformerError> {
        let head = head_index(kind);
        let logits =
            self.classifier.logits(texts).map_err(|cause| TransformerError(Box::new(cause)))?;
        Ok(logits
            .iter()
            .map(|heads| heads.get(head).copied().map_or(f64::INFINITY, f64::from))
            .collect())
    }
}

/// The index of the head that classifies texts of `kind`.
#[must_use]
pub fn head_index(kind: TextKind) -> usize {
    match kind {
        TextKind::Prompt => 0,
        TextKind::Content | TextKind::Unknown => 1,
    }
}

impl TransformerFiles<'static> {
    /// The compiled-in files of the full configuration. Their base model, all-MiniLM-L6-v2, is not compiled in.
    ///
    /// A function and not a constant: a constant would store the weights again in every crate that uses it.
    #[must_use]
    pub fn built_in() -> Self {
        Self { overlay: built_in::TRANSFORMER_OVERLAY, blends: built_in::TRANSFORMER_BLENDS }
    }
}

impl TransformerFiles<'_> {
    /// The stage with these weights on top of `base`.
    ///
    /// # Errors
    /// [`TransformerFilesError`].
    pub fn open(
        &self,
        base: &Encoder,
        tokenizer: Arc<Tokenizer>,
    ) -> Result<TransformerStage, TransformerFilesError> {
        let blends = serde_json::from_slice(self.blends)?;
        let classifier = EncoderClassifier::load(base, tokenizer, self.overlay)?;
        let model = Arc::new(EncoderTransformer::new(classifier)?);
        let weights = format!("sha256:{}", Sha256::of(self.overlay));
        Ok(TransformerStage { model, blends, weights })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transformer::Blends;

    #[test]
    fn the_committed_thresholds_can_be_read() {
        serde_json::from_slice::<Blends>(TransformerFiles::built_in().blends).unwrap();
    }
}
