//! Splits texts of any length into token windows that fit a classifier.

use rayon::prelude::*;

use crate::error::ModelError;
use crate::tokenizer::Tokenizer;
use crate::verdict::AttackScore;

/// How a text is split into windows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowOptions {
    /// The maximum length of a window in tokens, including the two frame tokens.
    pub(crate) max_tokens: usize,
    /// The number of tokens that consecutive windows share.
    pub(crate) overlap: usize,
    /// The maximum number of windows of one text; the rest of it is not read.
    pub(crate) limit: usize,
}

/// The score of every text: the maximum over its windows.
///
/// `log_odds` returns one finite number for each window.
///
/// # Errors
/// Those of `log_odds`; [`ModelError::Tokenizer`] if the vocabulary cannot encode a text or a window has no room
/// inside the frame.
pub(crate) fn score_texts(
    tokenizer: &Tokenizer,
    texts: &[&str],
    options: WindowOptions,
    log_odds: impl FnOnce(&[&[u32]]) -> Result<Vec<f64>, ModelError>,
) -> Result<Vec<AttackScore>, ModelError> {
    let texts: Vec<TokenWindows> =
        texts.par_iter().map(|text| split(tokenizer, text, options)).collect::<Result<_, _>>()?;
    let windows: Vec<&[u32]> =
        texts.iter().flat_map(|text| text.windows.iter().map(Vec::as_slice)).collect();
    let scores = log_odds(&windows)?;
    let mut rest = scores.as_slice();
    Ok(texts
        .iter()
        .map(|text| {
            let (own, others) = rest.split_at(text.windows.len());
            rest = others;
            let highest = own.iter().copied().fold(f64::MIN, f64::max);
            AttackScore { log_odds: highest, is_complete: text.is_complete }
        })
        .collect())
}

/// The windows of one text, each with the frame tokens.
#[derive(Debug)]
struct TokenWindows {
    windows: Vec<Vec<u32>>,
    /// Whether they cover the whole text.
    is_complete: bool,
}

/// Splits `text` into at least one window.
///
/// The text is tokenised once and its tokens are split, so the windows have the same tokens as the whole text.
/// Frame tokens that the text itself contains are dropped: a Unigram vocabulary has them among its pieces, and a
/// text must not be able to forge an end.
fn split(
    tokenizer: &Tokenizer,
    text: &str,
    options: WindowOptions,
) -> Result<TokenWindows, ModelError> {
    let WindowOptions { max_tokens, overlap, limit } = options;
    let frame = tokenizer.encode("", max_tokens)?.ids;
    let inner = max_tokens - frame.len();
    let step = inner.saturating_sub(overlap).max(1);
    let wanted = inner.saturating_add(step.saturating_mul(limit.saturating_sub(1)));
    let tokens = tokenizer.tokens(text, wanted)?;
    let ids: Vec<u32> = tokens.ids.into_iter().filter(|id| !frame.contains(id)).collect();

    let (start, end) = frame.split_at(1);
    let mut windows = Vec::new();
    let mut first = 0;
    loop {
        let last = (first + inner).min(ids.len());
        windows.push([start, &ids[first..last], end].concat());
        if last == ids.len() {
            return Ok(TokenWindows { windows, is_complete: tokens.is_complete });
        }
        first += step;
    }
}
