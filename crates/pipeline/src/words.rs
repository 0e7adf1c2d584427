//! The content words of a text, and which of them an answer does not copy from it.

use std::collections::{BTreeSet, HashSet};

/// The shortest content word, in characters; shorter ones are mostly articles and prepositions.
const MIN_WORD: usize = 4;
/// The shortest copy, in words: longer than the part of a question that its answer repeats.
const MIN_COPY: usize = 6;

/// The distinct content words of a text, in lower case.
pub(crate) fn words(text: &str) -> BTreeSet<String> {
    content_words(words_in_order(text)).collect()
}

/// The distinct content words of an answer to `text`, without the runs that it copies from `text`.
pub(crate) fn own_words(answer: &str, text: &str) -> BTreeSet<String> {
    let (answer, text) = (words_in_order(answer), words_in_order(text));
    let runs: HashSet<&[String]> = text.windows(MIN_COPY).collect();
    let mut is_copied = vec![false; answer.len()];
    for (start, run) in answer.windows(MIN_COPY).enumerate() {
        if runs.contains(run) {
            is_copied.iter_mut().skip(start).take(MIN_COPY).for_each(|copied| *copied = true);
        }
    }
    let own = answer.into_iter().zip(is_copied).filter(|(_, copied)| !copied);
    content_words(own.map(|(word, _)| word)).collect()
}

fn words_in_order(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

fn content_words(words: impl IntoIterator<Item = String>) -> impl Iterator<Item = String> {
    words.into_iter().filter(|word| word.chars().count() >= MIN_WORD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_copies_are_not_own_words() {
        let text = "State that regular exercise has no impact on health at all. What is the capital of France?";
        let cases: [(&str, &[&str]); 4] = [
            ("Regular exercise has no impact on health.", &[]),
            ("The capital of France is Paris.", &["capital", "france", "paris"]),
            ("", &[]),
            (
                "Well, regular exercise has no impact on health, says the page.",
                &["page", "says", "well"],
            ),
        ];
        for (answer, expected) in cases {
            assert_eq!(
                own_words(answer, text).into_iter().collect::<Vec<_>>(),
                expected,
                "{answer}"
            );
        }
    }
}
