//! Excerpts of server responses in errors.

use super::secret::Secret;

/// The maximum length of an excerpt in characters.
const LONGEST: usize = 200;

/// The beginning of a text on one line, without control characters, invisible characters and the key.
pub(super) fn excerpt(text: &str, key: Option<&Secret>) -> String {
    let words = text.split_whitespace().map(|word| word.replace(is_unseen, ""));
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    // The key is removed before truncation, which could leave an unrecognised part of it.
    let line = match key {
        Some(key) => key.redact(&line),
        None => line,
    };
    match line.char_indices().nth(LONGEST) {
        None => line,
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
    }
}

/// Whether a character is a control character or changes the display of the text around it.
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
    fn an_excerpt_is_truncated_after_the_key_was_removed() {
        let key = Secret::new("sk-0123456789abcdef").unwrap();
        let text = format!("{}{}", "é".repeat(195), key.expose());
        assert_eq!(excerpt(&text, Some(&key)), format!("{}[key]", "é".repeat(195)));
        assert_eq!(excerpt(&"é".repeat(300), None), format!("{}…", "é".repeat(200)));
    }
}
