//! Folds a text in one pass: case, compatibility forms, marks, white space, invisible characters.

use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::{decompose_canonical, is_combining_mark};

use super::hidden::{HiddenCharacters, InvisibleKind, invisible_kind};
use super::offsets::Offsets;
use crate::blocks::{BLOCK, bits, block_at};

/// The result of the pass.
pub(super) struct FoldedText {
    pub(super) text: String,
    pub(super) offsets: Offsets,
    pub(super) hidden: HiddenCharacters,
    /// Whether the text contains non-ASCII letters below U+2E80, which may be look-alikes.
    pub(super) has_foreign_letters: bool,
}

const SPACE: u8 = 1;
const LETTER: u8 = 2;

fn class(byte: u8) -> u8 {
    match byte {
        b' ' | b'\n' => SPACE,
        b'a'..=b'z' | b'A'..=b'Z' => LETTER,
        _ => 0,
    }
}

/// Latin letters of two bytes, U+00C0 to U+017F, folded: the letters of European prose.
static LATIN: LazyLock<Vec<String>> = LazyLock::new(|| {
    ('\u{c0}'..='\u{17f}')
        .map(|letter| {
            let mut folded = String::new();
            fold_char(letter, &mut folded);
            folded
        })
        .collect()
});

fn latin(letter: char) -> Option<&'static str> {
    let index = usize::try_from(u32::from(letter).checked_sub(0xc0)?).ok()?;
    LATIN.get(index).map(String::as_str)
}

/// The most marks that are normalised together with their letter. No writing system uses more, and the bound keeps
/// sorting linear.
const CLUSTER: usize = 32;
/// The number of marks from which a stack hides its letter.
const STACK: usize = 4;

/// Folds `text`. Work and output are linear in its length.
pub(super) fn fold(text: &str) -> FoldedText {
    let mut pass = Pass {
        text,
        at: 0,
        previous: 0,
        out: FoldedText {
            text: String::with_capacity(text.len() + text.len() / 16),
            offsets: Offsets::default(),
            hidden: HiddenCharacters::default(),
            has_foreign_letters: false,
        },
    };
    while pass.at < text.len() {
        match pass.peek() {
            // A space after a space takes the slow path.
            Some(next)
                if (' '..'\x7f').contains(&next) && (next != ' ' || pass.previous != SPACE) =>
            {
                pass.copy_plain_ascii();
            }
            Some(next) => pass.fold_next(next),
            None => break,
        }
    }
    pass.out
}

struct Pass<'t> {
    text: &'t str,
    at: usize,
    /// The class of the last byte of the output.
    previous: u8,
    out: FoldedText,
}

impl Pass<'_> {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at..).and_then(|rest| rest.chars().next())
    }

    /// Copies ASCII text in lower case, up to the next byte that needs more.
    fn copy_plain_ascii(&mut self) {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut after_space = u64::from(self.previous & SPACE != 0);
        loop {
            let block = block_at(bytes, self.at);
            let spaces = bits(&block, |byte| (byte == b' ') | (byte == b'\n'));
            let slow = bits(&block, |byte| ((byte < b' ') & (byte != b'\n')) | (byte >= 0x7f));
            let stop = slow | (spaces & (spaces << 1 | after_space));
            if stop != 0 {
                self.at += usize::try_from(stop.trailing_zeros()).unwrap_or(0);
                break;
            }
            after_space = spaces >> (BLOCK - 1);
            self.at += BLOCK;
        }
        // The padding after the end stops the loop, as zero bytes in the text do.
        self.at = self.at.min(self.text.len());
        if self.at == start {
            return;
        }
        let from = self.out.text.len();
        self.out.text.push_str(&self.text[start..self.at]);
        self.out.text[from..].make_ascii_lowercase();
        self.out.offsets.copy(start, self.at - start);
        self.previous = bytes.get(self.at - 1).map_or(0, |last| class(*last));
    }

    fn fold_next(&mut self, next: char) {
        let known = match next {
            '\u{c0}'..='\u{17f}' => latin(next),
            '\u{2010}'..='\u{2015}' | '\u{2018}'..='\u{201f}' | '«' | '»' => {
                spelled_in_ascii(next)
            }
            _ => None,
        };
        if let Some(folded) = known.filter(|_| !self.mark_follows(next)) {
            return self.fold_known(next, folded);
        }
        if is_space(next) {
            self.fold_space(next);
        } else if let Some(kind) = invisible_kind(next) {
            self.fold_invisible(next, kind);
        } else {
            self.fold_cluster();
        }
    }

    /// The fast path for the letters and signs of European prose.
    fn fold_known(&mut self, next: char, folded: &str) {
        let span = self.at..self.at + next.len_utf8();
        self.at = span.end;
        self.out.text.push_str(folded);
        self.out.offsets.replace(folded.len(), span);
        self.previous = folded.bytes().next_back().map_or(0, class);
    }

    /// Whether a mark may follow `next`; true in doubt.
    fn mark_follows(&self, next: char) -> bool {
        self.text.as_bytes().get(self.at + next.len_utf8()).is_some_and(|byte| *byte >= 0xcc)
    }

    /// Replaces a run of white space by one space, or by one line end if it contains one.
    fn fold_space(&mut self, next: char) {
        let is_line_end = matches!(next, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}');
        let span = self.at..self.at + next.len_utf8();
        self.at = span.end;
        if self.previous & SPACE == 0 {
            self.out.text.push(if is_line_end { '\n' } else { ' ' });
            self.out.offsets.replace(1, span);
            self.previous = SPACE;
        } else if is_line_end {
            self.out.text.pop();
            self.out.text.push('\n');
        }
    }

    /// Removes a run of invisible characters and records them.
    fn fold_invisible(&mut self, first: char, kind: InvisibleKind) {
        let start = self.at;
        let in_flag = self.text[..start].ends_with('\u{1f3f4}');
        let (mut next, mut zero_width, mut selectors) = (Some((first, kind)), 0, Vec::new());
        while let Some((character, kind)) = next {
            let span = self.at..self.at + character.len_utf8();
            self.at = span.end;
            match kind {
                InvisibleKind::ZeroWidth => zero_width += 1,
                InvisibleKind::Override => self.out.hidden.overrides.record(span),
                InvisibleKind::Tag(Some(ascii)) if !in_flag => {
                    self.out.hidden.tags.push(ascii, span);
                }
                InvisibleKind::Selector(byte) => selectors.push((byte, span)),
                InvisibleKind::Tag(_) | InvisibleKind::Layout | InvisibleKind::Control => {}
            }
            next = self.peek().and_then(|found| invisible_kind(found).map(|kind| (found, kind)));
        }
        // One selector modifies the character before it; several are a message.
        if selectors.len() > 1 {
            for (byte, span) in selectors {
                self.out.hidden.selectors.push(char::from(byte), span);
            }
        }
        let letter_follows = self.peek().is_some_and(|next| next.is_ascii_alphabetic());
        if zero_width > 0 && self.previous == LETTER && letter_follows {
            self.out.hidden.inside_words.record(start..self.at);
        }
        if zero_width >= super::hidden::LONG_RUN {
            self.out.hidden.long_runs.record(start..self.at);
        }
    }

    /// Folds a character and its marks.
    fn fold_cluster(&mut self) {
        let start = self.at;
        let rest = &self.text[start..];
        let mut marks = 0;
        let len = rest
            .char_indices()
            .skip(1)
            .take(CLUSTER)
            .find(|(_, next)| {
                let joins = is_combining_mark(*next) || joins_before(*next);
                marks += usize::from(joins);
                !joins
            })
            .map_or_else(|| first_chars(rest, CLUSTER + 1), |(position, _)| position);
        self.at += len;
        let from = self.out.text.len();
        for character in rest[..len].nfkc() {
            fold_char(character, &mut self.out.text);
        }
        let span = start..self.at;
        let view_len = self.out.text.len() - from;
        let folded = &self.out.text[from..];
        let letter = folded.bytes().next_back().unwrap_or(b'.');
        self.previous = if folded.is_empty() { self.previous } else { class(letter) };
        self.out.has_foreign_letters |= folded
            .chars()
            .any(|letter| ('\u{250}'..'\u{2e80}').contains(&letter) && letter.is_alphabetic());
        if marks >= STACK && folded.is_ascii() {
            self.out.hidden.stacked_marks.record(span.clone());
        }
        self.out.offsets.replace(view_len, span);
    }
}

/// The length of the first `count` characters of `text`, in bytes.
fn first_chars(text: &str, count: usize) -> usize {
    text.char_indices().nth(count).map_or(text.len(), |(position, _)| position)
}

/// Whether a character is a jamo that composes with the syllable before it.
fn joins_before(next: char) -> bool {
    matches!(next, '\u{1161}'..='\u{1175}' | '\u{11a8}'..='\u{11c2}')
}

fn is_space(character: char) -> bool {
    // The blank Braille pattern looks like a space and is not white space in Unicode.
    character.is_whitespace() || matches!(character, '\u{2800}')
}

/// Appends one character in compatibility form: in lower case, Latin letters without marks, typographic signs as ASCII.
pub(super) fn fold_char(character: char, out: &mut String) {
    for lower in character.to_lowercase() {
        let base_is_latin =
            out.bytes().next_back().is_some_and(|last| last.is_ascii_alphanumeric());
        if is_combining_mark(lower) {
            if !base_is_latin {
                out.push(lower);
            }
            continue;
        }
        match spelled_in_ascii(lower) {
            Some(ascii) => out.push_str(ascii),
            None => out.push(unmarked(lower).unwrap_or(lower)),
        }
    }
}

/// The ASCII base letter of a Latin letter with marks.
fn unmarked(letter: char) -> Option<char> {
    let mut base = None;
    decompose_canonical(letter, |part| {
        base.get_or_insert(part);
    });
    base.filter(char::is_ascii)
}

/// The ASCII form of letters and signs that Unicode does not decompose.
fn spelled_in_ascii(character: char) -> Option<&'static str> {
    Some(match character {
        'ß' => "ss",
        'æ' => "ae",
        'œ' => "oe",
        'ø' => "o",
        'đ' | 'ð' => "d",
        'ħ' => "h",
        'ı' => "i",
        'ĸ' => "k",
        'ł' | 'ƚ' => "l",
        'ŋ' => "n",
        'ŧ' => "t",
        'þ' => "th",
        '\u{2010}'..='\u{2015}' | '\u{2212}' => "-",
        '\u{2018}'..='\u{201b}' | '\u{2032}' => "'",
        '\u{201c}'..='\u{201f}' | '\u{2033}' | '«' | '»' => "\"",
        '\u{1f150}'..='\u{1f169}' => circled(character, 0x1f150),
        '\u{1f170}'..='\u{1f189}' => circled(character, 0x1f170),
        _ => return None,
    })
}

/// The letter in a dark circle or square; `first` is the first character of its block.
fn circled(character: char, first: u32) -> &'static str {
    const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";
    let index = usize::try_from(u32::from(character).saturating_sub(first)).unwrap_or(usize::MAX);
    LETTERS.get(index..index.saturating_add(1)).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::fold;

    #[test]
    fn forms_of_a_letter_fold_to_the_letter() {
        let cases = [
            ("IGNORE all\tPrevious\r\n  lines", "ignore all previous\nlines"),
            ("\u{ff29}\u{ff47}\u{ff4e}\u{ff4f}\u{ff52}\u{ff45}", "ignore"),
            ("𝐈𝐠𝐧𝐨𝐫𝐞 𝓪𝓵𝓵", "ignore all"),
            ("ⓘⓖⓝⓞⓡⓔ 🅐", "ignore a"),
            ("Größe über Straße", "grosse uber strasse"),
            ("i\u{308}gn\u{303}\u{304}\u{305}\u{306}ore", "ignore"),
            ("ig\u{200b}no\u{ad}re \u{202e}x", "ignore x"),
            ("don\u{2019}t \u{201c}say\u{201d}", "don't \"say\""),
            ("a\u{a0}\u{3000}b\u{2028}c", "a b\nc"),
            ("ig\0no\u{8}re", "ignore"),
            ("забудьте Ёлка", "забудьте ёлка"),
            ("ﬁle ½", "file 1\u{2044}2"),
        ];
        for (text, expected) in cases {
            assert_eq!(fold(text).text, expected, "{text:?}");
        }
    }
}
