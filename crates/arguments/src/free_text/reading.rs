//! What a text says to a reader who sees through its spelling.
//!
//! Two readings: *decoded* (entities, percent signs and escapes resolved, in compatibility form, without what nobody
//! sees), and from it *spelled out* (`eve at evil dot example`, `evil[.]example`, `e v i l`, `five five five`).

use std::borrow::Cow;
use std::iter;

use custody_text::encoded_copies;
use unicode_normalization::UnicodeNormalization;

use crate::spelling::number_word;
use crate::visible::is_invisible;

/// How often a text is decoded: `%2540` is `%40` is `@`.
const MAX_DECODINGS: usize = 4;
/// How many percent-encoded bytes are read at once.
const MAX_ROW: usize = 64;
/// How many letters that stand alone make a word: `e v i l`.
const SPACED_LETTERS: usize = 4;
/// How many labels a spelled-out host may have before its first dot is not looked for any more.
const LOOK_AHEAD: usize = 4;
/// The ends of hosts that a blank before them is no reason to doubt.
const DOMAINS: [&str; 14] = [
    "com", "net", "org", "info", "biz", "io", "dev", "app", "xyz", "ru", "cn", "uk", "eu",
    "example",
];

/// The readings of `text` that differ from it.
pub(super) fn readings(text: &str) -> Vec<String> {
    let decoded = decoded(text);
    let spelled = spelled_out(&decoded);
    // Encoded parts that name a place when they are read.
    let copies =
        encoded_copies(text).into_iter().filter(|copy| copy.contains('@') || copy.contains("//"));
    let spelled = (spelled != decoded.as_ref()).then_some(spelled);
    let decoded = (decoded.as_ref() != text).then(|| decoded.into_owned());
    decoded.into_iter().chain(spelled).chain(copies).collect()
}

/// `text` with its codes resolved, in compatibility form, without what nobody sees; look-alikes of a dot or slash are
/// one.
pub(super) fn decoded(text: &str) -> Cow<'_, str> {
    let mut read = Cow::Borrowed(text);
    for _ in 0..MAX_DECODINGS {
        match resolved(&read) {
            Some(next) => read = Cow::Owned(next),
            None => break,
        }
    }
    if read.is_ascii() && !read.contains(|c: char| is_invisible(c) && !c.is_whitespace()) {
        return read;
    }
    let shown = read.nfkc().filter(|c| c.is_whitespace() || !is_invisible(*c)).map(plain_sign);
    Cow::Owned(shown.collect())
}

/// The plain sign that `c` looks like and that compatibility forms leave alone.
const fn plain_sign(c: char) -> char {
    match c {
        '\u{3002}' | '\u{2024}' | '\u{2027}' | '\u{2219}' | '\u{22C5}' | '\u{00B7}'
        | '\u{30FB}' | '\u{0701}' | '\u{0702}' | '\u{A4F8}' | '\u{06D4}' => '.',
        '\u{2044}' | '\u{2215}' | '\u{29F8}' | '\u{2571}' => '/',
        '\u{2236}' | '\u{A789}' | '\u{02D0}' | '\u{0589}' => ':',
        '\u{2010}' | '\u{2011}' | '\u{2012}' => '-',
        _ => c,
    }
}

/// `text` with each code resolved once; nothing if it holds none.
fn resolved(text: &str) -> Option<String> {
    if !text.contains(['&', '%', '\\', '=']) {
        return None;
    }
    let mut read = String::with_capacity(text.len());
    let mut rest = text;
    let mut is_other = false;
    while let Some(at) = rest.find(['&', '%', '\\', '=']) {
        let (before, code) = rest.split_at_checked(at)?;
        read.push_str(before);
        let found = match code.as_bytes().first() {
            Some(b'&') => entity(code),
            Some(b'%') => percent(code),
            Some(b'\\') => escape(code),
            _ => quoted_printable(code),
        };
        let length = found.as_ref().map_or(1, |(_, length)| *length);
        let (taken, after) = code.split_at_checked(length)?;
        match found {
            Some((sign, _)) => {
                read.push_str(&sign);
                is_other = true;
            }
            None => read.push_str(taken),
        }
        rest = after;
    }
    read.push_str(rest);
    is_other.then_some(read)
}

/// What the HTML entity at the beginning of `code` stands for, and its length.
fn entity(code: &str) -> Option<(String, usize)> {
    const NAMED: [(&str, char); 14] = [
        ("commat;", '@'),
        ("period;", '.'),
        ("sol;", '/'),
        ("colon;", ':'),
        ("lowbar;", '_'),
        ("hyphen;", '-'),
        ("dash;", '-'),
        ("num;", '#'),
        ("quest;", '?'),
        ("nbsp;", ' '),
        ("ensp;", ' '),
        ("thinsp;", ' '),
        ("shy;", '\u{AD}'),
        ("amp;", '&'),
    ];
    let name = code.strip_prefix('&')?;
    let Some(number) = name.strip_prefix('#') else {
        let (named, sign) = NAMED.iter().find(|(named, _)| name.starts_with(named))?;
        return Some((sign.to_string(), 1 + named.len()));
    };
    let (digits, radix, skipped) = match number.strip_prefix(['x', 'X']) {
        Some(digits) => (digits, 16, 3),
        None => (number, 10, 2),
    };
    let length = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let sign = char::from_u32(u32::from_str_radix(digits.get(..length)?, radix).ok()?)?;
    // Browsers do not insist on the semicolon.
    let end = usize::from(digits.get(length..)?.starts_with(';'));
    Some((sign.to_string(), skipped + length + end))
}

/// The text that a row of percent-encoded bytes stands for, and its length.
fn percent(code: &str) -> Option<(String, usize)> {
    let pairs = iter::successors(Some(code), |rest| rest.get(3..)).take(MAX_ROW);
    let bytes: Vec<u8> = pairs.map_while(|rest| byte(rest.strip_prefix('%')?)).collect();
    // A row that is cut off, or goes on with what is no text, is read as far as it is one.
    let text = bytes.utf8_chunks().next()?.valid().to_owned();
    let length = 3 * text.len();
    (!text.is_empty() && !text.contains(char::is_control)).then_some((text, length))
}

/// The byte that two hexadecimal digits at the beginning of `text` stand for.
fn byte(text: &str) -> Option<u8> {
    let digits = text.get(..2).filter(|pair| pair.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u8::from_str_radix(digits, 16).ok()
}

/// The character that an escape of a programming language stands for, and its length: `\u0040`, `\x40`.
fn escape(code: &str) -> Option<(String, usize)> {
    let (digits, length) = match code.get(..2)? {
        "\\u" => (code.get(2..6)?, 6),
        "\\x" => (code.get(2..4)?, 4),
        _ => return None,
    };
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let sign = char::from_u32(u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?)?;
    (!sign.is_control()).then(|| (sign.to_string(), length))
}

/// The sign that mail encodes as `=40`, and its length. Only those of addresses: `x=10` is no code.
fn quoted_printable(code: &str) -> Option<(String, usize)> {
    let sign = char::from(byte(code.strip_prefix('=')?)?);
    matches!(sign, '@' | '.' | '/' | ':').then(|| (sign.to_string(), 3))
}

/// A word of a text, and what stands between it and the next.
#[derive(Debug, Clone, Copy)]
struct Part<'a> {
    word: &'a str,
    gap: &'a str,
}

/// The words of `text`, the first one empty if the text begins with something else.
fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
        let (word, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let end = after.find(char::is_alphanumeric).unwrap_or(after.len());
        let (gap, after) = after.split_at_checked(end).unwrap_or((after, ""));
        parts.push(Part { word, gap });
        rest = after;
    }
    parts
}

/// `text` with signs where their names are spelled out or blanks and brackets stand around them.
fn spelled_out(text: &str) -> String {
    let parts = parts(text);
    let mut read = String::with_capacity(text.len());
    // Whether an at sign was read, and words that belong to its host.
    let mut in_address = 0_usize;
    let mut index = 0;
    while let Some(part) = parts.get(index) {
        let ahead = parts.get(index + 1..).unwrap_or_default();
        let spaced = spaced_letters(&parts, index);
        if spaced > SPACED_LETTERS {
            let letters = parts.get(index..index + spaced).unwrap_or_default();
            for (position, letter) in (1..).zip(letters) {
                read.push_str(letter.word);
                read.push_str(if position == spaced { letter.gap } else { letter.gap.trim() });
            }
            index += spaced;
            continue;
        }
        read.push_str(digit_word(&parts, index).unwrap_or(part.word));
        in_address = in_address.saturating_sub(1);
        let [sign, next, ..] = ahead else {
            read.push_str(&closed_up(part.gap, ahead));
            index += 1;
            continue;
        };
        if is_at(part.gap, sign, ahead.get(1..).unwrap_or_default()) && !next.word.is_empty() {
            read.push('@');
            in_address = LOOK_AHEAD;
            index += 2;
        } else if is_dot(part.gap, sign, next, in_address > 0 || is_followed_by_dot(ahead)) {
            read.push('.');
            in_address = in_address.max(2);
            index += 2;
        } else {
            read.push_str(&closed_up(part.gap, ahead));
            index += 1;
        }
    }
    read
}

/// Whether `gap` and what follows `sign` enclose it in brackets.
fn is_enclosed(gap: &str, sign: Part<'_>) -> bool {
    gap.trim_end().ends_with(['(', '[', '{', '<', '*', '_', '-'])
        && sign.gap.trim_start().starts_with([')', ']', '}', '>', '*', '_', '-'])
}

/// Whether only blanks stand around `sign`.
fn is_loose(gap: &str, sign: Part<'_>) -> bool {
    [gap, sign.gap].iter().all(|gap| !gap.is_empty() && gap.chars().all(char::is_whitespace))
}

/// Whether `sign`, before the words `ahead`, is an at sign in words.
fn is_at(gap: &str, sign: &Part<'_>, ahead: &[Part<'_>]) -> bool {
    let is_name = ["at", "arroba", "ät"].contains(&sign.word.to_lowercase().as_str());
    // Loose, it is one only if a dot in words follows: `at the office` has none.
    is_name && (is_enclosed(gap, *sign) || (is_loose(gap, *sign) && has_dot(ahead)))
}

/// Whether a dot in words follows one of the next labels of a host.
fn has_dot(labels: &[Part<'_>]) -> bool {
    const ARTICLES: [&str; 8] = ["the", "a", "an", "this", "that", "each", "every", "our"];
    let is_article =
        labels.first().is_some_and(|next| ARTICLES.contains(&next.word.to_lowercase().as_str()));
    let mut pairs = labels.iter().zip(labels.iter().skip(1)).take(LOOK_AHEAD);
    !is_article
        && pairs.any(|(label, dot)| {
            is_dot_name(dot.word) && (is_loose(label.gap, *dot) || is_enclosed(label.gap, *dot))
        })
}

fn is_dot_name(word: &str) -> bool {
    ["dot", "punkt", "punto", "ponto", "dt"].contains(&word.to_lowercase().as_str())
}

/// Whether `sign`, before the word `next`, is a dot in words.
fn is_dot(gap: &str, sign: &Part<'_>, next: &Part<'_>, in_host: bool) -> bool {
    let is_domain = DOMAINS.contains(&next.word.to_lowercase().as_str());
    let is_name = is_dot_name(sign.word) && !next.word.is_empty();
    is_name && (is_enclosed(gap, *sign) || (is_loose(gap, *sign) && (in_host || is_domain)))
}

/// Whether the second of `ahead`, a label, stands before another dot in words: `evil dot host dot test`.
fn is_followed_by_dot(ahead: &[Part<'_>]) -> bool {
    let [_, label, dot, ..] = ahead else { return false };
    is_dot_name(dot.word) && is_loose(label.gap, *dot)
}

/// `gap` before the words `ahead`, without blanks and brackets around the sign of an address or host.
fn closed_up<'a>(gap: &'a str, ahead: &[Part<'_>]) -> Cow<'a, str> {
    let core = gap.trim_matches(is_around);
    let [next, ..] = ahead else { return Cow::Borrowed(gap) };
    let is_domain = DOMAINS.contains(&next.word);
    let has_bracket = gap.contains(['(', '[', '{', '<']);
    let starts_host = next.gap.starts_with('.')
        || next.gap.trim_matches(is_around) == "."
        || ahead.get(1).is_some_and(|sign| is_dot_name(sign.word));
    let closes = match core {
        "." => {
            has_bracket
                || is_domain
                || (gap.starts_with(char::is_whitespace) && gap.ends_with(char::is_whitespace))
        }
        "@" => has_bracket || starts_host,
        ":" | "://" | "//" | "/" => has_bracket && gap.contains(['[', '(']),
        _ => false,
    };
    if closes && core != gap { Cow::Owned(core.to_owned()) } else { Cow::Borrowed(gap) }
}

/// What may stand around the sign of an address and is none of it.
fn is_around(c: char) -> bool {
    c.is_whitespace() || "()[]{}<>\"'`*".contains(c)
}

/// How many parts from `index` on are single letters with nothing but blanks and the signs of addresses between them.
fn spaced_letters(parts: &[Part<'_>], index: usize) -> usize {
    let rest = parts.get(index..).unwrap_or_default();
    let mut count = 0;
    for part in rest.iter().take_while(|part| is_single(part.word)) {
        count += 1;
        if !is_letter_gap(part.gap) {
            break;
        }
    }
    count
}

fn is_single(word: &str) -> bool {
    !word.is_empty() && word.chars().nth(1).is_none()
}

/// Blanks between letters that stand alone, with a sign of an address at most.
fn is_letter_gap(gap: &str) -> bool {
    let sign = gap.trim();
    sign != gap && matches!(sign, "" | "." | "@" | "-" | "_" | "/")
}

/// The digit that a word names, if digits or other such words stand beside it.
fn digit_word(parts: &[Part<'_>], index: usize) -> Option<&'static str> {
    let digit = digit(parts.get(index)?.word)?;
    let beside = [index.checked_sub(1), index.checked_add(1)];
    let words = beside.into_iter().flatten().filter_map(|beside| Some(parts.get(beside)?.word));
    words.into_iter().any(is_digits).then_some(digit)
}

/// Whether `word` is a digit in words, or in digits.
fn is_digits(word: &str) -> bool {
    let is_written = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    is_written || digit(word).is_some()
}

fn digit(word: &str) -> Option<&'static str> {
    match word.to_lowercase().as_str() {
        "zero" | "null" | "oh" => Some("0"),
        lower => number_word(lower).filter(|digits| digits.len() == 1),
    }
}
