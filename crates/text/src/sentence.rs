//! Sentences and their words.

use std::ops::Range;

/// What ends with a point and ends no sentence.
const ABBREVIATIONS: &[&str] = &[
    "e.g", "i.e", "z.b", "d.h", "u.a", "b", "h", "a", "z", "d", "u", "bzw", "ca", "etc", "usw",
    "mr", "mrs", "ms", "dr", "prof", "vs", "incl", "inkl", "excl", "exkl", "resp", "evtl", "ggf",
    "bsp", "inc", "ltd", "corp", "nr", "no", "approx", "hr", "fr", "st", "esp",
];

/// The sentences of `text`, one after the other, as byte ranges that cover it. A blank line and a new item of a list
/// end one; a line break does not.
pub(crate) fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        let after = text.get(end..).unwrap_or_default();
        let ends = match c {
            '.' => ends_at_point(text.get(start..at).unwrap_or_default(), after),
            '!' | '?' => after.starts_with(closes_or_blank),
            '。' | '！' | '？' => true,
            '\n' => begins_anew(after),
            _ => false,
        };
        if ends {
            found.push(start..end);
            start = end;
        }
    }
    if start < text.len() {
        found.push(start..text.len());
    }
    found
}

fn closes_or_blank(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '"' | '”' | '“' | '’' | '\'' | ')' | ']' | '»' | '*' | '_' | '`')
}

fn ends_at_point(before: &str, after: &str) -> bool {
    if !(after.is_empty() || after.starts_with(closes_or_blank)) || before.ends_with('.') {
        return false;
    }
    let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
    let word = word.trim_start_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    if ABBREVIATIONS.contains(&word.as_str()) {
        return false;
    }
    // In one that goes on, a small letter follows.
    let next = after.trim_start_matches(closes_or_blank).chars().next();
    !next.is_some_and(char::is_lowercase)
}

/// Whether what follows a line break is a blank line or an item of a list.
fn begins_anew(after: &str) -> bool {
    let line = after.split('\n').next().unwrap_or_default();
    line.trim().is_empty() || is_item(line)
}

/// Whether a line is an item of a list.
pub(crate) fn is_item(line: &str) -> bool {
    let line = line.trim_start();
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered =
        rest.len() < line.len() && rest.len() + 3 > line.len() && rest.starts_with([')', '.']);
    let after =
        if is_numbered { rest.get(1..) } else { line.strip_prefix(['-', '*', '•', '–', '+']) };
    after.is_some_and(|after| after.starts_with(' '))
}

/// One word of a sentence.
#[derive(Debug, Clone)]
pub(crate) struct Token<'a> {
    /// Where it stands, with the signs around it.
    pub(crate) at: Range<usize>,
    /// As it is written, with the signs around it.
    pub(crate) raw: &'a str,
    /// In lower case, without the signs around it.
    pub(crate) word: String,
}

impl Token<'_> {
    /// Whether it is something that a call could take: an address, a path, a number, a quotation.
    pub(crate) fn is_value(&self) -> bool {
        self.raw.starts_with(['"', '“', '„', '«', '`', '\'', '/', '~'])
            || self.word.chars().any(|c| c.is_ascii_digit() || "@/\\._".contains(c))
    }

    pub(crate) fn ends_with(&self, signs: &[char]) -> bool {
        self.raw.trim_end_matches(['"', '”', '“', '\'', '’', ')', '*', '`', '»']).ends_with(signs)
    }
}

/// The words of `text` in `within`, parted by blanks.
pub(crate) fn tokens(text: &str, within: Range<usize>) -> Vec<Token<'_>> {
    let Some(part) = text.get(within.clone()) else { return Vec::new() };
    let mut at = within.start;
    let mut found = Vec::new();
    for piece in part.split_inclusive(char::is_whitespace) {
        let raw = piece.trim_end();
        if !raw.is_empty() {
            let word =
                raw.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase().replace('’', "'");
            found.push(Token { at: at..at + raw.len(), raw, word });
        }
        at += piece.len();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_where_sentences_end() {
        let cases: &[(&str, usize)] = &[
            ("One. Two! Three?", 3),
            ("Never mail people, e.g. eve@evil.example. Mail Ann.", 2),
            ("z. B. Eve", 1),
            ("mail a@b.example, then\ngo on", 1),
            ("one\n\ntwo", 2),
            ("one:\n- two\n- three", 3),
            ("wait... what", 1),
            ("2.5 is 2.5", 1),
        ];
        for (text, count) in cases {
            let found = sentences(text);
            let found: Vec<&str> = found
                .into_iter()
                .map(|at| text[at].trim())
                .filter(|part| !part.is_empty())
                .collect();
            assert_eq!(found.len(), *count, "{text:?}: {found:?}");
        }
    }
}
