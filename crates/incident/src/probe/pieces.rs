//! Pieces: a text split at sentence ends, into parts of a given length; and words.

use custody_text::CanonicalText;
use unicode_normalization::char::is_combining_mark;

/// The words of a text: runs of letters and digits.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty())
}

/// The words of a text in canonical form. A mark or an invisible character within a word does not part it.
pub(crate) fn canonical_words(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !c.is_alphanumeric() && !is_within_words(c));
    let words = parts.map(|part| CanonicalText::of(part).to_string());
    words.filter(|word| !word.is_empty()).collect()
}

fn is_within_words(c: char) -> bool {
    is_combining_mark(c)
        || matches!(c, '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
            | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{E0000}'..='\u{E0FFF}')
}

/// `text` in pieces of `least` to `most` characters, whole sentences where possible; every character is in one piece.
/// The last piece may be shorter.
pub(crate) fn pieces(text: &str, (least, most): (usize, usize)) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut from, mut length) = (0, 0);
    // Where the piece could be cut if it becomes too long.
    let mut blank = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let end = at + c.len_utf8();
        length += 1;
        if c.is_whitespace() {
            blank = end;
        }
        let is_before_blank = chars.peek().is_none_or(|(_, next)| next.is_whitespace());
        let is_end = c == '\n' || (is_before_blank && matches!(c, '.' | '!' | '?'));
        let cut = match () {
            () if length >= least && is_end => end,
            () if length >= most && blank > from => blank,
            () if length >= most => end,
            () => continue,
        };
        found.push(text.get(from..cut).unwrap_or_default());
        length = text.get(cut..end).unwrap_or_default().chars().count();
        from = cut;
    }
    found.push(text.get(from..).unwrap_or_default());
    found.retain(|piece| !piece.trim().is_empty());
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_compared_in_canonical_form() {
        assert_eq!(
            canonical_words(
                "Na\u{ef}ve Zoe\u{308} sp\u{435}nt\u{200b}s 48213, \u{ad} (Ｔｗｉｃｅ)."
            ),
            ["naive", "zoe", "spents", "48213", "twice"]
        );
    }

    #[test]
    fn a_text_is_cut_behind_its_sentences() {
        let text = "Pay Norden. The account is at bank.example, and it is new! Ask nobody.\nDone";
        assert_eq!(
            pieces(text, (20, 100)),
            ["Pay Norden. The account is at bank.example, and it is new!", " Ask nobody.\nDone"]
        );
        assert_eq!(pieces("aaa bbb ccc", (4, 8)), ["aaa bbb ", "ccc"]);
        assert_eq!(pieces("aaaaaaaa", (2, 3)), ["aaa", "aaa", "aa"]);
        assert!(pieces(" \n ", (1, 2)).is_empty());
    }

    proptest! {
        #[test]
        fn no_character_is_lost_and_no_piece_is_too_long(text in "[a-c .!?\\n\u{e9}]{0,80}") {
            let found = pieces(&text, (5, 12));
            let all = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(all(&found.concat()), all(&text));
            prop_assert!(found.iter().all(|piece| piece.chars().count() <= 12));
        }
    }
}
