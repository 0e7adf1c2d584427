//! Characters that no reader sees: which ones stood there, and what they say.
//!
//! Most of them are innocent (an emoji joiner, a soft hyphen, Persian and Hebrew marks, the filler
//! of an e-mail's preview line), so kind, place and number decide what is worth a finding.

use std::ops::Range;

use super::offsets::Offsets;
use crate::finding::{Finding, Severity, View};

/// From this many on, characters of a kind are no accident.
const MANY: usize = 3;
/// A run of this many zero-width characters carries a message rather than a join.
pub(super) const LONG_RUN: usize = 16;
/// The shortest message worth a finding, in characters.
const MESSAGE: usize = 4;

/// What was seen of one kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    count: usize,
    span: Range<usize>,
}

impl Tally {
    /// One more at `span`; spans come in ascending order.
    pub(super) fn note(&mut self, span: Range<usize>) {
        if self.count == 0 {
            self.span = span;
        } else {
            self.span.end = span.end;
        }
        self.count += 1;
    }
}

/// A text that was written in invisible characters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Message {
    /// The text; not yet normalised itself.
    pub(crate) text: String,
    /// Where each of its characters stood.
    pub(crate) offsets: Offsets,
    /// Which bytes of the original its characters span.
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

    fn is_worth_a_finding(&self) -> bool {
        self.text.chars().filter(|character| character.is_alphanumeric()).nth(MESSAGE - 1).is_some()
    }
}

/// The invisible and misleading characters of one text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hidden {
    /// Written in Unicode tag characters, outside flags.
    pub(crate) tags: Message,
    /// Written in runs of variation selectors, one byte each.
    pub(crate) selectors: Message,
    /// Zero-width characters between two Latin letters.
    pub(super) inside_words: Tally,
    /// Long runs of nothing but zero-width characters.
    pub(super) long_runs: Tally,
    /// Characters that force a reading direction.
    pub(super) overrides: Tally,
    /// Latin letters with a stack of marks.
    pub(super) stacked_marks: Tally,
    /// Words that mix Latin letters with their look-alikes of another script.
    pub(super) mixed_words: Tally,
}

impl Hidden {
    /// What is suspicious about them.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let messages = [(TAG_CHARACTERS, &self.tags), (VARIATION_SELECTORS, &self.selectors)];
        let tallies = [
            (ZERO_WIDTH_RUN, &self.long_runs, 1),
            (ZERO_WIDTH_IN_WORDS, &self.inside_words, MANY),
            (DIRECTION_OVERRIDE, &self.overrides, 1),
            (STACKED_MARKS, &self.stacked_marks, MANY),
            (MIXED_SCRIPTS, &self.mixed_words, 2),
        ];
        let said = messages
            .into_iter()
            .filter(|(_, message)| message.is_worth_a_finding())
            .map(|(sign, message)| sign.finding(&message.span));
        let seen = tallies
            .into_iter()
            .filter(|(_, tally, at_least)| tally.count >= *at_least)
            .map(|(sign, tally, _)| sign.finding(&tally.span));
        said.chain(seen).collect()
    }
}

/// What is reported of one kind of hidden characters.
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
    fn finding(&self, span: &Range<usize>) -> Finding {
        Finding {
            rule: self.rule.to_owned(),
            family: "hidden_text".to_owned(),
            severity: self.severity,
            confidence: self.confidence,
            span: span.clone(),
            view: View::Hidden,
            explanation: self.explanation.to_owned(),
        }
    }
}

/// What an invisible character is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Invisible {
    /// Joins, separates or fills without width.
    ZeroWidth,
    /// Forces a direction (`LRO`, `RLO`).
    Override,
    /// Breaks a word at the line end, marks a direction, opens or closes an isolate.
    Layout,
    /// A tag character; the ASCII character it stands for, if any.
    Tag(Option<char>),
    /// A variation selector and the byte it can stand for.
    Selector(u8),
    /// A control character that is not white space.
    Control,
}

/// What `character` is for, if nobody sees it.
pub(super) fn invisible(character: char) -> Option<Invisible> {
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
        | '\u{ffa0}' => Some(Invisible::ZeroWidth),
        '\u{202d}' | '\u{202e}' => Some(Invisible::Override),
        '\u{ad}'
        | '\u{61c}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{202a}'..='\u{202c}'
        | '\u{2066}'..='\u{206f}'
        | '\u{fff9}'..='\u{fffb}' => Some(Invisible::Layout),
        '\u{180b}'..='\u{180d}' => Some(Invisible::Layout),
        '\u{fe00}'..='\u{fe0f}' => Some(Invisible::Selector(offset_in_block(character, 0xfe00))),
        '\u{e0100}'..='\u{e01ef}' => {
            Some(Invisible::Selector(offset_in_block(character, 0xe0100).saturating_add(16)))
        }
        '\u{e0000}'..='\u{e007f}' => {
            let stands_for = char::from(offset_in_block(character, 0xe0000));
            Some(Invisible::Tag(Some(stands_for).filter(|ascii| !ascii.is_control())))
        }
        _ if character.is_control() => Some(Invisible::Control),
        _ => None,
    }
}

fn offset_in_block(character: char, block: u32) -> u8 {
    u8::try_from(u32::from(character).saturating_sub(block)).unwrap_or(u8::MAX)
}
