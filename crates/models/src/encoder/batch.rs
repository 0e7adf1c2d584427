//! Texts packed one after another, without padding.

use std::ops::Range;

use crate::encoder::config::EncoderConfig;
use crate::error::ModelError;

/// The tokens of several texts in one row; linear layers see all of them at once, attention one text at a time.
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

/// Whether the model can take these tokens.
///
/// # Errors
/// [`ModelError::Tokens`] for no token, too many, or an id that the vocabulary does not have.
pub(crate) fn check(config: &EncoderConfig, ids: &[u32]) -> Result<(), ModelError> {
    let refuse = |detail: String| Err(ModelError::Tokens { detail });
    if ids.is_empty() {
        return refuse("a text needs at least one token".to_owned());
    }
    if ids.len() > config.positions {
        return refuse(format!(
            "{} tokens, but the model takes {} at most",
            ids.len(),
            config.positions
        ));
    }
    let fits = |id: u32| usize::try_from(id).is_ok_and(|id| id < config.vocabulary);
    match ids.iter().find(|id| !fits(**id)) {
        Some(id) => refuse(format!("id {id} is outside the vocabulary of {}", config.vocabulary)),
        None => Ok(()),
    }
}
