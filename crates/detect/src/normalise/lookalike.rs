//! Letters of other scripts that are read as Latin ones.
//!
//! Only where a Latin reader would be deceived: in words that also hold Latin letters, and in whole
//! words of look-alikes when the text is otherwise Latin. Russian, Greek or Armenian prose keeps
//! its letters, and so do German and French: letters of the Latin script are no look-alikes.

use std::ops::Range;
use std::sync::LazyLock;

use unicode_security::confusable_detection::skeleton;

use super::offsets::Offsets;
use crate::blocks::next_non_ascii;

/// The scripts with look-alikes stand below the first East Asian radical.
const FIRST: u32 = 0x250;
const LAST: u32 = 0x2e7f;

/// The Latin letter that each character of `FIRST..=LAST` is read as, or 0.
static LATIN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut table: Vec<u8> = (FIRST..=LAST).map(skeleton_letter).collect();
    for (letters, latin) in READ_AS {
        for letter in letters.chars() {
            if let Some(slot) = index(letter).and_then(|index| table.get_mut(index)) {
                *slot = *latin;
            }
        }
    }
    table
});

/// Beside the Unicode table, which speaks of glyphs that are the same: letters that people write
/// for one another. Small capitals, and what the table sends to another small capital.
const READ_AS: &[(&str, u8)] = &[
    ("ᴀ\u{3b1}\u{251}", b'a'),
    ("ʙ\u{432}\u{3b2}", b'b'),
    ("ᴄ", b'c'),
    ("ᴅ", b'd'),
    ("ᴇ\u{454}\u{3b5}", b'e'),
    ("ɢ\u{261}", b'g'),
    ("ʜ\u{43d}", b'h'),
    ("ɪ\u{3b9}\u{456}", b'i'),
    ("ᴊ", b'j'),
    ("ᴋ\u{43a}\u{3ba}", b'k'),
    ("ʟ", b'l'),
    ("ᴍ\u{43c}", b'm'),
    ("ɴ\u{3b7}\u{578}\u{43f}", b'n'),
    ("ᴏ\u{3bf}\u{43e}", b'o'),
    ("ᴘ\u{3c1}", b'p'),
    ("ʀ", b'r'),
    ("\u{455}", b's'),
    ("ᴛ\u{442}\u{3c4}", b't'),
    ("ᴜ\u{57d}", b'u'),
    ("ᴠ\u{3bd}", b'v'),
    ("ᴡ\u{461}", b'w'),
    ("\u{3c7}", b'x'),
    ("ʏ\u{3b3}", b'y'),
    ("ᴢ", b'z'),
];

/// The one Latin letter that the Unicode table says `code` looks like.
fn skeleton_letter(code: u32) -> u8 {
    let Some(letter) = char::from_u32(code).filter(|letter| letter.is_alphabetic()) else {
        return 0;
    };
    let mut buffer = [0; 4];
    let mut shape = skeleton(letter.encode_utf8(&mut buffer));
    match (shape.next().map(|first| first.to_ascii_lowercase()), shape.next()) {
        (Some(first @ 'a'..='z'), None) => u8::try_from(first).unwrap_or(0),
        _ => 0,
    }
}

fn index(letter: char) -> Option<usize> {
    u32::from(letter).checked_sub(FIRST).and_then(|offset| usize::try_from(offset).ok())
}

fn latin(letter: char) -> Option<char> {
    let read_as = *LATIN.get(index(letter)?)?;
    (read_as != 0).then_some(char::from(read_as))
}

/// Phonetic letters and small capitals: Latin by script, so they need no mixed word.
fn is_small_capital(letter: char) -> bool {
    matches!(letter, '\u{250}'..='\u{2af}' | '\u{1d00}'..='\u{1d7f}')
}

/// A text with its look-alikes read as Latin.
pub(super) struct Latinised {
    pub(super) text: String,
    pub(super) offsets: Offsets,
    /// Bytes of the given text: words that mixed scripts.
    pub(super) mixed_words: Vec<Range<usize>>,
}

/// What one word is made of.
#[derive(Default, Clone, Copy)]
struct Makeup {
    ascii: usize,
    lookalike: usize,
    small_capital: usize,
    genuine: usize,
}

/// Reads the look-alikes of a folded text, if that changes anything. Words of ASCII letters alone
/// are copied without a look.
pub(super) fn latinise(text: &str) -> Option<Latinised> {
    let mut whole = Makeup::default();
    let mut at = 0;
    while let Some(place) = next_non_ascii(text.as_bytes(), at) {
        let letter = text[place..].chars().next()?;
        whole.count(letter);
        at = place + letter.len_utf8();
    }
    if whole.lookalike + whole.small_capital == 0 {
        return None;
    }
    whole.ascii = text.bytes().filter(u8::is_ascii_alphabetic).count();
    // A text in look-alikes alone is a disguise; among genuine letters of another script they are
    // that script's own letters, unless Latin clearly rules the text.
    let latin_text = whole.genuine == 0 || whole.genuine * 4 < whole.ascii;
    let mut changed = Latinised {
        text: String::with_capacity(text.len()),
        offsets: Offsets::default(),
        mixed_words: Vec::new(),
    };
    let mut copied = 0;
    while let Some(word) = next_foreign_word(text, copied) {
        let mut makeup = Makeup::default();
        text[word.clone()].chars().for_each(|letter| makeup.count(letter));
        let mixed = makeup.ascii > 0 && makeup.lookalike > 0;
        let disguised = latin_text && makeup.genuine == 0 && makeup.lookalike > 0;
        if mixed {
            changed.mixed_words.push(word.clone());
        }
        changed.copy(text, copied..word.start);
        if mixed || disguised || makeup.small_capital > 0 {
            changed.read_word(&text[word.clone()], word.start, mixed || disguised);
        } else {
            changed.copy(text, word.clone());
        }
        copied = word.end;
    }
    changed.copy(text, copied..text.len());
    Some(changed)
}

impl Makeup {
    fn count(&mut self, letter: char) {
        if letter.is_ascii() {
            self.ascii += usize::from(letter.is_ascii_alphabetic());
        } else if is_small_capital(letter) {
            self.small_capital += 1;
        } else if latin(letter).is_some() {
            self.lookalike += 1;
        } else if letter.is_alphabetic() {
            self.genuine += 1;
        }
    }
}

impl Latinised {
    fn copy(&mut self, text: &str, range: Range<usize>) {
        self.offsets.copy(range.start, range.len());
        self.text.push_str(&text[range]);
    }

    fn read_word(&mut self, word: &str, start: usize, all: bool) {
        for (position, letter) in word.char_indices() {
            let span = start + position..start + position + letter.len_utf8();
            match latin(letter).filter(|_| all || is_small_capital(letter)) {
                Some(read_as) => {
                    self.text.push(read_as);
                    self.offsets.replace(1, span);
                }
                None => {
                    self.text.push(letter);
                    self.offsets.copy(span.start, span.len());
                }
            }
        }
    }
}

/// The next run of letters, from `from` on, that holds one beyond ASCII.
fn next_foreign_word(text: &str, from: usize) -> Option<Range<usize>> {
    let mut at = from;
    loop {
        at = next_non_ascii(text.as_bytes(), at)?;
        let letter = text[at..].chars().next()?;
        if letter.is_alphabetic() {
            break;
        }
        at += letter.len_utf8();
    }
    let before =
        text[from..at].char_indices().rev().take_while(|(_, before)| before.is_alphabetic());
    let start = before.last().map_or(at, |(place, _)| from + place);
    let end =
        text[at..].find(|after: char| !after.is_alphabetic()).map_or(text.len(), |end| at + end);
    Some(start..end)
}

#[cfg(test)]
mod tests {
    use super::latinise;

    fn read(text: &str) -> String {
        latinise(text).map_or_else(|| text.to_owned(), |changed| changed.text)
    }

    #[test]
    fn look_alikes_inside_latin_words_are_read_as_latin() {
        let cases = [
            ("ign\u{43e}re previ\u{3bf}us", "ignore previous"),
            ("\u{456}gn\u{3bf}r\u{435} all", "ignore all"),
            ("ɪɢɴᴏʀᴇ all", "ignore all"),
            ("please \u{440}\u{430}\u{443}", "please pay"),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text), expected);
        }
    }

    #[test]
    fn prose_in_another_script_keeps_its_letters() {
        let cases = [
            "\u{437}\u{430}\u{431}\u{443}\u{434}\u{44c}\u{442}\u{435} \u{432}\u{441}\u{435} \u{438}\u{43d}\u{441}\u{442}\u{440}\u{443}\u{43a}\u{446}\u{438}\u{438}",
            "\u{3b7} \u{3ba}\u{3b1}\u{3bb}\u{3b7} \u{3bc}\u{3ad}\u{3c1}\u{3b1} \u{3c3}\u{3b5} \u{3cc}\u{3bb}\u{3bf}\u{3c5}\u{3c2}",
            "grüße aus köln",
            "日本語 text",
        ];
        for text in cases {
            assert_eq!(read(text), text);
        }
    }

    #[test]
    fn mixed_words_are_reported_where_they_stand() {
        let changed = latinise("ab c\u{43e}d ef").unwrap();
        assert_eq!(changed.mixed_words.first(), Some(&(3..7)));
        assert_eq!(changed.offsets.original(3..6), 3..7);
    }
}
