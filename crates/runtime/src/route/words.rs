//! The words of a text that carry meaning.

use std::collections::BTreeSet;

/// Shorter ones are mostly articles and the like, in characters.
const MIN_WORD: usize = 4;

/// Each once, in lower case.
pub(super) fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| word.chars().count() >= MIN_WORD).map(str::to_lowercase).collect()
}
