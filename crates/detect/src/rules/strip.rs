//! Taking out of a text what is certain to be an attack.

use super::{Rules, scan};
use crate::normalise::TextTooLong;

/// Rounds after which a text that still changes is given up.
const MAX_ROUNDS: usize = 16;

/// A text with its decisive findings taken out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stripped {
    /// What is left, without blanks at either end.
    pub text: String,
    /// Bytes taken out.
    pub removed: usize,
    /// No decisive rule fires any more. If false, the text was built to resist: refuse it.
    pub is_clean: bool,
}

/// Removes what decisive rules found, again and again until none fires: a token inside a token,
/// or inside a phrase, puts an attack together when it is taken out once.
///
/// What stood on either side of a removed part is joined: an attack that hid in two halves around
/// it shows itself, and is taken out in the next round.
///
/// # Errors
/// [`TextTooLong`].
pub fn strip_to_fixed_point(text: &str, rules: &Rules) -> Result<Stripped, TextTooLong> {
    let mut left = text.to_owned();
    let mut is_clean = false;
    for _ in 0..=MAX_ROUNDS {
        let spans = scan::decisive_spans(rules, &left)?;
        if spans.is_empty() {
            is_clean = true;
            break;
        }
        let mut kept = String::with_capacity(left.len());
        let mut from = 0;
        for span in spans {
            kept.push_str(left.get(from..span.start).unwrap_or_default());
            from = span.end;
        }
        kept.push_str(left.get(from..).unwrap_or_default());
        left = kept;
    }
    let left = left.trim();
    Ok(Stripped { removed: text.len() - left.len(), text: left.to_owned(), is_clean })
}
