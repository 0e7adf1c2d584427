//! What of a stranger's words may stand in an error.

use super::secret::Secret;

/// The longest excerpt, in characters.
const LONGEST: usize = 200;

/// The beginning of a text on one line: without what steers a terminal or hides text, and without the key.
pub(super) fn excerpt(text: &str, key: Option<&Secret>) -> String {
    let words = text.split_whitespace().map(|word| word.replace(is_unseen, ""));
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    // The key first and the length second: a cut would leave a part of the key that nothing recognises.
    let line = match key {
        Some(key) => key.taken_out_of(&line),
        None => line,
    };
    match line.char_indices().nth(LONGEST) {
        None => line,
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
    }
}

/// Control characters, and the marks that turn, join or hide the text around them.
fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_one_printable_line_without_the_key() {
        let key = Secret::new("sk-0123456789abcdef").unwrap();
        let cases = [
            ("no such model\n  `x`\t", "no such model `x`"),
            ("\u{1b}[31mred\u{7}\u{202e}", "[31mred"),
            ("key sk-01234\u{0}56789ab\u{200b}cdef is wrong", "key [key] is wrong"),
            (" \u{200b} ", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(excerpt(text, Some(&key)), expected, "{text:?}");
        }
        assert_eq!(excerpt("anything", None), "anything");
    }

    #[test]
    fn an_excerpt_is_short_and_is_cut_after_the_key_was_taken_out() {
        let key = Secret::new("sk-0123456789abcdef").unwrap();
        let text = format!("{}{}", "é".repeat(195), key.expose());
        assert_eq!(excerpt(&text, Some(&key)), format!("{}[key]", "é".repeat(195)));
        assert_eq!(excerpt(&"é".repeat(300), None), format!("{}…", "é".repeat(200)));
    }
}
