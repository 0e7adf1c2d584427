//! Words: how texts are cut and compared.

use std::borrow::Cow;
use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::spelling::number_word;
use crate::visible::is_invisible;

/// Characters that hold a word together: `a.b`, `a-b`, `a@b`.
const JOINERS: &str = ".-_/\\:@~+=&%?#";
/// Characters that end what stands before them, if no joiner went on.
const CLOSERS: &str = ",;!)]}>\"'`“”‘’«»|–—";
/// The longest neighbour of a number that is read as one more part of it, in characters.
const MAX_NUMBER: usize = 24;

/// `text` in its composed form, without blanks at the ends; a run of blanks is one space, or one line break
/// if it holds one.
pub(crate) fn tidy(text: &str) -> Cow<'_, str> {
    if is_tidy(text) {
        Cow::Borrowed(text)
    } else if text.is_ascii() {
        Cow::Owned(without_blanks(text.chars(), text.len()))
    } else {
        Cow::Owned(without_blanks(text.nfc(), text.len()))
    }
}

/// Whether `text` is surely tidy already: plain characters with single spaces between them.
fn is_tidy(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && !text.starts_with(' ')
        && !text.ends_with(' ')
        && !text.contains("  ")
}

fn without_blanks(characters: impl Iterator<Item = char>, bytes: usize) -> String {
    let mut tidied = String::with_capacity(bytes);
    let mut blank = None;
    for c in characters {
        if c.is_whitespace() {
            blank = if c == '\n' { Some('\n') } else { blank.or(Some(' ')) };
            continue;
        }
        tidied.extend(blank.take().filter(|_| !tidied.is_empty()));
        tidied.push(c);
    }
    tidied
}

/// `text` in its compatibility form: `ﬁ` is `fi`.
pub(crate) fn compatible(text: &str) -> Cow<'_, str> {
    if text.is_ascii() { Cow::Borrowed(text) } else { Cow::Owned(text.nfkc().collect()) }
}

/// `text` in lower case.
fn lower(text: &str) -> Cow<'_, str> {
    let is_lower = text.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
    if is_lower { Cow::Borrowed(text) } else { Cow::Owned(text.to_lowercase()) }
}

fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || is_combining_mark(c)
}

/// Runs of letters and digits, in lower case, with their offsets.
pub(crate) fn folded_words(text: &str) -> impl Iterator<Item = (usize, Cow<'_, str>)> {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, _) = rest.find(|(_, c)| is_letter(*c))?;
        let mut end = text.len();
        while let Some((at, c)) = rest.peek() {
            if !is_letter(*c) {
                end = *at;
                break;
            }
            rest.next();
        }
        Some((start, lower(text.get(start..end)?)))
    })
}

/// Whether the bytes `at` of `text` are no part of something longer: of a word, an address, a path, a pattern, a
/// number, a percentage.
pub(crate) fn stands_whole(text: &str, at: &Range<usize>) -> bool {
    let before = text.get(..at.start).unwrap_or_default();
    let after = text.get(at.end..).unwrap_or_default();
    let value = text.get(at.clone()).unwrap_or_default();
    // Between stars on both sides it is emphasised; with one on one side it is a pattern.
    let is_emphasised = before.ends_with('*') && after.starts_with('*');
    let (before, after) = if is_emphasised {
        (before.trim_end_matches('*'), after.trim_start_matches('*'))
    } else {
        (before, after)
    };
    !is_joined_before(before, value)
        && !is_joined_after(after, value)
        && !is_part_of_number(before, value, after)
}

fn is_joined_before(before: &str, value: &str) -> bool {
    let mut back = before.chars().rev();
    let (touching, beyond) = (back.next(), back.next());
    match touching {
        None => false,
        Some(c) if is_word(c) => true,
        // A sigil in front of a name is none of it: `#general`, `@ann`.
        Some('#' | '@') => beyond.is_some_and(|c| is_word(c) || JOINERS.contains(c)),
        Some(',') => beyond.is_some_and(|c| c.is_ascii_digit()) && starts_with_digit(value),
        Some('\'' | '’') => beyond.is_some_and(is_word),
        // What is filled in goes on: `{folder}/a.txt`, `*.txt`.
        Some(')' | ']' | '}' | '*') => true,
        Some(c) => JOINERS.contains(c),
    }
}

fn is_joined_after(after: &str, value: &str) -> bool {
    let mut ahead = after.chars();
    let (touching, beyond, third) = (ahead.next(), ahead.next(), ahead.next());
    // Only the end of a sentence, of a line or of what is quoted ends a path that a slash or point went on with.
    let goes_on = beyond.is_some_and(|c| !c.is_whitespace() && !CLOSERS.contains(c));
    match touching {
        None => false,
        Some(c) if is_word(c) => true,
        Some('%' | '+' | '#' | '*') => true,
        // What is filled in: `report(1).pdf`, `report{1,2}`, `report$DAY`.
        Some('(' | '[' | '{' | '<') => goes_on,
        Some('$') => beyond.is_some_and(|c| is_word(c) || matches!(c, '(' | '{')),
        Some(',') => beyond.is_some_and(|c| c.is_ascii_digit()) && ends_with_digit(value),
        // Ann's is Ann's.
        Some('\'' | '’') => {
            let is_genitive = beyond == Some('s') && !third.is_some_and(is_word);
            beyond.is_some_and(is_word) && !is_genitive
        }
        // `**Read a.txt.**` ends there, `src/**` does not.
        Some('.' | ':' | '?') if beyond == Some('*') && third == Some('*') => false,
        Some(c) => JOINERS.contains(c) && goes_on,
    }
}

/// Whether `value` is one part of a number that is written in several: `1 000`, `50 thousand`, `twenty five`.
fn is_part_of_number(before: &str, value: &str, after: &str) -> bool {
    let (is_digits, is_worded) = (are_digits(value), number_word(value).is_some());
    if !is_digits && !is_worded {
        return false;
    }
    let next: String = after.chars().take(MAX_NUMBER).collect();
    let next = beyond_blanks(&next).split_whitespace().next().unwrap_or_default();
    let next = next.trim_end_matches(|c: char| ".,;:!?)\"'".contains(c));
    let last: String = before.chars().rev().take(MAX_NUMBER).collect();
    let last: String = beyond_blanks(&last).chars().take_while(|c| !c.is_whitespace()).collect();
    let last: String = last.chars().rev().collect();
    let last = last.trim_start_matches(|c: char| "($€£\"'".contains(c));
    is_magnitude(next)
        || (is_magnitude(value) && are_digits(last))
        || (is_digits && (are_digits(next) || are_digits(last)))
        || (is_worded && (number_word(next).is_some() || number_word(last).is_some()))
}

/// What stands beyond the blanks that `text` begins with; nothing if it begins with none, or they break the line.
fn beyond_blanks(text: &str) -> &str {
    let beyond = text.trim_start();
    let blanks = text.get(..text.len() - beyond.len()).unwrap_or_default();
    if blanks.is_empty() || blanks.contains('\n') { "" } else { beyond }
}

/// Digits, with points and commas at most.
fn are_digits(word: &str) -> bool {
    ends_with_digit(word) && word.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ','))
}

/// A word that multiplies the number in front of it.
fn is_magnitude(word: &str) -> bool {
    const WORDS: [&str; 23] = [
        "hundred",
        "thousand",
        "million",
        "millions",
        "billion",
        "billions",
        "trillion",
        "dozen",
        "k",
        "m",
        "mn",
        "bn",
        "lakh",
        "crore",
        "hundert",
        "tausend",
        "millionen",
        "milliarde",
        "milliarden",
        "dutzend",
        "tsd",
        "mio",
        "mrd",
    ];
    WORDS.contains(&word.to_lowercase().as_str())
}

/// Letters, digits, marks, and what nobody sees.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || is_combining_mark(c) || (is_invisible(c) && !c.is_whitespace())
}

fn starts_with_digit(value: &str) -> bool {
    value.starts_with(|c: char| c.is_ascii_digit())
}

fn ends_with_digit(value: &str) -> bool {
    value.ends_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stands_whole_or_is_part_of_something_longer() {
        let cases = [
            ("send it to ann@example.com.", "ann@example.com", true),
            ("send it to joann@example.com", "ann@example.com", false),
            ("see ann@example.com.evil.net", "ann@example.com", false),
            ("Ann's inbox", "Ann", true),
            ("O'Neil's inbox", "O", false),
            ("in #general, please", "general", true),
            ("in x#general", "general", false),
            ("/etc/passwd", "etc/passwd", false),
            ("report.pdf", "report", false),
            ("the report.", "report", true),
            ("50%", "50", false),
            ("$50", "50", true),
            ("1,000 euros", "000", false),
            ("Ann, Bob", "Bob", true),
            ("https://a.com/x", "a.com", false),
            ("a.com/ and", "a.com", true),
            ("re\u{200B}port", "port", false),
            ("cafe\u{301}", "cafe", false),
            ("(ann)", "ann", true),
            ("delete logs/*.tmp", "logs", false),
            ("delete logs/*.tmp", "logs/", false),
            ("delete *.tmp", ".tmp", false),
            ("delete logs/$DAY.txt", "logs", false),
            ("delete report*", "report", false),
            ("delete report{1,2}.txt", "report", false),
            ("delete report(1).pdf", "report", false),
            ("delete {folder}/a.txt", "/a.txt", false),
            ("read **report.pdf**.", "report.pdf", true),
            ("**Read report.pdf.**", "report.pdf", true),
            ("read <report.pdf>", "report.pdf", true),
            ("(see report.pdf).", "report.pdf", true),
            ("pay 50 thousand", "50", false),
            ("pay 1 000 euros", "1", false),
            ("pay 1 000 euros", "000", false),
            ("pay two hundred", "hundred", false),
            ("pay twenty five", "five", false),
            ("pay 5 hundred", "hundred", false),
            ("pay 50. 20 are left", "50", true),
            ("pay this one 50 dollars", "50", true),
            ("pay a hundred dollars", "hundred", true),
            ("pay 50$.", "50", true),
            ("delete 'a.txt.'", "a.txt", true),
        ];
        for (text, value, expected) in cases {
            let start = text.find(value).unwrap();
            assert_eq!(
                stands_whole(text, &(start..start + value.len())),
                expected,
                "{value} in {text}"
            );
        }
    }

    #[test]
    fn blanks_are_one_blank() {
        assert_eq!(tidy("  a \t b\u{A0}c  \n d "), "a b c\nd");
        for text in ["", "a", "a b", "a  b", " a", "a ", "a\tb", "a\u{7f}b", "cafe\u{301}"] {
            let blanks = without_blanks(text.nfc(), text.len());
            assert_eq!(tidy(text), blanks, "{text:?}");
        }
    }
}
