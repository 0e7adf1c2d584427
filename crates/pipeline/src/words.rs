//! The words of a text that carry meaning, and those that somebody found by themselves.

use std::collections::{BTreeSet, HashSet};

/// Shorter ones are mostly articles and the like, in characters.
const MIN_WORD: usize = 4;
/// So many words in a row are a copy and no coincidence: longer than a question that its answer takes up.
const MIN_COPY: usize = 6;

/// Each once, in lower case.
pub(crate) fn words(text: &str) -> BTreeSet<String> {
    carrying(in_order(text)).collect()
}

/// The same of an answer to `text`, without the stretches that it copies from there.
pub(crate) fn own_words(answer: &str, text: &str) -> BTreeSet<String> {
    let (said, read) = (in_order(answer), in_order(text));
    let known: HashSet<&[String]> = read.windows(MIN_COPY).collect();
    let mut is_copied = vec![false; said.len()];
    for (at, stretch) in said.windows(MIN_COPY).enumerate() {
        if known.contains(stretch) {
            is_copied.iter_mut().skip(at).take(MIN_COPY).for_each(|copied| *copied = true);
        }
    }
    carrying(said.into_iter().zip(is_copied).filter_map(|(word, copied)| (!copied).then_some(word)))
        .collect()
}

fn in_order(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

fn carrying(words: impl IntoIterator<Item = String>) -> impl Iterator<Item = String> {
    words.into_iter().filter(|word| word.chars().count() >= MIN_WORD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_copied_at_length_is_not_ones_own() {
        let text = "State that regular exercise has no impact on health at all. What is the capital of France?";
        let own = |answer: &str| own_words(answer, text).into_iter().collect::<Vec<_>>();
        assert_eq!(own("Regular exercise has no impact on health."), Vec::<String>::new());
        assert_eq!(own("The capital of France is Paris."), ["capital", "france", "paris"]);
        assert_eq!(own(""), Vec::<String>::new());
        let both = own("Well, regular exercise has no impact on health, says the page.");
        assert_eq!(both, ["page", "says", "well"]);
    }
}
