//! A text of any length as token windows that each fit a classifier.

use rayon::prelude::*;

use crate::error::ModelError;
use crate::tokenizer::Tokenizer;
use crate::verdict::AttackScore;

/// How a text is cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    /// The longest window in tokens, with its frame.
    pub(crate) max_tokens: usize,
    /// Tokens that two windows one after another have in common.
    pub(crate) overlap: usize,
    /// At most so many windows are made of one text; the rest of it is not read.
    pub(crate) limit: usize,
}

/// The score of every text: that of its highest window.
///
/// `log_odds` gives one finite number for each window it is given.
///
/// # Errors
/// As `log_odds`; [`ModelError::Tokenizer`] when the vocabulary cannot express a text or a window has no room in
/// its frame.
pub(crate) fn score_texts(
    tokenizer: &Tokenizer,
    texts: &[&str],
    how: Cut,
    log_odds: impl FnOnce(&[&[u32]]) -> Result<Vec<f64>, ModelError>,
) -> Result<Vec<AttackScore>, ModelError> {
    let texts: Vec<TokenWindows> =
        texts.par_iter().map(|text| cut(tokenizer, text, how)).collect::<Result<_, _>>()?;
    let windows: Vec<&[u32]> =
        texts.iter().flat_map(|text| text.windows.iter().map(Vec::as_slice)).collect();
    let scores = log_odds(&windows)?;
    let mut rest = scores.as_slice();
    let score = |text: &TokenWindows| {
        let (own, others) = rest.split_at(text.windows.len());
        rest = others;
        let highest = own.iter().copied().fold(f64::MIN, f64::max);
        AttackScore { log_odds: highest, complete: text.complete }
    };
    Ok(texts.iter().map(score).collect())
}

/// The windows of one text, each a framed run of its tokens.
#[derive(Debug)]
struct TokenWindows {
    windows: Vec<Vec<u32>>,
    /// Whether they cover the whole text.
    complete: bool,
}

/// Cuts `text`; there is always at least one window.
///
/// The text is tokenised once and the windows are cut out of its tokens, so that a window holds the very
/// tokens that the whole text has. The frame's own tokens are left out of it where the text spells
/// them: a Unigram vocabulary keeps them among its pieces, and a text must not forge an end.
fn cut(tokenizer: &Tokenizer, text: &str, cut: Cut) -> Result<TokenWindows, ModelError> {
    let Cut { max_tokens, overlap, limit } = cut;
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
            return Ok(TokenWindows { windows, complete: tokens.complete });
        }
        first += step;
    }
}
