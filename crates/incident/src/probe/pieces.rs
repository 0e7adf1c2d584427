//! Pieces: a text split at sentence ends, into parts of a given length.

/// The words of a text: runs of letters and digits.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty())
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
