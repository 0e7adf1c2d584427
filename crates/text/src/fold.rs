//! One character: what remains of it in the canonical form.

use std::sync::LazyLock;

use unicode_normalization::char::{decompose_compatible, is_combining_mark};
use unicode_security::confusable_detection::skeleton;

/// The most canonical characters that one character becomes. Only two ligatures of Arabic phrases are longer (U+FDFA
/// has 18 letters); they are cut, so that a text grows by a constant at most.
pub const MAX_EXPANSION: usize = 6;

/// What one character becomes: nothing, or a few letters and digits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Folded {
    chars: [char; MAX_EXPANSION],
    length: u8,
}

impl Folded {
    pub(crate) fn chars(&self) -> &[char] {
        self.chars.get(..usize::from(self.length)).unwrap_or_default()
    }

    fn push(&mut self, c: char) {
        if let Some(slot) = self.chars.get_mut(usize::from(self.length)) {
            *slot = c;
            self.length += 1;
        }
    }
}

/// The characters that are looked up in a table: beyond it are East Asian scripts, in which little is folded.
const TABLE: std::ops::Range<u32> = 0x80..0x2E80;

static FOLDED: LazyLock<Vec<Folded>> = LazyLock::new(|| {
    TABLE.map(|code| char::from_u32(code).map(fold_anew).unwrap_or_default()).collect()
});

/// Folds a character that is not ASCII.
pub(crate) fn fold(c: char) -> Folded {
    let code = u32::from(c);
    // Ideographs are their own form.
    if matches!(code, 0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x20000..=0x2A6DF) {
        let mut same = Folded::default();
        same.push(c);
        return same;
    }
    let index = code.checked_sub(TABLE.start).and_then(|index| usize::try_from(index).ok());
    match index.and_then(|index| FOLDED.get(index)) {
        Some(folded) => *folded,
        None => fold_beyond(c),
    }
}

/// Folds a character beyond the table, by what the table has of its parts.
fn fold_beyond(c: char) -> Folded {
    let mut folded = Folded::default();
    decompose_compatible(c, |part| {
        let code = u32::from(part);
        let index = code.checked_sub(TABLE.start).and_then(|index| usize::try_from(index).ok());
        match index.and_then(|index| FOLDED.get(index)) {
            Some(known) => known.chars().iter().for_each(|letter| folded.push(*letter)),
            None => fold_part(part, &mut folded),
        }
    });
    folded
}

fn fold_anew(c: char) -> Folded {
    let mut folded = Folded::default();
    decompose_compatible(c, |part| fold_part(part, &mut folded));
    folded
}

/// Folds a character that has no decomposition.
fn fold_part(part: char, folded: &mut Folded) {
    if part.is_ascii_alphanumeric() {
        folded.push(part.to_ascii_lowercase());
    } else if let Some(digit) = decimal_digit(part) {
        folded.push(digit);
    } else if !is_kept(part) {
        // Marks, punctuation, blanks, and what cannot be seen.
    } else if let Some(letters) = spelled_out(part) {
        letters.chars().for_each(|letter| folded.push(letter));
    } else if let Some(letter) = look_alike(part) {
        folded.push(letter);
    } else {
        let lower = part.to_uppercase().flat_map(char::to_lowercase);
        let kept = lower.filter(|lower| is_kept(*lower));
        kept.for_each(|lower| folded.push(look_alike(lower).unwrap_or(lower)));
    }
}

/// Whether a character is a letter, a digit, or a sign without which words of its script are not told apart.
fn is_kept(c: char) -> bool {
    if !c.is_alphanumeric() || is_invisible_letter(c) {
        return false;
    }
    !is_combining_mark(c) || has_vowel_signs(c)
}

/// Scripts that write vowels as marks: Devanagari to Myanmar, the Philippines to Vedic signs, Saurashtra to Meetei.
pub(crate) fn has_vowel_signs(c: char) -> bool {
    matches!(c, '\u{900}'..='\u{109F}' | '\u{1700}'..='\u{1CFF}' | '\u{A800}'..='\u{AAFF}' | '\u{ABC0}'..='\u{ABFF}')
}

/// Whether a character is a mark that stays, because its script writes vowels so.
pub(crate) fn is_vowel_sign(c: char) -> bool {
    has_vowel_signs(c) && is_combining_mark(c)
}

/// Letters by class that show nothing, modifier letters that stand for marks, and the stroke that lengthens Arabic.
fn is_invisible_letter(c: char) -> bool {
    matches!(
        c,
        '\u{115F}'
            | '\u{1160}'
            | '\u{3164}'
            | '\u{FFA0}'
            | '\u{17B4}'
            | '\u{17B5}'
            | '\u{640}'
            | '\u{2B0}'..='\u{2FF}' | '\u{374}' | '\u{37A}'
    )
}

/// The first digits of Unicode's decimal systems in the basic plane; the other nine follow each.
const ZEROS: &[u32] = &[
    0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xDE6,
    0xE50, 0xED0, 0xF20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50,
    0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0,
];

fn decimal_digit(c: char) -> Option<char> {
    let code = u32::from(c);
    let system = ZEROS.partition_point(|zero| *zero <= code).checked_sub(1)?;
    char::from_digit(code.checked_sub(*ZEROS.get(system)?)?, 10)
}

/// Latin letters that Unicode does not decompose and people spell with two.
fn spelled_out(c: char) -> Option<&'static str> {
    Some(match c {
        'ß' | 'ẞ' => "ss",
        'æ' | 'Æ' => "ae",
        'œ' | 'Œ' => "oe",
        'þ' | 'Þ' => "th",
        'ð' | 'Ð' => "d",
        _ => return None,
    })
}

/// The Latin letter that a letter looks like.
///
/// Both cases of a letter become the same, except in Greek, where some capitals and their small letters look like
/// different Latin ones (`Η` like h, `η` like n).
fn look_alike(c: char) -> Option<char> {
    if matches!(c, '\u{370}'..='\u{3FF}' | '\u{1F00}'..='\u{1FFF}') {
        return shape(c);
    }
    single(c.to_lowercase()).and_then(shape).or_else(|| single(c.to_uppercase()).and_then(shape))
}

fn single(mut chars: impl Iterator<Item = char>) -> Option<char> {
    chars.next().filter(|_| chars.next().is_none())
}

/// Letters that people substitute for one another and that Unicode's table does not list, because it only has equal
/// glyphs.
const SHAPES: &[(&str, char)] = &[
    ("ᴀ\u{3b1}\u{251}", 'a'),
    ("ʙ\u{432}\u{3b2}", 'b'),
    ("ᴄ", 'c'),
    ("ᴅ", 'd'),
    ("ᴇ\u{454}\u{3b5}", 'e'),
    ("ɢ\u{261}", 'g'),
    ("ʜ\u{43d}", 'h'),
    ("ɪ\u{3b9}\u{456}\u{406}\u{399}\u{131}", 'i'),
    ("ᴊ", 'j'),
    ("ᴋ\u{43a}\u{3ba}", 'k'),
    ("ʟ", 'l'),
    ("ᴍ\u{43c}", 'm'),
    ("ɴ\u{3b7}\u{578}\u{43f}", 'n'),
    ("ᴏ\u{3bf}\u{43e}", 'o'),
    ("ᴘ\u{3c1}", 'p'),
    ("ʀ", 'r'),
    ("ꜱ\u{455}", 's'),
    ("ᴛ\u{442}\u{3c4}", 't'),
    ("ᴜ\u{57d}", 'u'),
    ("ᴠ\u{3bd}", 'v'),
    ("ᴡ\u{461}", 'w'),
    ("\u{3c7}", 'x'),
    ("ʏ\u{3b3}", 'y'),
    ("ᴢ", 'z'),
];

/// The single Latin letter that a glyph looks like, in our table or in Unicode's (UTS 39).
fn shape(c: char) -> Option<char> {
    if let Some((_, letter)) = SHAPES.iter().find(|(letters, _)| letters.contains(c)) {
        return Some(*letter);
    }
    // Ideographs and syllables of East Asia look like no letter.
    if matches!(c, '\u{2E80}'..='\u{A4CF}' | '\u{AC00}'..='\u{FAFF}' | '\u{20000}'..) {
        return None;
    }
    let mut buffer = [0; 4];
    let letters = skeleton(c.encode_utf8(&mut buffer)).filter(|part| part.is_alphanumeric());
    single(letters).filter(char::is_ascii_alphabetic).map(|letter| letter.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &str) -> String {
        text.chars().flat_map(|c| fold(c).chars().to_vec()).collect()
    }

    #[test]
    fn a_character_becomes_letters_and_digits_without_case_marks_and_look_alikes() {
        let cases = [
            ("\u{ff30}\u{ff21}\u{ff39}", "pay", "full width"),
            ("𝐩𝓪𝕪", "pay", "mathematical"),
            ("\u{440}\u{430}\u{443}", "pay", "Cyrillic"),
            ("\u{420}\u{410}\u{423}", "pay", "Cyrillic capitals"),
            ("\u{a4d1}\u{a4ee}", "pa", "Lisu"),
            ("ᴘᴀʏ", "pay", "small capitals"),
            ("Ⓟⓐⓨ", "pay", "circled"),
            ("ﬁ", "fi", "ligature"),
            ("é\u{301}üÅ", "eua", "marks"),
            ("øłđħß", "oldhss", "strokes"),
            ("\u{661}\u{665}\u{96a}", "154", "digits of other systems"),
            ("½²", "122", "fractions and powers"),
            ("\u{200b}\u{ad}\u{feff}\u{202e}\u{3164}\u{115f}\u{2800}\u{e0041}", "", "invisible"),
            ("—“”…•·\u{a0}", "", "punctuation"),
            ("日本語", "日本語", "ideographs"),
        ];
        for (text, expected, what) in cases {
            assert_eq!(folded(text), expected, "{what}");
        }
    }

    #[test]
    fn both_cases_of_a_letter_fold_alike_outside_greek() {
        for c in ('\u{80}'..='\u{2FFFF}')
            .filter(|c| !matches!(c, '\u{370}'..='\u{3FF}' | '\u{1F00}'..='\u{1FFF}'))
        {
            let lower: String = c.to_lowercase().collect();
            let foreign: String = lower.chars().filter(|c| !c.is_ascii()).collect();
            if foreign == lower && !matches!(c, 'Ω' | '\u{1C4}'..='\u{1CC}' | '\u{1F1}'..='\u{1F3}')
            {
                assert_eq!(fold(c).chars().iter().collect::<String>(), folded(&lower), "{c:?}");
            }
        }
    }

    #[test]
    fn g29_no_character_becomes_more_than_a_few() {
        let longest = ('\0'..=char::MAX).map(|c| fold(c).chars().len()).max();
        assert_eq!(longest, Some(MAX_EXPANSION));
    }

    #[test]
    fn what_the_table_has_of_the_parts_is_what_folding_gives() {
        for c in '\u{2E80}'..='\u{2FFFF}' {
            assert_eq!(fold_beyond(c), fold_anew(c), "{c:?}");
        }
    }

    #[test]
    fn folding_what_was_folded_changes_nothing() {
        for c in '\u{80}'..='\u{2FFFF}' {
            for letter in fold(c).chars().iter().filter(|letter| !letter.is_ascii()) {
                assert_eq!(fold(*letter).chars(), [*letter], "{c:?} became {letter:?}");
            }
        }
    }
}
