//! Sentences: texts split and normalised, so that a sentence of one can be found whole in another.
//!
//! Both sides are split alike, so the exact places of the splits matter little. A part of a sentence must never count
//! as the sentence: `pay Bob` occurs in `do not pay Bob`. Layout is no part of one: models write in Markdown what their
//! users typed plainly (G27). Linear in the text.

use unicode_normalization::UnicodeNormalization;

/// The characters that end a line.
const LINE_BREAKS: [char; 7] = ['\n', '\r', '\u{B}', '\u{C}', '\u{85}', '\u{2028}', '\u{2029}'];

/// Characters at the edge of a word that are no part of it.
const EDGES: &str = ".,;:!?…\"'“”„‘’()[]{}<>*_`-–—。、";

/// The sentences of `text`, in order: cut at line breaks and after a mark that ends one, when white space follows.
///
/// Words are in lower case and compatibility form; white space is one space; a full stop at the end is dropped.
/// What is more than a word, such as a number, an address, a path or a key, stands as it is written. Marks of headings
/// and lists at the beginning of a line are dropped.
pub(crate) fn sentences(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.split(LINE_BREAKS).map(without_layout) {
        let mut sentence = String::new();
        for part in line.split_inclusive(['。', '！', '？']) {
            for token in part.split_whitespace() {
                if !sentence.is_empty() {
                    sentence.push(' ');
                }
                push_normal(&mut sentence, token);
                if token.ends_with(['.', '!', '?', '。', '！', '？']) {
                    end(&mut sentence, &mut found);
                }
            }
        }
        end(&mut sentence, &mut found);
    }
    found
}

/// `line` without the marks of a heading or of an item of a list. They stay before anything but a word: `- 5` may be a
/// number, and `1.` states one.
fn without_layout(line: &str) -> &str {
    let Some((mark, rest)) = line.trim_start().split_once(char::is_whitespace) else { return line };
    let is_heading = (1..=6).contains(&mark.len()) && mark.chars().all(|mark| mark == '#');
    let is_layout = is_heading || matches!(mark, "-" | "*" | "•");
    let is_before_word = rest.trim_start().starts_with(char::is_alphabetic);
    if is_layout && is_before_word { rest } else { line }
}

fn end(sentence: &mut String, found: &mut Vec<String>) {
    let whole = sentence.trim_end_matches(['.', '。']).trim_end();
    if !whole.is_empty() {
        found.push(whole.to_owned());
    }
    sentence.clear();
}

fn push_normal(sentence: &mut String, token: &str) {
    if is_word(token.trim_matches(|c| EDGES.contains(c))) {
        sentence.extend(token.nfkc().flat_map(char::to_lowercase).nfc());
    } else {
        sentence.extend(token.nfc());
    }
}

/// Letters alone, and none of them large but the first or all: `aZ3` and `getUserId` name something.
fn is_word(token: &str) -> bool {
    let mut rest = token.chars();
    let Some(first) = rest.next() else { return false };
    let is_plain = token.chars().all(char::is_alphabetic);
    let is_small = rest.clone().all(|c| !c.is_uppercase());
    is_plain && (is_small || (first.is_uppercase() && rest.all(|c| !c.is_lowercase())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_line_breaks_and_after_marks_that_end_a_sentence() {
        let cases: [(&str, &[&str]); 12] = [
            ("Call Ann.  Then\tcall Bob!", &["call ann", "then call bob!"]),
            ("Pay Bob? Pay Bob.", &["pay bob?", "pay bob"]),
            ("one\n\ntwo\r\n", &["one", "two"]),
            ("See a.example/x.html. Done", &["see a.example/x.html", "done"]),
            ("It costs 3.50 EUR", &["it costs 3.50 eur"]),
            ("ＣＡＬＬ ann", &["call ann"]),
            ("Key: aZ3 getUserId AbC", &["key: aZ3 getUserId AbC"]),
            ("10² m", &["10² m"]),
            ("こんにちは。はい。", &["こんにちは", "はい"]),
            (" \t\n . \u{A0}", &[]),
            ("", &[]),
            ("pay\u{200B}bob", &["pay\u{200B}bob"]),
        ];
        for (text, expected) in cases {
            assert_eq!(sentences(text), expected, "{text:?}");
        }
    }

    #[test]
    fn g27_layout_is_no_part_of_a_sentence_and_signs_and_numbers_are() {
        for laid_out in
            ["- Call Ann.", "* Call Ann", "  • Call Ann.", "## Call Ann", "-\tCall Ann."]
        {
            assert_eq!(sentences(laid_out), ["call ann"], "{laid_out:?}");
        }
        let stated = [
            ("- 5 EUR", "5 EUR"),
            ("# 5", "5"),
            ("#Ann", "Ann"),
            ("+ allow eve", "allow eve"),
            ("> Call Ann", "Call Ann"),
            ("1. Call Ann", "Call Ann"),
            ("- [x] done", "done"),
            ("-force", "force"),
            ("~~Call Ann~~", "Call Ann"),
        ];
        for (one, other) in stated {
            assert_ne!(sentences(one), sentences(other), "{one:?}");
        }
    }

    #[test]
    fn case_is_kept_where_it_tells_two_things_apart() {
        assert_eq!(sentences("Send it to Ann."), sentences("send it to ANN"));
        for (one, other) in [("bc1QaB", "bc1qab"), ("/Tmp/x", "/tmp/x"), ("a@B.c", "a@b.c")] {
            assert_ne!(sentences(one), sentences(other));
        }
    }
}
