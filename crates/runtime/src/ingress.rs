//! Labelling at ingress: which part of an arriving text comes from where.
//!
//! A text that repeats an untrusted entry does not become trusted by being said again: a run of 64 or
//! more normalised characters that stands unbroken in an untrusted entry of the same tenant is split
//! off as an entry of its own, with that entry as its parent, in whatever role it arrives. Shorter
//! coincidences do not count (docs/design.md §3.4). Part of the trusted base.
//!
//! Untrusted entries are found again by winnowed fingerprints (Schleimer, Wilkerson, Aiken: "Winnowing",
//! SIGMOD 2003): with k-grams of `GRAM` and windows of `WINDOW`, every common run of
//! `WINDOW + GRAM - 1` = 64 characters shares at least one.

use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};
use std::ops::Range;

use custody_kernel::label::{Channel, Trust};
use custody_kernel::namespace::Tenant;
use custody_kernel::record::{ObservationKind, SessionRequest, Value};
use custody_kernel::state::AskError;
use custody_log::{Seq, SessionId};
use custody_store::{Content, Receipt, StoreError, Tampering, Transaction, content_of};
use unicode_normalization::UnicodeNormalization;

use crate::advice::Advisor;

/// The shortest run that counts, in normalised characters.
pub const MIN_RUN: usize = 64;
/// How much of the texts that were compared is kept for the next comparison. Many pages may share one
/// phrase, and must not all be held at once.
const MAX_HELD_CHARS: usize = 1 << 22;
const GRAM: usize = 32;
const WINDOW: usize = MIN_RUN - GRAM + 1;

/// Something that entered a session, or that its model produced.
#[derive(Debug, Clone)]
pub struct Observation {
    /// What it is.
    pub kind: ObservationKind,
    /// Where it entered; set by the code that received it.
    pub channel: Channel,
    /// The text.
    pub text: String,
    /// A tool, address or line it came from, for the reader.
    pub origin: Option<String>,
    /// Entries it was made from, besides what a model had read.
    pub parents: Vec<Seq>,
    /// The caller gives up its trust.
    pub lowered: bool,
    /// What a detector said of the text, if one was asked already.
    pub advice: Option<String>,
}

impl Observation {
    /// A message on a channel.
    pub fn message(channel: Channel, text: impl Into<String>) -> Self {
        Self::of(ObservationKind::Message, channel, text)
    }

    /// What a tool answered to `call`.
    pub fn tool_output(call: Seq, text: impl Into<String>) -> Self {
        let output = Self::of(ObservationKind::ToolOutput, Channel::Tool, text);
        Self { parents: vec![call], ..output }
    }

    /// What the model said out of its whole context.
    pub fn completion(text: impl Into<String>) -> Self {
        Self::of(ObservationKind::Completion, Channel::Model, text)
    }

    /// A call of `tool` inside a completion, with its arguments as they were written.
    pub fn tool_call(tool: impl Into<String>, arguments: impl Into<String>) -> Self {
        let call = Self::of(ObservationKind::ToolCall, Channel::Model, arguments);
        Self { origin: Some(tool.into()), ..call }
    }

    fn of(kind: ObservationKind, channel: Channel, text: impl Into<String>) -> Self {
        let (origin, parents) = (None, Vec::new());
        Self { kind, channel, text: text.into(), origin, parents, lowered: false, advice: None }
    }

    /// The same, with what `advisor` says of its text. Done before the writer's turn, so that it holds nobody up.
    #[must_use]
    pub fn advised_by(mut self, advisor: &dyn Advisor) -> Self {
        self.advice = self.advice.or_else(|| advisor.advise(&self.text, self.channel));
        self
    }

    /// The same, from `origin`.
    #[must_use]
    pub fn from(self, origin: impl Into<String>) -> Self {
        Self { origin: Some(origin.into()), ..self }
    }
}

/// Records what entered `session`, split where it repeats what untrusted sources said. Returns one
/// receipt per part, in order.
///
/// # Errors
/// As [`Transaction::ask`].
pub fn observe(
    step: &mut Transaction<'_>,
    session: SessionId,
    observation: &Observation,
) -> Result<Vec<Receipt>, StoreError> {
    let parts = observe_parts(step, session, observation)?;
    Ok(parts.into_iter().map(|(_, receipt)| receipt).collect())
}

/// As [`observe`], with the bytes of the text that each part holds.
pub(crate) fn observe_parts(
    step: &mut Transaction<'_>,
    session: SessionId,
    observation: &Observation,
) -> Result<Vec<(Range<usize>, Receipt)>, StoreError> {
    // Before anything is written: a part that turned out too long would undo the parts before it, and
    // everybody else's work in the same group.
    Content::check_length(observation.text.len())?;
    let open = step.state().session(session).ok_or(AskError::UnknownSession(session))?;
    let tenant = open.who.tenant.clone();
    let text = Normalised::of(&observation.text);
    let prints = text.prints();
    let echoes = echoes(step, &tenant, &text, &prints)?;
    let parts = split(observation.text.len(), &echoes);
    let mut recorded = Vec::with_capacity(parts.len());
    for (range, source) in parts {
        let part = observation.text.get(range.clone()).unwrap_or_default();
        let receipt = observe_part(step, session, observation, part, source)?;
        if receipt.label.trust() == Trust::Untrusted {
            let is_whole = part.len() == observation.text.len();
            let own = if is_whole { prints.clone() } else { Normalised::of(part).prints() };
            remember_prints(step, &tenant, receipt.seq, &own)?;
        }
        recorded.push((range, receipt));
    }
    Ok(recorded)
}

fn observe_part(
    step: &mut Transaction<'_>,
    session: SessionId,
    observation: &Observation,
    text: &str,
    source: Option<Seq>,
) -> Result<Receipt, StoreError> {
    let content = Content::new(text)?;
    let mut parents = observation.parents.clone();
    parents.extend(source);
    let request = SessionRequest::Observe {
        kind: observation.kind,
        channel: observation.channel,
        lowered: observation.lowered,
        content: Some(Value::New(content.commitment())),
        origin: observation.origin.clone(),
        parents,
    };
    let advice = observation.advice.iter().cloned().collect();
    step.ask(session, request, Some(&content), advice)
}

/// The byte ranges of `text` that repeat untrusted entries, with the entries, in order.
fn echoes(
    step: &Transaction<'_>,
    tenant: &Tenant,
    text: &Normalised,
    prints: &[Print],
) -> Result<Vec<(Range<usize>, Seq)>, StoreError> {
    let mut echoes: Vec<(Range<usize>, Seq)> = Vec::new();
    let mut sources: HashMap<Seq, Normalised> = HashMap::new();
    let mut held = 0;
    for print in prints {
        if echoes.last().is_some_and(|(range, _)| range.contains(&print.at)) {
            continue;
        }
        for (source, at) in step.fingerprints_at(tenant, print.hash)? {
            if held > MAX_HELD_CHARS {
                sources.clear();
                held = 0;
            }
            let other = match sources.entry(source) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => {
                    let text = normalised_source(step, source)?;
                    held += text.chars.len();
                    unknown.insert(text)
                }
            };
            if let Some(run) = text.run(print.at, other, at) {
                let from = echoes.last().map_or(0, |(range, _)| range.end);
                echoes.push((run.start.max(from)..run.end, source));
                break;
            }
        }
    }
    Ok(echoes.into_iter().map(|(run, source)| (text.byte_range(&run), source)).collect())
}

fn normalised_source(step: &Transaction<'_>, source: Seq) -> Result<Normalised, StoreError> {
    // Fingerprints are kept of untrusted texts only. One that points elsewhere was put there.
    let is_untrusted =
        step.state().label(source).is_some_and(|label| label.trust() == Trust::Untrusted);
    let content = if is_untrusted { content_of(&step.record(source)?) } else { None };
    let content = content.ok_or(Tampering::Index { index: "fingerprint", seq: source.0 })?;
    let bytes = step.any_content(content)?;
    Ok(Normalised::of(&String::from_utf8_lossy(&bytes)))
}

/// Cuts `0..length` at the echoes.
fn split(length: usize, echoes: &[(Range<usize>, Seq)]) -> Vec<(Range<usize>, Option<Seq>)> {
    let mut parts = Vec::new();
    let mut from = 0;
    for (range, source) in echoes {
        if from < range.start {
            parts.push((from..range.start, None));
        }
        parts.push((range.clone(), Some(*source)));
        from = range.end;
    }
    if from < length || parts.is_empty() {
        parts.push((from..length, None));
    }
    parts
}

/// `text` as it is compared: compatibility form, lower case, blanks folded, invisible characters gone.
pub fn normalised(text: &str) -> NormalText {
    NormalText(Normalised::of(text).chars)
}

/// The fingerprints that are kept of an untrusted text, each with where it stands.
pub fn fingerprints(text: &[u8]) -> impl Iterator<Item = (u64, usize)> {
    let prints = Normalised::of(&String::from_utf8_lossy(text)).prints();
    prints.into_iter().map(|print| (print.hash, print.at))
}

/// Normalised characters.
pub struct NormalText(Vec<char>);

impl NormalText {
    /// Its characters, in order.
    pub fn chars(&self) -> impl Iterator<Item = char> + '_ {
        self.0.iter().copied()
    }
}

/// A text with the place of every normalised character in the original.
struct Normalised {
    chars: Vec<char>,
    starts: Vec<usize>,
    length: usize,
}

/// The fingerprint of the `GRAM` normalised characters from `at` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Print {
    hash: u64,
    at: usize,
}

impl Normalised {
    fn of(text: &str) -> Self {
        let mut this = Self { chars: Vec::new(), starts: Vec::new(), length: text.len() };
        for (start, c) in text.char_indices() {
            if c.is_ascii() {
                this.push(c.to_ascii_lowercase(), start);
            } else {
                for c in std::iter::once(c).nfkd().flat_map(char::to_lowercase) {
                    this.push(c, start);
                }
            }
        }
        this
    }

    fn push(&mut self, c: char, start: usize) {
        let invisible = matches!(c,
            '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
            | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{E0000}'..='\u{E0FFF}');
        if invisible || (c.is_control() && !c.is_whitespace()) {
            return;
        }
        let c = if c.is_whitespace() { ' ' } else { c };
        if c == ' ' && self.chars.last() == Some(&' ') {
            return;
        }
        self.chars.push(c);
        self.starts.push(start);
    }

    /// The fingerprints that winnowing selects: in every window of `WINDOW` k-grams the smallest,
    /// the last of equals. None when the text is shorter than [`MIN_RUN`].
    fn prints(&self) -> Vec<Print> {
        if self.chars.len() < MIN_RUN {
            return Vec::new();
        }
        let mut selected: Vec<Print> = Vec::new();
        // The candidates of the window, hashes rising: its smallest is in front.
        let mut window: VecDeque<Print> = VecDeque::new();
        for print in self.grams() {
            while window.back().is_some_and(|last| last.hash >= print.hash) {
                window.pop_back();
            }
            window.push_back(print);
            while window.front().is_some_and(|first| first.at + WINDOW <= print.at) {
                window.pop_front();
            }
            if print.at + 1 >= WINDOW
                && let Some(smallest) = window.front().filter(|p| selected.last() != Some(p))
            {
                selected.push(*smallest);
            }
        }
        selected
    }

    /// Rolling hashes of all k-grams.
    fn grams(&self) -> impl Iterator<Item = Print> + '_ {
        const BASE: u64 = 0x9E37_79B9_7F4A_7C15;
        let out = BASE.wrapping_pow(u32::try_from(GRAM).unwrap_or(u32::MAX));
        let mut hash = 0_u64;
        self.chars.iter().enumerate().filter_map(move |(at, c)| {
            hash = hash.wrapping_mul(BASE).wrapping_add(value_of(*c));
            let start = (at + 1).checked_sub(GRAM)?;
            if let Some(gone) = start.checked_sub(1).and_then(|before| self.chars.get(before)) {
                hash = hash.wrapping_sub(value_of(*gone).wrapping_mul(out));
            }
            // Low bits of a product are weak; the smallest is chosen among well-mixed values.
            let mixed = (hash ^ (hash >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
            Some(Print { hash: mixed ^ (mixed >> 32), at: start })
        })
    }

    /// The common run of both texts around `here` and `there`, if it is long enough.
    fn run(&self, here: usize, other: &Self, there: usize) -> Option<Range<usize>> {
        let (left, right) = self.chars.split_at_checked(here)?;
        let (other_left, other_right) = other.chars.split_at_checked(there)?;
        let back = common_length(left.iter().rev(), other_left.iter().rev());
        let ahead = common_length(right.iter(), other_right.iter());
        (back + ahead >= MIN_RUN).then(|| here - back..here + ahead)
    }

    /// Where a range of normalised characters stands in the original.
    fn byte_range(&self, run: &Range<usize>) -> Range<usize> {
        let start = self.starts.get(run.start).copied().unwrap_or(self.length);
        let end = self.starts.get(run.end).copied().unwrap_or(self.length);
        start..end.max(start)
    }
}

/// Remembers an untrusted text that was recorded, so that it is known again wherever it is repeated.
pub(crate) fn remember_text(
    step: &Transaction<'_>,
    session: SessionId,
    arrival: Seq,
    text: &str,
) -> Result<(), StoreError> {
    let open = step.state().session(session).ok_or(AskError::UnknownSession(session))?;
    remember_prints(step, &open.who.tenant, arrival, &Normalised::of(text).prints())
}

fn remember_prints(
    step: &Transaction<'_>,
    tenant: &Tenant,
    arrival: Seq,
    prints: &[Print],
) -> Result<(), StoreError> {
    prints.iter().try_for_each(|print| step.keep_fingerprint(tenant, print.hash, arrival, print.at))
}

/// The value of a character in a rolling hash; never 0.
fn value_of(c: char) -> u64 {
    u64::from(u32::from(c)) + 1
}

/// The length of the longest common prefix.
fn common_length<'a>(
    one: impl Iterator<Item = &'a char>,
    other: impl Iterator<Item = &'a char>,
) -> usize {
    one.zip(other).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_common_run_of_64_characters_shares_a_fingerprint(
            run in "[a-z ]{64,200}",
            before in "[a-zA-Z0-9 .]{0,90}",
            after in "[a-zA-Z0-9 .]{0,90}",
            other in "[A-Z0-9 .]{0,90}",
        ) {
            let here = Normalised::of(&format!("{before}{run}{after}"));
            let there = Normalised::of(&format!("{other}{run}"));
            let common = Normalised::of(&run).chars.len();
            prop_assume!(common >= MIN_RUN + 2);
            let found = here.prints().iter().any(|a| {
                there.prints().iter().any(|b| a.hash == b.hash && here.run(a.at, &there, b.at).is_some())
            });
            prop_assert!(found);
        }
    }

    #[test]
    fn a_text_is_cut_exactly_at_its_echoes() {
        let echoes = [(3..5, Seq(9))];
        assert_eq!(split(8, &echoes), [(0..3, None), (3..5, Some(Seq(9))), (5..8, None)]);
        assert_eq!(split(5, &[(0..5, Seq(1))]), [(0..5, Some(Seq(1)))]);
        assert_eq!(split(0, &[]), [(0..0, None)], "an empty message is still a message");
    }
}
