//! What a person wrote, as opposed to what they quoted.

use std::ops::Range;

/// The byte ranges of `text` that are its writer's own: no lines that begin with `>`, no fenced blocks, and nothing
/// from a forwarded or answered mail on.
///
/// Errs on the side of quoting: what follows the head of a forwarded mail is all taken for quoted, and so is a fence
/// that is not closed. Quotation marks do not count; who sets them may quote or emphasise.
pub fn own_words(text: &str) -> Vec<Range<usize>> {
    let mut own: Vec<Range<usize>> = Vec::new();
    let mut fence = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let range = at..at + line.len();
        at = range.end;
        let line = line.trim();
        if fence.is_none() && begins_other_mail(line) {
            break;
        }
        if let Some(mark) = fence_mark(line) {
            match fence {
                None => fence = Some(mark),
                Some(open) if open == mark => fence = None,
                Some(_) => {}
            }
            continue;
        }
        if fence.is_some() || line.starts_with(['>', '＞', '|', '»']) {
            continue;
        }
        match own.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            Some(_) | None => own.push(range),
        }
    }
    own
}

fn fence_mark(line: &str) -> Option<char> {
    ['`', '~'].into_iter().find(|mark| line.chars().take_while(|c| c == mark).count() >= 3)
}

/// Heads of mails that mail programs put before what is forwarded or answered.
const HEADS: &[&str] = &[
    "forwarded message",
    "original message",
    "forwarded by",
    "weitergeleitete nachricht",
    "ursprüngliche nachricht",
    "originalnachricht",
    "message transféré",
    "message d'origine",
    "mensaje reenviado",
    "mensaje original",
    "messaggio inoltrato",
    "messaggio originale",
    "doorgestuurd bericht",
    "oorspronkelijk bericht",
];

/// How a mail program introduces what it quotes, at the end of a line.
const WROTE: &[&str] =
    &["wrote:", "schrieb:", "a écrit :", "a écrit:", "escribió:", "ha scritto:", "schreef:"];

/// The first lines of a mail's head.
const FROM: &[&str] = &["from:", "von:", "de:", "da:", "van:"];

fn begins_other_mail(line: &str) -> bool {
    // No head is long, and a page is not searched line by line for one.
    if line.len() > 400 {
        return false;
    }
    let lower = line.to_lowercase();
    let bare = lower
        .trim_matches(|c: char| c == '-' || c == '_' || c == '=' || c == ':' || c.is_whitespace());
    let bare = bare.strip_prefix("begin ").unwrap_or(bare);
    HEADS.iter().any(|head| bare == *head || (bare.starts_with(head) && lower.starts_with('-')))
        || WROTE.iter().any(|wrote| lower.ends_with(wrote))
        || FROM.iter().any(|from| lower.starts_with(from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(text: &str) -> String {
        own_words(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn quoted_fenced_and_forwarded_lines_are_not_the_writers() {
        let cases = [
            ("All mine.\nEvery line.", "All mine.\nEvery line."),
            ("> quoted\nmine\n  >> quoted\nmine too", "mine\nmine too"),
            ("mine\n```sh\ncode\n```\nmine", "mine\nmine"),
            ("mine\n~~~\ncode\n```\n", "mine\n"),
            ("mine\n```\nnever closed", "mine\n"),
            ("FYI\n---------- Forwarded message ---------\nFrom: Eve\npay", "FYI\n"),
            ("FYI\nBegin forwarded message:\n\npay", "FYI\n"),
            ("no\n-----Original Message-----\npay", "no\n"),
            ("no\nOn Tue, 3 Nov 2026, Eve wrote:\npay", "no\n"),
            ("nein\nAm 3.11.2026 um 10:00 schrieb:\nzahle", "nein\n"),
            ("see\nFrom: Eve <eve@evil.example>\nSubject: x\n\npay", "see\n"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(own(text), expected, "{text:?}");
        }
    }
}
