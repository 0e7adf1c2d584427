//! Phrases: looking for a text in others, however either is spelled.
//!
//! A text is searched in every [`Rendering`], and in two forms that only a search needs: decoded, and bare. Repeats are
//! not recognised by these two (decision 0020), so that labels do not depend on them.

use std::ops::Range;

use crate::canonical::CanonicalText;
use crate::view::Rendering;

/// The least number of letters and digits that a phrase needs: fewer are in every text.
pub const MIN_PHRASE: usize = 3;

/// How much of a text is read at once, in bytes: its forms take many times as much memory.
const PART_BYTES: usize = 4 << 20;
/// How much of it is read again with what follows.
const OVERLAP_BYTES: usize = 256 << 10;

/// The tag characters, which nobody sees and a model reads as ASCII.
const TAGS: std::ops::RangeInclusive<char> = '\u{E0021}'..='\u{E007E}';

/// A phrase to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrase {
    forms: Vec<CanonicalText>,
}

impl Phrase {
    /// `text` as a phrase. `None` with fewer than [`MIN_PHRASE`] letters and digits, in whatever form it is read.
    ///
    /// A phrase that was copied with its escapes or character references is looked for as written and as read. Tags and
    /// links in it are part of it.
    pub fn of(text: &str) -> Option<Self> {
        let plain = CanonicalText::of(text);
        if plain.len() < MIN_PHRASE {
            return None;
        }
        let is_marked_up = text.contains('<') || text.contains("](");
        let shown = Rendering::Shown.of(text).filter(|_| !is_marked_up);
        let others = [shown, decoded(text), bare(text)].into_iter().flatten();
        let mut forms = vec![plain];
        for form in others.filter(|form| form.len() >= MIN_PHRASE) {
            if !forms.iter().any(|known| known.chars() == form.chars()) {
                forms.push(form);
            }
        }
        Some(Self { forms })
    }

    /// The forms of it, each of which finds it. Never empty.
    pub fn forms(&self) -> &[CanonicalText] {
        &self.forms
    }

    /// The bytes of `text` where it stands and reaches over byte `boundary`, in any form of both, up to the first byte
    /// of its last character. Linear in the text.
    pub fn find_across(&self, text: &str, boundary: usize) -> Option<Range<usize>> {
        search_forms(text)
            .find_map(|form| self.forms.iter().find_map(|own| form.find_across(own, boundary)))
    }

    /// Whether `text` holds it, in any form of both. Linear in the text; a long one is read in parts.
    pub fn is_in(&self, text: &str) -> bool {
        parts(text)
            .flat_map(search_forms)
            .any(|form| self.forms.iter().any(|phrase| form.find(phrase).is_some()))
    }
}

/// `text` in parts, each with the end of the one before it, so that a phrase is in one of them.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text.floor_char_boundary(PART_BYTES);
        let next = text.floor_char_boundary(PART_BYTES - OVERLAP_BYTES);
        rest = (end < text.len()).then(|| text.get(next..)).flatten();
        text.get(..end)
    })
}

/// Every form in which `text` is searched, the plain one first; each is made when it is asked for. A form exists only
/// where it may differ from those before it.
pub fn search_forms(text: &str) -> impl Iterator<Item = CanonicalText> + '_ {
    let views = Rendering::ALL.into_iter().filter_map(|view| view.of(text));
    let others = [decoded, bare].into_iter().filter_map(|form: fn(&str) -> _| form(text));
    views.chain(others)
}

/// `text` with what was encoded for transfer decoded: `%41` and `=41`, tag characters, and letters in negative circles
/// and squares.
fn decoded(text: &str) -> Option<CanonicalText> {
    let mut out = CanonicalText::for_text(text);
    let mut differs = false;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        let rest = text.get(at..).unwrap_or_default().as_bytes();
        if let Some((read, length)) = encoded_character(rest) {
            differs = true;
            out.push(read, at);
            // What was read is ASCII: as many bytes as characters.
            chars.by_ref().take(length - 1).for_each(drop);
        } else if let Some(letter) = hidden_letter(c) {
            differs = true;
            out.push(letter, at);
        } else {
            out.push(c, at);
        }
    }
    differs.then_some(out)
}

/// The character that `%XX` or `=XX` at the start of `bytes` begins, and the length of its encoding. Several such bytes
/// are one character in UTF-8; what is none is read as Latin-1.
fn encoded_character(bytes: &[u8]) -> Option<(char, usize)> {
    let mark = *bytes.first().filter(|mark| matches!(mark, b'%' | b'='))?;
    let first = encoded_byte(bytes, mark)?;
    let count = match first {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => return Some((char::from(first), 3)),
    };
    let all: Option<Vec<u8>> =
        bytes.chunks(3).take(count).map(|encoded| encoded_byte(encoded, mark)).collect();
    let all = all.filter(|all| all.len() == count);
    let read = all.as_deref().and_then(|all| std::str::from_utf8(all).ok());
    match read.and_then(|read| read.chars().next()) {
        Some(read) => Some((read, 3 * count)),
        None => Some((char::from(first), 3)),
    }
}

fn encoded_byte(bytes: &[u8], mark: u8) -> Option<u8> {
    let [found, high, low, ..] = *bytes else { return None };
    let is_encoded = found == mark && high.is_ascii_hexdigit() && low.is_ascii_hexdigit();
    let digits = [high, low];
    let digits = std::str::from_utf8(&digits).ok().filter(|_| is_encoded)?;
    u8::from_str_radix(digits, 16).ok()
}

/// The letter that a tag character or a letter in a negative circle or square stands for.
fn hidden_letter(c: char) -> Option<char> {
    if TAGS.contains(&c) {
        return char::from_u32(u32::from(c) - 0xE0000);
    }
    let first = match c {
        '\u{1F150}'..='\u{1F169}' => 0x1F150,
        '\u{1F170}'..='\u{1F189}' => 0x1F170,
        '\u{1F1E6}'..='\u{1F1FF}' => 0x1F1E6,
        _ => return None,
    };
    char::from_u32(u32::from('a') + u32::from(c) - first)
}

/// `text` in lower case before it is folded, for Greek, whose cases fold differently; and without the vowel signs of
/// other scripts that stand on letters of none of these.
fn bare(text: &str) -> Option<CanonicalText> {
    let mut out = CanonicalText::for_text(text);
    let mut differs = false;
    let mut is_after_indic = false;
    for (at, c) in text.char_indices() {
        let is_vowel_sign = crate::fold::is_vowel_sign(c);
        if is_vowel_sign && !is_after_indic {
            differs = true;
            continue;
        }
        if c.is_alphabetic() && !is_vowel_sign {
            is_after_indic = crate::fold::has_vowel_signs(c);
        }
        if matches!(c, '\u{370}'..='\u{3FF}' | '\u{1F00}'..='\u{1FFF}') && c.is_uppercase() {
            differs = true;
            c.to_lowercase().for_each(|lower| out.push(lower, at));
        } else {
            out.push(c, at);
        }
    }
    differs.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phrase_is_found_in_every_spelling_of_it() {
        let phrase = Phrase::of("Send the café's report to Zoë, now").unwrap();
        let spellings = [
            ("case", "SEND THE CAFÉ'S REPORT TO ZOË, NOW"),
            ("blanks", "Send\tthe  café's\u{a0}report to Zoë,\r\nnow"),
            ("full width", "Ｓｅｎｄ ｔｈｅ café's ｒｅｐｏｒｔ to Zoë, now"),
            ("decomposed", "Send the cafe\u{301}'s report to Zoe\u{308}, now"),
            ("stacked marks", "S\u{336}e\u{336}n\u{336}d\u{336} the café's report to Zoë, now"),
            ("marks of other scripts", "Se\u{947}nd the\u{e47} café's report to Zoë, now"),
            ("zero width", "Se\u{200b}nd the café's re\u{2060}port to Zoë, now"),
            ("soft hyphen", "Send the café's re\u{ad}port to Zoë, now"),
            ("look-alikes", "S\u{435}nd th\u{435} caf\u{e9}'s r\u{435}p\u{43e}rt to Zoë, now"),
            ("mathematical", "𝐒𝐞𝐧𝐝 the café's 𝓇ℯ𝓅ℴ𝓇𝓉 to Zoë, now"),
            ("circled", "Ⓢⓔⓝⓓ the café's 🅡🅔🅟🅞🅡🅣 to 🆉oë, now"),
            ("hyphenated", "Send the café's re-\nport to Zoë, now"),
            ("quoted", "> Send the café's\n> report to Zoë, now"),
            ("spaced", "S e n d  t h e  c a f é ' s  r e p o r t  t o  Z o ë , n o w"),
            ("emphasis", "**Send** the _café's_ report to Zoë; now"),
            ("JSON", r#"{"t":"Send the caf\u00e9's\nreport to Zo\u00eb, now"}"#),
            ("JSON in JSON", r#"{"t":"{\"t\":\"Send the caf\\u00e9's\\nreport to Zoë, now\"}"}"#),
            ("HTML", "<p>Send&nbsp;the caf&eacute;&#39;s <b>rep</b>ort to Zo&#xEB;, now</p>"),
            ("numbered", "1. Send the café's\n2. report to Zoë, now"),
            ("percent", "q=Send%20the%20caf%C3%A9%27s+report%20to%20Zo%c3%ab%2C%20now"),
            ("quoted-printable", "Send the caf=C3=A9's rep=\nort to Zo=EB, now"),
            ("tags", "\u{E0053}\u{E0065}\u{E006E}\u{E0064} the café's report to Zoë, now"),
        ];
        for (what, text) in spellings {
            assert!(phrase.is_in(text), "{what}: {text}");
            let found = Phrase::of(text).is_some_and(|phrase| phrase.is_in(text));
            assert!(found, "{what}: a text holds itself");
        }
        for other in [
            "Send the café's reports to Zoë, now",
            "Send the cafe report to Zoe, now",
            "Send the 0afé's report to Zoë, now",
            "",
        ] {
            assert!(!phrase.is_in(other), "{other}");
        }
    }

    #[test]
    fn a_phrase_copied_with_its_escapes_finds_what_it_says() {
        let text = "Pay the café today";
        for phrase in
            [r"pay the caf\u00e9 today", "Pay&nbsp;the caf&eacute; today", "caf%C3%A9 today"]
        {
            assert!(Phrase::of(phrase).unwrap().is_in(text), "{phrase}");
        }
        let link = Phrase::of("<a href=\"https://evil.example/pay\">the</a>").unwrap();
        assert!(!link.is_in(text) && link.is_in("see <a href='https://evil.example/pay'>the</a>"));
    }

    #[test]
    fn greek_is_found_in_any_case() {
        let phrase = Phrase::of("Πλήρωσε τον λογαριασμό").unwrap();
        for text in ["πλήρωσε τον λογαριασμό", "ΠΛΗΡΩΣΕ ΤΟΝ ΛΟΓΑΡΙΑΣΜΟ", "πληρωσε Τον Λογαριασμο"]
        {
            assert!(phrase.is_in(text), "{text}");
        }
        assert!(!phrase.is_in("πλήρωσε τον Γιώργο"));
    }

    #[test]
    fn words_of_scripts_with_vowel_signs_are_told_apart() {
        let phrase = Phrase::of("\u{915}\u{93f}\u{924}\u{93e}\u{92c}").unwrap();
        assert!(phrase.is_in("\u{92f}\u{939} \u{915}\u{93f}\u{924}\u{93e}\u{92c}"));
        assert!(!phrase.is_in("\u{915}\u{924}\u{92c}"));
    }

    #[test]
    fn a_phrase_over_a_boundary_is_told_from_one_beside_it() {
        let phrase = Phrase::of("pay now").unwrap();
        let text = "pay now. P\u{430}y n\u{ad}ow! paynow";
        let second = text.find('P').unwrap();
        let found = phrase.find_across(text, second + 3).unwrap();
        assert!(text[found].starts_with("P\u{430}y n\u{ad}ow"));
        assert_eq!(phrase.find_across(text, second), None);
        assert_eq!(phrase.find_across("<b>pay</b> now", 9).map(|found| found.start), Some(3));
        assert_eq!(Phrase::of("aba").unwrap().find_across("ababa", 3), Some(2..5));
    }

    #[test]
    fn a_long_text_is_read_in_parts_and_no_phrase_falls_between_them() {
        let phrase = Phrase::of("pay the invoice").unwrap();
        for before in [0, 14] {
            let text =
                format!("{}P\u{430}y the invoice\u{fb01}", "é ".repeat((PART_BYTES - before) / 3));
            assert!(phrase.is_in(&text), "{before}");
            assert!(parts(&text).all(|part| part.len() <= PART_BYTES));
            assert!(!phrase.is_in(&text.replace("invoice", "voice")));
        }
    }

    #[test]
    fn too_few_letters_are_no_phrase() {
        for text in ["", "C++", "#12", "—", "\u{200b}\u{200b}\u{200b}", "日本", "&lt;b"] {
            assert_eq!(Phrase::of(text).is_some(), text == "&lt;b", "{text:?}");
        }
    }
}
