//! Quotations: what stands between quotation marks, whoever set them.

use std::ops::Range;

/// Marks that open, with those that close what they opened.
const PAIRS: &[(char, &[char])] = &[
    ('"', &['"']),
    ('“', &['”', '“']),
    ('„', &['“', '”']),
    ('«', &['»']),
    ('»', &['«']),
    ('‹', &['›']),
    ('「', &['」']),
    ('『', &['』']),
    ('＂', &['＂']),
    ('`', &['`']),
    ('\'', &['\'']),
    ('‘', &['’', '‘']),
    ('‚', &['‘', '’']),
    ('’', &['’']),
];

/// The contents of the quotations in `text`, in order, as byte ranges without their marks. A quotation in a
/// quotation is part of it.
///
/// A mark that nothing closes quotes the rest of its paragraph, unless it is one that is also an apostrophe or a
/// backtick.
pub(crate) fn quotations(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    // Up to where an apostrophe or backtick is known to be closed by nothing.
    let mut unclosed = 0;
    while let Some((open, mark)) = next_opening(text, from) {
        let start = open + mark.len_utf8();
        let is_weak = matches!(mark, '\'' | '’' | '‘' | '‚' | '`');
        if is_weak && open < unclosed {
            from = start;
            continue;
        }
        let paragraph = paragraph_end(text, start);
        // Quotation marks of two kinds can hold paragraphs.
        let until = if is_weak { paragraph } else { text.len() };
        if let Some(end) = closing(text, start..until, mark) {
            found.push(start..end);
            from = end
                + text.get(end..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
        } else if is_weak {
            unclosed = paragraph;
            from = start;
        } else {
            found.push(start..paragraph);
            from = paragraph;
        }
    }
    found
}

/// The next mark that opens a quotation, from the byte `from` on.
fn next_opening(text: &str, from: usize) -> Option<(usize, char)> {
    let mut before = text.get(..from)?.chars().next_back();
    let mut rest = text.get(from..)?.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        let after = rest.peek().map(|(_, next)| *next);
        if PAIRS.iter().any(|(open, _)| *open == c) && opens(before, c, after) {
            return Some((from + at, c));
        }
        before = Some(c);
    }
    None
}

fn opens(before: Option<char>, mark: char, after: Option<char>) -> bool {
    let has_content = after.is_some_and(|c| !c.is_whitespace());
    let is_apart = before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '.' | '/' | '\\'));
    match mark {
        '"' | '＂' | '`' | '\'' | '’' | '‘' => has_content && is_apart && before != Some(mark),
        _ => true,
    }
}

/// Where the quotation ends that `mark` opened just before `within`.
fn closing(text: &str, within: Range<usize>, mark: char) -> Option<usize> {
    let (_, closers) = PAIRS.iter().find(|(open, _)| *open == mark)?;
    let mut before: Option<char> = None;
    for (at, c) in text.get(within.clone())?.char_indices() {
        let end = within.start + at;
        let after = text.get(end + c.len_utf8()..).and_then(|rest| rest.chars().next());
        // What goes on after an apostrophe or mark is a word or path of which it is a part.
        let goes_on = after.is_some_and(|c| c.is_alphanumeric() || matches!(c, '/' | '\\' | '_'));
        let is_two_sided = matches!(mark, '"' | '＂' | '\'' | '’' | '‘' | '‚' | '`');
        let closes = before.is_some_and(|c| mark == '`' || mark == '"' || !c.is_whitespace());
        if closers.contains(&c) && closes && !(is_two_sided && goes_on) {
            return Some(end);
        }
        before = Some(c);
    }
    None
}

/// Where the paragraph ends in which the byte `from` stands.
pub(crate) fn paragraph_end(text: &str, from: usize) -> usize {
    let mut at = from;
    for line in text.get(from..).unwrap_or_default().split_inclusive('\n') {
        if at > from && line.trim().is_empty() {
            return at;
        }
        at += line.len();
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotations_of_every_kind_are_found_and_apostrophes_are_none() {
        let cases: &[(&str, &[&str])] = &[
            (r#"say "hello there" now"#, &["hello there"]),
            (
                "say “hello” and „tschüss“ and «salut» and »hallo«",
                &["hello", "tschüss", "salut", "hallo"],
            ),
            ("open 'a b.txt' and `c d`", &["a b.txt", "c d"]),
            ("Ann's file isn't the boys' one", &[]),
            ("Ann's 'it's here' note", &["it's here"]),
            ("a 5\" screen", &[]),
            ("never closed: \"pay eve\n\nmine", &["pay eve\n"]),
            ("he wrote \"pay\n\neve\" today", &["pay\n\neve"]),
            ("rock 'n roll", &[]),
            ("‘pay eve’", &["pay eve"]),
            ("run `git commit -m \"x\"`", &["git commit -m \"x\""]),
            ("see \"/data\"/x", &["/data\"/x"]),
        ];
        for (text, expected) in cases {
            let found: Vec<&str> = quotations(text).into_iter().map(|at| &text[at]).collect();
            assert_eq!(found, *expected, "{text}");
        }
    }

    #[test]
    fn many_marks_cost_no_more_than_few() {
        for mark in ["'a ", "\"a ", "`a ", "“ ", "‘a ", "\n\"a"] {
            let _ = quotations(&mark.repeat(100_000));
        }
    }
}
