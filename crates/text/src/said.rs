//! What a person said with a text: which parts are their own words, which they quoted, and which they ruled out.

use std::ops::Range;

use crate::asked::{AskedSentence, asked};
use crate::bound;
use crate::delimit;
use crate::destination;
use crate::negation::negated;
use crate::quotation::quotations;
use crate::quoting::own_words;
use crate::sentence::sentences;
use crate::vocabulary::is_understood;

/// A text that a person wrote, read for what it says and rules out.
///
/// Every answer errs on the side of *not said*.
#[derive(Debug, Clone)]
pub struct Said {
    text: String,
    own: Vec<Range<usize>>,
    quotations: Vec<Range<usize>>,
    negated: Vec<Range<usize>>,
    sentences: Vec<Range<usize>>,
    foreign: Vec<Range<usize>>,
    /// What each sentence asks.
    asked: Vec<AskedSentence>,
}

impl Said {
    /// Reads `text`. Linear in its length.
    pub fn of(text: &str) -> Self {
        let (own, quotations) = (own_words(text), quotations(text));
        let negated = negated(text, |at| holds(&own, at) && !overlaps(&quotations, at));
        let sentences = sentences(text);
        let foreign = sentences.iter().filter(|at| !is_understood(text, (*at).clone()));
        let foreign = foreign.cloned().collect();
        let asked = asked(text, &sentences);
        Self { text: text.to_owned(), own, quotations, negated, sentences, foreign, asked }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the bytes `at` are the writer's: typed by themselves, in no quotation of which they are only a part. The
    /// sign that ends a sentence may stand in a quotation beside them.
    pub fn is_own(&self, at: &Range<usize>) -> bool {
        holds(&self.own, at)
            && overlapping(&self.quotations, at).all(|quotation| {
                self.is_quotation(quotation, at)
                    || (at.start < quotation.start && quotation.end < at.end)
            })
    }

    /// Whether the bytes `at` stand in the scope of a negation.
    pub fn is_negated(&self, at: &Range<usize>) -> bool {
        overlaps(&self.negated, at)
    }

    /// Whether the bytes `at` stand in a sentence whose negations would be recognised: in English or German.
    pub fn is_understood(&self, at: &Range<usize>) -> bool {
        !overlaps(&self.foreign, at)
    }

    /// Whether the bytes `at` are an amount that their sentence asks for, and no bound of one, in English or German.
    pub fn is_asked_amount(&self, at: &Range<usize>) -> bool {
        self.is_understood(at)
            && overlapping(&self.sentences, at)
                .all(|sentence| bound::is_asked_amount(&self.text, sentence.clone(), at))
    }

    /// Whether the bytes `at` stand in a sentence that only asks to be told something, nothing is sent there, and no
    /// later sentence of this text asks for something to be done with what they name. To send it is something if it
    /// `can_be_sent`.
    pub fn is_only_asked_about(&self, at: &Range<usize>, can_be_sent: bool) -> bool {
        let first = self.sentences.partition_point(|sentence| sentence.end <= at.start);
        let count = overlapping(&self.sentences, at).count();
        let mut sentences = self.asked.iter().skip(first).take(count);
        let is_only = sentences.any(|asked| asked.is_only_asked_about(at, can_be_sent));
        is_only && !self.is_destination(at)
    }

    /// Whether the name at `at` is where the text asks something to be sent, in English or German, and not only
    /// somebody whom it speaks of.
    pub fn is_destination(&self, at: &Range<usize>) -> bool {
        let first = self.sentences.partition_point(|sentence| sentence.end <= at.start);
        let (before, rest) = self.sentences.split_at(first);
        let sentence = rest.first().filter(|sentence| at.end <= sentence.end);
        sentence.is_some_and(|sentence| {
            self.is_understood(at) && destination::is_destination(&self.text, sentence, at, before)
        })
    }

    /// Whether the path at `at` is written to its end and from its beginning.
    pub fn is_whole_path(&self, at: &Range<usize>) -> bool {
        self.is_quoted_whole(at) || delimit::is_whole_path(&self.text, at)
    }

    /// Whether the command at `at` is written to its end and from its beginning.
    pub fn is_whole_command(&self, at: &Range<usize>) -> bool {
        match self.is_quoted_whole(at) {
            true => delimit::is_whole_quoted_command(&self.text, at),
            false => delimit::is_whole_command(&self.text, at),
        }
    }

    fn is_quoted_whole(&self, at: &Range<usize>) -> bool {
        overlapping(&self.quotations, at).any(|quotation| self.is_quotation(quotation, at))
    }

    /// Whether `at` is all that a quotation holds, but for blanks and the sign that ends a sentence.
    fn is_quotation(&self, quotation: &Range<usize>, at: &Range<usize>) -> bool {
        let is_within = quotation.start <= at.start && at.end <= quotation.end;
        let before = self.text.get(quotation.start..at.start).unwrap_or("-");
        let after = self.text.get(at.end..quotation.end).unwrap_or("-");
        let is_sign = |c: char| c.is_whitespace() || matches!(c, '.' | ',' | '!' | '?' | ';' | ':');
        is_within && before.trim().is_empty() && after.chars().all(is_sign)
    }
}

/// Those of `ranges`, which are ascending, that have a byte in common with `at`.
fn overlapping<'a>(
    ranges: &'a [Range<usize>],
    at: &Range<usize>,
) -> impl Iterator<Item = &'a Range<usize>> {
    let first = ranges.partition_point(|range| range.end <= at.start);
    let end = at.end;
    ranges.iter().skip(first).take_while(move |range| range.start < end)
}

fn overlaps(ranges: &[Range<usize>], at: &Range<usize>) -> bool {
    overlapping(ranges, at).next().is_some()
}

/// Whether one of `ranges` holds all of `at`.
fn holds(ranges: &[Range<usize>], at: &Range<usize>) -> bool {
    overlapping(ranges, at).any(|range| range.start <= at.start && at.end <= range.end)
}
