//! Batches of texts without padding.

use std::ops::Range;

use crate::encoder::config::EncoderConfig;
use crate::error::ModelError;

/// The concatenated tokens of several texts; linear layers process all of them at once, attention one text at a time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Batch {
    pub(crate) ids: Vec<u32>,
    pub(crate) texts: Vec<Range<usize>>,
}

impl Batch {
    pub(crate) fn new<'a>(texts: impl IntoIterator<Item = &'a [u32]>) -> Self {
        let mut batch = Self::default();
        for ids in texts {
            let start = batch.ids.len();
            batch.ids.extend_from_slice(ids);
            batch.texts.push(start..batch.ids.len());
        }
        batch
    }

    pub(crate) fn tokens(&self) -> usize {
        self.ids.len()
    }
}

/// Checks that the model can process these tokens.
///
/// # Errors
/// [`ModelError::Tokens`] for no tokens, too many, or an id outside the vocabulary.
pub(crate) fn check(config: &EncoderConfig, ids: &[u32]) -> Result<(), ModelError> {
    let detail = if ids.is_empty() {
        "a text needs at least one token".to_owned()
    } else if ids.len() > config.positions {
        format!("{} tokens, but the limit of the model is {}", ids.len(), config.positions)
    } else if let Some(id) =
        ids.iter().find(|id| usize::try_from(**id).is_ok_and(|id| id >= config.vocabulary))
    {
        format!("id {id} is outside the vocabulary of {}", config.vocabulary)
    } else {
        return Ok(());
    };
    Err(ModelError::Tokens { detail })
}
