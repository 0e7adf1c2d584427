//! Decodes percent encoding, HTML entities and backslash escapes.

use memchr::memchr3;

use super::offsets::Offsets;

/// The named entities that can hide letters, spaces or the punctuation of commands.
const NAMED: &[(&str, char)] = &[
    ("amp", '&'),
    ("apos", '\''),
    ("colon", ':'),
    ("comma", ','),
    ("excl", '!'),
    ("gt", '>'),
    ("lt", '<'),
    ("nbsp", ' '),
    ("NewLine", '\n'),
    ("num", '#'),
    ("period", '.'),
    ("quot", '"'),
    ("shy", '\u{ad}'),
    ("sol", '/'),
    ("Tab", '\t'),
    ("zwj", '\u{200d}'),
    ("zwnj", '\u{200c}'),
];

/// The text with its escapes decoded, if it has any: `%69`, `&#105;`, `&#x69;`, `&amp;`, `\x69`, `\u0069`, `\n` and the
/// like. It is never longer than the text.
pub(crate) fn unescape(text: &str) -> Option<(String, Offsets)> {
    let bytes = text.as_bytes();
    let mut out = String::new();
    let mut offsets = Offsets::default();
    let (mut copied, mut from) = (0, 0);
    while let Some(found) = memchr3(b'%', b'&', b'\\', bytes.get(from..)?) {
        let at = from + found;
        let Some((character, len)) = escape_at(text, at) else {
            from = at + 1;
            continue;
        };
        out.push_str(&text[copied..at]);
        offsets.copy(copied, at - copied);
        out.push(character);
        offsets.replace(character.len_utf8(), at..at + len);
        from = at + len;
        copied = from;
    }
    (copied > 0).then(|| {
        out.push_str(&text[copied..]);
        offsets.copy(copied, text.len() - copied);
        (out, offsets)
    })
}

/// The character of the escape at byte `at`, and the length of the escape in bytes.
fn escape_at(text: &str, at: usize) -> Option<(char, usize)> {
    let rest = text.as_bytes().get(at..)?;
    match rest {
        [b'%', ..] => percent(rest),
        [b'&', b'#', b'x' | b'X', digits @ ..] => entity_number(digits, 16, 3),
        [b'&', b'#', digits @ ..] => entity_number(digits, 10, 2),
        [b'&', name @ ..] => entity_name(name),
        [b'\\', b'x', digits @ ..] => Some((ascii_or_latin(number(digits, 2)?)?, 4)),
        [b'\\', b'u', digits @ ..] => unicode(digits),
        [b'\\', b'U', digits @ ..] => Some((char::from_u32(number(digits, 8)?)?, 10)),
        [b'\\', b'n' | b'r', ..] => Some(('\n', 2)),
        [b'\\', b't', ..] => Some((' ', 2)),
        [b'\\', b'"', ..] => Some(('"', 2)),
        [b'\\', b'/', ..] => Some(('/', 2)),
        _ => None,
    }
}

/// The character of the backslash escape at byte `at` of a string literal, and its length in bytes. In a literal every
/// backslash is an escape; an unknown one stands for the next character.
pub(crate) fn backslash_at(text: &str, at: usize) -> Option<(char, usize)> {
    escape_at(text, at).or_else(|| {
        let next = text.get(at + 1..)?.chars().next()?;
        Some((next, 1 + next.len_utf8()))
    })
}

/// One UTF-8 character as one to four `%XX`.
fn percent(rest: &[u8]) -> Option<(char, usize)> {
    let mut bytes = [0; 4];
    let len = match percent_byte(rest, 0)? {
        0x00..=0x7f => 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return None,
    };
    for (index, slot) in bytes.iter_mut().enumerate().take(len) {
        *slot = percent_byte(rest, index)?;
    }
    let character = std::str::from_utf8(bytes.get(..len)?).ok()?.chars().next()?;
    Some((character, 3 * len))
}

fn percent_byte(rest: &[u8], index: usize) -> Option<u8> {
    let [b'%', digits @ ..] = rest.get(3 * index..)? else { return None };
    u8::try_from(number(digits, 2)?).ok()
}

/// A numeric entity after its prefix of `prefix` bytes; the semicolon is optional, as in browsers.
fn entity_number(digits: &[u8], radix: u32, prefix: usize) -> Option<(char, usize)> {
    let digit_bytes = digits.iter().take(10).take_while(|byte| char::from(**byte).is_digit(radix));
    let len = digit_bytes.count();
    let value = std::str::from_utf8(digits.get(..len)?).ok()?;
    let character = char::from_u32(u32::from_str_radix(value, radix).ok()?)?;
    let semicolon = usize::from(digits.get(len) == Some(&b';'));
    let taken = prefix + len + semicolon;
    (character.len_utf8() <= taken).then_some((character, taken))
}

fn entity_name(name: &[u8]) -> Option<(char, usize)> {
    let end = name.iter().take(9).position(|byte| *byte == b';')?;
    let (_, character) = NAMED.iter().find(|(known, _)| known.as_bytes() == &name[..end])?;
    Some((*character, end + 2))
}

/// `\uXXXX`, a surrogate pair of them, or `\u{X…}`.
fn unicode(digits: &[u8]) -> Option<(char, usize)> {
    if let [b'{', inner @ ..] = digits {
        let len = inner.iter().take(7).position(|byte| *byte == b'}')?;
        return Some((char::from_u32(number(inner, len)?)?, len + 4));
    }
    let high = number(digits, 4)?;
    if !(0xd800..0xdc00).contains(&high) {
        return Some((char::from_u32(high)?, 6));
    }
    let [b'\\', b'u', digits @ ..] = digits.get(4..)? else { return None };
    let low = number(digits, 4)?.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
    Some((char::from_u32(0x10000 + ((high - 0xd800) << 10) + low)?, 12))
}

fn ascii_or_latin(code: u32) -> Option<char> {
    u8::try_from(code).ok().map(char::from)
}

/// The number in exactly `len` hexadecimal digits.
fn number(digits: &[u8], len: usize) -> Option<u32> {
    let digits = digits.get(..len).filter(|digits| !digits.is_empty())?;
    digits.iter().try_fold(0, |value: u32, byte| {
        Some(value.checked_mul(16)? + char::from(*byte).to_digit(16)?)
    })
}

#[cfg(test)]
mod tests {
    use super::unescape;

    #[test]
    fn escapes_are_decoded() {
        let cases = [
            ("%69gnore%20all", "ignore all"),
            ("%C3%BCber %E2%82%AC %F0%9F%98%80", "über € 😀"),
            ("&#105;gnore&#32;&#x61;ll &lt;b&gt; &#105gnore", "ignore all <b> ignore"),
            ("\\x69gnore\\n\\u0061ll \\ud83d\\ude00 \\u{61}", "ignore\nall 😀 a"),
            ("50 % &c. %69", "50 % &c. i"),
        ];
        for (text, expected) in cases {
            assert_eq!(unescape(text).unwrap().0, expected, "{text}");
        }
    }

    #[test]
    fn invalid_escapes_are_unchanged() {
        for text in
            ["100 %", "a & b", "%zz %E2%82 %FF", "&unknown; &#xD800;", "\\d+ \\ud800", "\\u{}"]
        {
            assert_eq!(unescape(text), None, "{text}");
        }
    }

    #[test]
    fn a_decoded_range_maps_to_the_whole_escape() {
        let (text, offsets) = unescape("a%C3%BCb&#105;c").unwrap();
        assert_eq!(text, "aübic");
        let cases = [(0..1, 0..1), (1..3, 1..7), (3..4, 7..8), (4..5, 8..14), (5..6, 14..15)];
        for (view, original) in cases {
            assert_eq!(offsets.original(view.clone()), original, "{view:?}");
        }
    }
}
