//! Text that a human decides on: all of it, with nothing in it that hides.
//!
//! What a reviewer approves must be what they saw. Nothing is cut, line breaks and long rows of blanks are written
//! out, and what nobody sees, or takes for another character, stands as `\u{…}`.

use custody_arguments::is_invisible;
use unicode_security::confusable_detection::skeleton;

/// Stands where a line of the text ends.
const BREAK: char = '\u{21B5}';
/// How many blanks or line breaks in a row are shown as they are.
const MAX_ROW: usize = 3;

/// The lines of `text`, each of which shows whole what it holds. All but the last end with a sign for the line break.
pub(crate) fn lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some((line, after)) = rest.split_once('\n') {
        let more = after.len() - after.trim_start_matches('\n').len();
        let shown = line_of(line);
        if more >= MAX_ROW {
            lines.push(format!("{shown}{BREAK}{{{}}}", more + 1));
            rest = after.trim_start_matches('\n');
        } else {
            lines.push(format!("{shown}{BREAK}"));
            rest = after;
        }
    }
    lines.push(line_of(rest));
    lines
}

/// `text` on one line, line breaks as `\u{a}`.
pub(crate) fn line_of(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let row = rest.len() - rest.trim_start_matches(' ').len();
        if row > MAX_ROW || (row > 0 && row == rest.len()) {
            shown.push_str(&format!("\\u{{20}}{{{row}}}"));
            rest = rest.get(row..).unwrap_or_default();
        } else if c.is_alphanumeric() {
            let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
            let (word, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
            push_word(&mut shown, word);
            rest = after;
        } else {
            push_sign(&mut shown, c, rest);
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
        }
    }
    shown
}

/// Adds a word. Letters that look like Latin ones are escaped where they stand among these, or where the whole word
/// looks like one.
fn push_word(shown: &mut String, word: &str) {
    if word.is_ascii() {
        shown.push_str(word);
        return;
    }
    let looks_latin =
        skeleton(word).all(|c| c.is_ascii()) || word.chars().any(|c| c.is_ascii_alphabetic());
    for c in word.chars() {
        let is_alike = !c.is_ascii() && skeleton(c.encode_utf8(&mut [0; 4])).all(|c| c.is_ascii());
        if is_invisible(c) || (looks_latin && is_alike) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
}

/// Adds what is no letter or digit. `rest` begins with it.
fn push_sign(shown: &mut String, c: char, rest: &str) {
    // The quotes and dashes of ordinary text.
    let is_typographic =
        matches!(c, '‘' | '’' | '“' | '”' | '„' | '–' | '—' | '…' | '•' | '«' | '»');
    let is_blank = c.is_whitespace() && c != ' ';
    let is_alike = !c.is_ascii()
        && !is_typographic
        && skeleton(c.encode_utf8(&mut [0; 4])).all(|c| c.is_ascii());
    // A second mark over one letter could cover its neighbours.
    let is_heaped =
        is_mark(c) && shown.chars().next_back().is_some_and(|last| is_mark(last) || last == '}');
    // What looks like an escape, and is text.
    let is_literal = c == BREAK || (c == '\\' && rest.starts_with("\\u{"));
    if is_invisible(c) || is_blank || is_alike || is_heaped || is_literal {
        shown.extend(c.escape_unicode());
    } else {
        shown.push(c);
    }
}

const fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36F}' | '\u{1AB0}'..='\u{1AFF}' | '\u{1DC0}'..='\u{1DFF}' | '\u{20D0}'..='\u{20FF}'
        | '\u{FE20}'..='\u{FE2F}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g15_nothing_hides_in_what_is_shown() {
        let cases = [
            ("a\nb", vec!["a\u{21B5}", "b"]),
            ("a\r\nb", vec!["a\\u{d}\u{21B5}", "b"]),
            ("a\n\n\n\n\n\nb", vec!["a\u{21B5}{6}", "b"]),
            ("a\u{2028}b\u{85}c\u{B}d", vec!["a\\u{2028}b\\u{85}c\\u{b}d"]),
            ("a         b", vec!["a\\u{20}{9}b"]),
            ("a ", vec!["a\\u{20}{1}"]),
            ("a\tb\u{A0}c\u{3000}d", vec!["a\\u{9}b\\u{a0}c\\u{3000}d"]),
            (
                "\u{3164}\u{115F}\u{2800}\u{200B}\u{FEFF}",
                vec!["\\u{3164}\\u{115f}\\u{2800}\\u{200b}\\u{feff}"],
            ),
            ("\u{202E}x\u{2066}y\u{E0041}", vec!["\\u{202e}x\\u{2066}y\\u{e0041}"]),
            ("\u{1B}[2J\0", vec!["\\u{1b}[2J\\u{0}"]),
            ("p\u{430}ypal", vec!["p\\u{430}ypal"]),
            (
                "\u{430}\u{440}\u{440}\u{4CF}\u{435}",
                vec!["\\u{430}\\u{440}\\u{440}\\u{4cf}\\u{435}"],
            ),
            ("ａnn", vec!["\\u{ff41}nn"]),
            ("a\u{2024}com", vec!["a\\u{2024}com"]),
            ("\\u{200b} \u{21B5}", vec!["\\u{5c}u{200b} \\u{21b5}"]),
        ];
        for (text, expected) in cases {
            assert_eq!(lines(text), expected, "{text:?}");
        }
    }

    #[test]
    fn g15_ordinary_text_is_shown_as_it_is() {
        for text in [
            "Dear Ann, it’s “fine” – see café menu…",
            "Привет, жена моя",
            "Grüße aus Köln, 5 km²",
            "日本語のテキスト",
            "مرحبا",
            "C:\\Users\\ann",
        ] {
            assert_eq!(lines(text), [text]);
        }
        let long = "x".repeat(100_000);
        assert_eq!(lines(&long), [long.as_str()], "nothing is cut");
    }
}
