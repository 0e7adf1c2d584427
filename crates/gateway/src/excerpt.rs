//! A hostile value, made fit to stand in a one-line message.

/// Characters of a value that a message shows.
const MAX_CHARS: usize = 60;

/// The first 60 characters of `value`, with what could steer a terminal written as an escape.
pub(crate) fn excerpt(value: &str) -> String {
    let mut shown = String::new();
    for character in value.chars().take(MAX_CHARS) {
        if steers_display(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    if value.chars().nth(MAX_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

/// Control characters, line separators, and the invisible ones that hide or reorder text.
fn steers_display(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::excerpt;

    #[test]
    fn a_shown_value_is_short_and_cannot_steer_a_terminal() {
        let long = "x".repeat(61);
        let cut = format!("{}…", "x".repeat(60));
        let cases = [
            ("plain `text`", "plain `text`"),
            ("two\nlines\0", "two\\nlines\\u{0}"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("\u{202e}reversed", "\\u{202e}reversed"),
            (&long, &cut),
            (&long[..60], &cut[..60]),
        ];
        for (value, expected) in cases {
            assert_eq!(excerpt(value), expected);
        }
    }
}
