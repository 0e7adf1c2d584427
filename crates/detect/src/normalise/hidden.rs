//! Invisible and misleading characters, and the messages they encode.
//!
//! Most invisible characters are legitimate (emoji joiners, soft hyphens, Persian and Hebrew marks, the filler of an
//! e-mail preview), so kind, position and number decide what is reported.

use std::ops::Range;

use super::offsets::Offsets;
use crate::finding::{DetectorFinding, Severity, TextView};

/// The number of occurrences from which characters of some kinds are reported.
const MANY: usize = 3;
/// The length from which a run of zero-width characters may carry a message.
pub(super) const LONG_RUN: usize = 16;
/// The shortest message that is reported, in letters and digits.
const MESSAGE: usize = 4;

/// The occurrences of one kind of characters.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    count: usize,
    span: Range<usize>,
}

impl Tally {
    /// Records an occurrence at `span`; spans are ascending.
    pub(super) fn record(&mut self, span: Range<usize>) {
        if self.count == 0 {
            self.span = span;
        } else {
            self.span.end = span.end;
        }
        self.count += 1;
    }
}

/// A text encoded in invisible characters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Message {
    /// The decoded text, which is not normalised.
    pub(crate) text: String,
    /// The map from the text to the original.
    pub(crate) offsets: Offsets,
    /// The bytes of the original that its characters span.
    pub(crate) span: Range<usize>,
}

impl Message {
    pub(super) fn push(&mut self, character: char, span: Range<usize>) {
        if self.text.is_empty() {
            self.span = span.clone();
        } else {
            self.span.end = span.end;
        }
        self.text.push(character);
        self.offsets.replace(character.len_utf8(), span);
    }

    fn is_reported(&self) -> bool {
        self.text.chars().filter(|character| character.is_alphanumeric()).nth(MESSAGE - 1).is_some()
    }
}

/// The invisible and misleading characters of one text.
#[derive(Debug, Clone, Default)]
pub(crate) struct HiddenCharacters {
    /// The message in Unicode tag characters outside flags.
    pub(crate) tags: Message,
    /// The message in runs of variation selectors, one byte each.
    pub(crate) selectors: Message,
    /// Zero-width characters between two Latin letters.
    pub(super) inside_words: Tally,
    /// Long runs of nothing but zero-width characters.
    pub(super) long_runs: Tally,
    /// Characters that force a reading direction.
    pub(super) overrides: Tally,
    /// Latin letters with stacked marks.
    pub(super) stacked_marks: Tally,
    /// Words that mix Latin letters with look-alikes of another script.
    pub(super) mixed_words: Tally,
}

impl HiddenCharacters {
    /// The findings about these characters.
    pub(crate) fn findings(&self) -> Vec<DetectorFinding> {
        let messages = [(TAG_CHARACTERS, &self.tags), (VARIATION_SELECTORS, &self.selectors)];
        let tallies = [
            (ZERO_WIDTH_RUN, &self.long_runs, 1),
            (ZERO_WIDTH_IN_WORDS, &self.inside_words, MANY),
            (DIRECTION_OVERRIDE, &self.overrides, 1),
            (STACKED_MARKS, &self.stacked_marks, MANY),
            (MIXED_SCRIPTS, &self.mixed_words, 2),
        ];
        let of_messages = messages
            .into_iter()
            .filter(|(_, message)| message.is_reported())
            .map(|(sign, message)| sign.finding(&message.span));
        let of_tallies = tallies
            .into_iter()
            .filter(|(_, tally, at_least)| tally.count >= *at_least)
            .map(|(sign, tally, _)| sign.finding(&tally.span));
        of_messages.chain(of_tallies).collect()
    }
}

/// The description of a finding about one kind of characters.
struct Sign {
    rule: &'static str,
    severity: Severity,
    confidence: f64,
    explanation: &'static str,
}

const TAG_CHARACTERS: Sign = Sign {
    rule: "hidden.tag_characters",
    severity: Severity::High,
    confidence: 0.9,
    explanation: "text written in invisible Unicode tag characters",
};
const VARIATION_SELECTORS: Sign = Sign {
    rule: "hidden.variation_selectors",
    severity: Severity::High,
    confidence: 0.9,
    explanation: "bytes written in invisible variation selectors",
};
const ZERO_WIDTH_RUN: Sign = Sign {
    rule: "hidden.zero_width_run",
    severity: Severity::High,
    confidence: 0.6,
    explanation: "a long run of zero-width characters, which can carry a message",
};
const ZERO_WIDTH_IN_WORDS: Sign = Sign {
    rule: "hidden.zero_width_in_words",
    severity: Severity::Medium,
    confidence: 0.4,
    explanation: "zero-width characters inside words, which hide them from filters",
};
const DIRECTION_OVERRIDE: Sign = Sign {
    rule: "hidden.direction_override",
    severity: Severity::Medium,
    confidence: 0.4,
    explanation: "characters that make text read in another direction than it is stored",
};
const STACKED_MARKS: Sign = Sign {
    rule: "hidden.stacked_marks",
    severity: Severity::Low,
    confidence: 0.2,
    explanation: "letters under stacks of marks, which hide them from filters",
};
const MIXED_SCRIPTS: Sign = Sign {
    rule: "hidden.mixed_scripts",
    severity: Severity::Medium,
    confidence: 0.3,
    explanation: "words that mix letters of two scripts which look the same",
};

impl Sign {
    fn finding(&self, span: &Range<usize>) -> DetectorFinding {
        DetectorFinding {
            rule: self.rule.to_owned(),
            family: "hidden_text".to_owned(),
            severity: self.severity,
            confidence: self.confidence,
            span: span.clone(),
            view: TextView::Hidden,
            explanation: self.explanation.to_owned(),
        }
    }
}

/// The kinds of invisible characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InvisibleKind {
    /// Joins, separates or fills without width.
    ZeroWidth,
    /// Forces a direction (`LRO`, `RLO`).
    Override,
    /// Breaks a word at the line end, marks a direction, opens or closes an isolate.
    Layout,
    /// A tag character, with the ASCII character that it encodes, if any.
    Tag(Option<char>),
    /// A variation selector, with the byte that it can encode.
    Selector(u8),
    /// A control character that is not white space.
    Control,
}

/// The kind of `character` if it is invisible.
pub(super) fn invisible_kind(character: char) -> Option<InvisibleKind> {
    match character {
        '\t' | '\n' | '\u{b}' | '\u{c}' | '\r' | '\u{85}' => None,
        '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{2064}'
        | '\u{feff}'
        | '\u{34f}'
        | '\u{180e}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{3164}'
        | '\u{ffa0}' => Some(InvisibleKind::ZeroWidth),
        '\u{202d}' | '\u{202e}' => Some(InvisibleKind::Override),
        '\u{ad}'
        | '\u{61c}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{202a}'..='\u{202c}'
        | '\u{2066}'..='\u{206f}'
        | '\u{fff9}'..='\u{fffb}' => Some(InvisibleKind::Layout),
        '\u{180b}'..='\u{180d}' => Some(InvisibleKind::Layout),
        '\u{fe00}'..='\u{fe0f}' => {
            Some(InvisibleKind::Selector(offset_in_block(character, 0xfe00)))
        }
        '\u{e0100}'..='\u{e01ef}' => {
            Some(InvisibleKind::Selector(offset_in_block(character, 0xe0100).saturating_add(16)))
        }
        '\u{e0000}'..='\u{e007f}' => {
            let stands_for = char::from(offset_in_block(character, 0xe0000));
            Some(InvisibleKind::Tag(Some(stands_for).filter(|ascii| !ascii.is_control())))
        }
        _ if character.is_control() => Some(InvisibleKind::Control),
        _ => None,
    }
}

fn offset_in_block(character: char, block: u32) -> u8 {
    u8::try_from(u32::from(character).saturating_sub(block)).unwrap_or(u8::MAX)
}
