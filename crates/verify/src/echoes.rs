//! Deriving again which texts repeat untrusted ones, and comparing the index of fingerprints with the texts.
//!
//! A record does not say of which observation it is a part. Each is first compared by itself; one whose echoes do
//! not agree so is compared together with its neighbours of the same kind, since runs that reach over the whole text
//! can look different in a part of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use custody_kernel::label::Trust;
use custody_kernel::record::{Author, Record, Request, SessionRequest};
use custody_kernel::state::State;
use custody_log::Seq;
use custody_runtime::echo::{
    ComparedWith, Echoes, Fingerprints, OwnText, StoreHasher, Voice, echoes_before, voice_of,
};
use custody_runtime::store::{Fingerprint, Tampering, View, WaitingFingerprints};

use crate::VerifyError;

/// The most parts that an observation is recorded in: 64 echoes and what is between them.
const MAX_PARTS: usize = 2 * 64 + 1;

/// What was found in order.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CheckedEchoes {
    pub(crate) derived: u64,
    pub(crate) not_derived: u64,
    /// Rows of the index that belong to texts.
    pub(crate) fingerprints: u64,
}

/// Follows the log and compares every observed text with those before it.
pub(crate) struct EchoVerifier<'a> {
    view: View<'a>,
    hasher: StoreHasher,
    since: Seq,
    /// Fingerprints that the index does not have yet, by text.
    waiting: BTreeMap<Seq, Vec<Fingerprint>>,
    /// Texts that nobody has fingerprinted yet.
    unmade: BTreeSet<Seq>,
    /// Neighbours of one kind, of which some did not agree by themselves.
    stretch: Vec<ObservedPart>,
    checked: CheckedEchoes,
}

/// An observed text.
struct ObservedPart {
    record: Record,
    text: String,
    with: ComparedWith,
    agrees: bool,
}

impl<'a> EchoVerifier<'a> {
    pub(crate) fn new(view: View<'a>) -> Result<Self, VerifyError> {
        let hasher = StoreHasher::new(view.fingerprint_key()?);
        let since = view.fingerprinted_since()?;
        let mut waiting: BTreeMap<Seq, Vec<Fingerprint>> = BTreeMap::new();
        let mut unmade = BTreeSet::new();
        for found in view.waiting_fingerprints(usize::MAX)? {
            match found {
                WaitingFingerprints::Text(arrival) => {
                    unmade.insert(arrival);
                }
                WaitingFingerprints::Slice(slice) => {
                    for found in slice {
                        waiting.entry(found.arrival).or_default().push(found.fingerprint);
                    }
                }
            }
        }
        let (stretch, checked) = (Vec::new(), CheckedEchoes::default());
        Ok(Self { view, hasher, since, waiting, unmade, stretch, checked })
    }

    /// Looks at the next record. `before` is what the records before it fold to.
    ///
    /// # Errors
    /// [`Tampering::Echo`] for a record that does not say what it repeats; [`Tampering::Index`] for one whose
    /// fingerprints are not those of its text.
    pub(crate) fn observe(
        &mut self,
        before: &State,
        record: &Record,
        text: Option<&[u8]>,
    ) -> Result<(), VerifyError> {
        let voice = voice_of(before, record);
        let text = text.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        if let (Some((tenant, voice)), Some(text)) = (voice, &text) {
            let expected = Fingerprints::of(&self.hasher, tenant, voice, text);
            self.check_index(record.seq, voice, expected.rows())?;
        }
        let Some(with) = observed_with(before, record) else { return Ok(()) };
        let is_neighbour =
            self.stretch.last().is_some_and(|last| are_neighbours(&last.record, record));
        if !is_neighbour {
            self.end_stretch(before)?;
        }
        let Some(text) = text.filter(|_| record.seq >= self.since) else {
            self.end_stretch(before)?;
            self.checked.not_derived += 1;
            return Ok(());
        };
        let part = ObservedPart { record: record.clone(), text, with, agrees: false };
        let agrees = self.agree(before, std::slice::from_ref(&part))?;
        self.stretch.push(ObservedPart { agrees, ..part });
        self.settle(before, false)
    }

    /// The last records, and what was counted.
    pub(crate) fn finish(mut self, state: &State) -> Result<CheckedEchoes, VerifyError> {
        self.end_stretch(state)?;
        Ok(self.checked)
    }

    fn end_stretch(&mut self, state: &State) -> Result<(), VerifyError> {
        self.settle(state, true)
    }

    /// Compares those that did not agree by themselves together with their neighbours, once all of these are known,
    /// and lets go of what is no part of anything that still comes.
    fn settle(&mut self, state: &State, is_end: bool) -> Result<(), VerifyError> {
        let mut stretch = std::mem::take(&mut self.stretch);
        while let Some(at) = stretch.iter().position(|part| !part.agrees) {
            if !is_end && at + MAX_PARTS > stretch.len() {
                break;
            }
            let Some(range) = self.agreeing_range(state, &stretch, at)? else {
                let part = stretch.get(at).ok_or(Tampering::Echo(0))?;
                if !has_purged(state, part) {
                    return Err(Tampering::Echo(part.record.seq.0).into());
                }
                self.checked.not_derived += 1;
                stretch.remove(at);
                continue;
            };
            stretch
                .iter_mut()
                .take(range.end)
                .skip(range.start)
                .for_each(|part| part.agrees = true);
        }
        let kept = if is_end { 0 } else { 2 * MAX_PARTS };
        let settled = stretch.iter().take_while(|part| part.agrees).count();
        let settled = settled.min(stretch.len().saturating_sub(kept));
        stretch.drain(..settled);
        self.checked.derived += settled as u64;
        self.stretch = stretch;
        Ok(())
    }

    /// The shortest range of neighbours around `at` that agrees as one observation.
    fn agreeing_range(
        &self,
        state: &State,
        stretch: &[ObservedPart],
        at: usize,
    ) -> Result<Option<Range<usize>>, VerifyError> {
        for length in 2..=MAX_PARTS.min(stretch.len()) {
            for start in (at + 1).saturating_sub(length)..=at {
                let Some(parts) = stretch.get(start..start + length) else { continue };
                if self.agree(state, parts)? {
                    return Ok(Some(start..start + length));
                }
            }
        }
        Ok(None)
    }

    /// Whether parts of one observation say all that it repeats: who repeats an untrusted entry is untrusted and has
    /// it for a parent.
    fn agree(&self, state: &State, parts: &[ObservedPart]) -> Result<bool, VerifyError> {
        let Some(first) = parts.first() else { return Ok(true) };
        let text: String = parts.iter().map(|part| part.text.as_str()).collect();
        let own = OwnText::of(self.hasher, &first.with, &text);
        let found = echoes_before(self.view, &first.with, &own, state, first.record.seq)?;
        let mut from = 0;
        let mut all = parts.iter().map(|part| {
            let range = from..from + part.text.len();
            from = range.end;
            (range, &part.record)
        });
        Ok(match found.echoes {
            Echoes::Whole(sources) => {
                all.all(|(_, record)| sources.iter().all(|source| repeats(record, *source)))
                    && parts.iter().all(|part| part.record.label.trust() == Trust::Untrusted)
            }
            Echoes::Parts(echoes) => all.all(|(range, record)| {
                let mut touching = echoes
                    .iter()
                    .filter(|(echo, _)| echo.start < range.end && range.start < echo.end);
                touching.all(|(_, source)| repeats(record, *source))
            }),
        })
    }

    /// Compares the rows of the index with the fingerprints of a text. A trusted text may have none: the parts of a
    /// message that was cut speak for nothing.
    fn check_index(
        &mut self,
        arrival: Seq,
        voice: Voice,
        expected: &[Fingerprint],
    ) -> Result<(), VerifyError> {
        let mut found = self.view.fingerprints_of(arrival)?;
        self.checked.fingerprints += found.len() as u64;
        found.extend(self.waiting.remove(&arrival).unwrap_or_default());
        let may_be_absent = voice != Voice::Untrusted || self.unmade.contains(&arrival);
        if rows(&found) != rows(expected) && !(found.is_empty() && may_be_absent) {
            return Err(Tampering::Index { index: "fingerprint", seq: arrival.0 }.into());
        }
        Ok(())
    }
}

/// The rows that fingerprints make: the first in each place.
pub(crate) fn rows(fingerprints: &[Fingerprint]) -> BTreeMap<(u64, u64), (u32, u32)> {
    let mut rows = BTreeMap::new();
    for Fingerprint { print, around, form, at } in fingerprints {
        let first: &mut (u32, u32) = rows.entry((*print, *around)).or_insert((*form, *at));
        *first = (*first).min((*form, *at));
    }
    rows
}

fn repeats(record: &Record, source: Seq) -> bool {
    record.label.trust() == Trust::Untrusted && record.parents.contains(&source)
}

/// Whom a text is compared with, if it was observed.
fn observed_with(before: &State, record: &Record) -> Option<ComparedWith> {
    let Author::Session(session) = record.by else { return None };
    let Request::Session(SessionRequest::Observe { .. }) = &record.request else { return None };
    let session = before.session(session)?;
    let (tenant, principal) = (session.who.tenant.clone(), session.who.principal);
    Some(ComparedWith { tenant, principal })
}

/// Whether two records can be parts of one observation.
fn are_neighbours(last: &Record, next: &Record) -> bool {
    let (Some(a), Some(b)) = (observed_as(last), observed_as(next)) else { return false };
    last.seq.0 + 1 == next.seq.0 && last.by == next.by && a == b
}

fn observed_as(record: &Record) -> Option<impl PartialEq> {
    let Request::Session(request) = &record.request else { return None };
    let SessionRequest::Observe { kind, channel, lowered, origin, .. } = request else {
        return None;
    };
    Some((*kind, *channel, *lowered, origin.clone()))
}

/// Whether a text of the same tenant that is older was destroyed: it may have been what was repeated, or what
/// discounted that.
fn has_purged(state: &State, part: &ObservedPart) -> bool {
    let mut marked = state.marked();
    marked.any(|(entry, marks)| {
        entry < part.record.seq
            && marks.is_purged()
            && state.tenant_of(entry) == Some(&part.with.tenant)
    })
}
