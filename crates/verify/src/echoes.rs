//! Deriving again which texts repeat untrusted ones, and comparing the index of fingerprints with the texts.
//!
//! A text that repeats untrusted ones is recorded in parts, each of which names its place. The parts are compared
//! together, as the text was.

use std::collections::{BTreeMap, BTreeSet};

use custody_kernel::label::{Label, Trust};
use custody_kernel::record::{Author, FORMAT, Record, Request, SessionRequest, TextPart};
use custody_kernel::state::State;
use custody_log::Seq;
use custody_runtime::echo::{
    ComparedWith, Echoes, Fingerprints, OwnText, StoreHasher, Voice, echoes_before, voice_of,
};
use custody_runtime::store::{Fingerprint, Tampering, View, WaitingFingerprints};

use crate::VerifyError;

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
    /// The text of which the last records were parts, until all of them are known.
    observed: Option<ObservedText>,
    checked: CheckedEchoes,
}

/// An observed text, or the first parts of it.
struct ObservedText {
    with: ComparedWith,
    parts: Vec<ObservedPart>,
}

/// A part of an observed text, or all of it.
struct ObservedPart {
    record: Record,
    /// Unless it was destroyed.
    own: Option<OwnText>,
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
        let (observed, checked) = (None, CheckedEchoes::default());
        Ok(Self { view, hasher, since, waiting, unmade, observed, checked })
    }

    /// Looks at the next record. `before` is what the records before it fold to, `text` the content that arrived with
    /// it, and `own` its readings, if they were made already.
    ///
    /// # Errors
    /// [`Tampering::Echo`] for a record that does not say what it repeats; [`Tampering::Part`] for one that is a part
    /// of a text without the others; [`Tampering::Index`] for one whose fingerprints are not those of its text.
    pub(crate) fn observe(
        &mut self,
        before: &State,
        record: &Record,
        text: Option<&[u8]>,
        own: Option<OwnText>,
    ) -> Result<(), VerifyError> {
        let voice = voice_of(before, record);
        let with = observed_with(before, record).filter(|_| record.seq >= self.since);
        let is_read = voice.is_some() || with.is_some();
        let text = text.filter(|_| is_read && own.is_none()).map(String::from_utf8_lossy);
        let own = own.or_else(|| Some(OwnText::of(self.hasher, &text?)));
        if let (Some((tenant, voice)), Some(own)) = (voice, &own) {
            let expected = own.fingerprints(tenant, voice).unwrap_or_else(|| {
                Fingerprints::of(&self.hasher, tenant, voice, own.text()).into_rows()
            });
            self.check_index(record.seq, voice, &expected)?;
        }
        let is_next =
            self.observed.as_ref().is_some_and(|observed| observed.continues_with(record));
        if !is_next {
            self.end_text(before)?;
        }
        let Some(with) = with else {
            self.checked.not_derived += u64::from(is_observation(record));
            return Ok(());
        };
        if !is_next && part_of(record).is_some_and(|part| part.start > 0) {
            return Err(Tampering::Part(record.seq.0).into());
        }
        let observed =
            self.observed.get_or_insert_with(|| ObservedText { with, parts: Vec::new() });
        observed.parts.push(ObservedPart { record: record.clone(), own });
        if observed.is_complete() { self.end_text(before) } else { Ok(()) }
    }

    /// The last records, and what was counted.
    pub(crate) fn finish(mut self, state: &State) -> Result<CheckedEchoes, VerifyError> {
        self.end_text(state)?;
        Ok(self.checked)
    }

    /// Compares the text whose parts are all known.
    fn end_text(&mut self, state: &State) -> Result<(), VerifyError> {
        let Some(observed) = self.observed.take() else { return Ok(()) };
        let ObservedText { with, parts } = &observed;
        let (Some(first), count) = (parts.first(), parts.len() as u64) else { return Ok(()) };
        let Some(texts) = parts.iter().map(|part| part.own.as_ref()).collect::<Option<Vec<_>>>()
        else {
            self.checked.not_derived += count;
            return Ok(());
        };
        if !observed.is_complete() {
            return Err(Tampering::Part(first.record.seq.0).into());
        }
        if self.agrees(state, with, parts, &texts)? {
            self.checked.derived += count;
        } else if has_purged(state, with, first.record.seq)
            || self.lost_cover(with, first.record.seq)
        {
            self.checked.not_derived += count;
        } else {
            return Err(Tampering::Echo(first.record.seq.0).into());
        }
        Ok(())
    }

    /// Whether the parts of a text say all that it repeats: what repeats an untrusted entry is untrusted and has it for
    /// a parent, or is discounted and names it as such.
    fn agrees(
        &self,
        state: &State,
        with: &ComparedWith,
        parts: &[ObservedPart],
        texts: &[&OwnText],
    ) -> Result<bool, VerifyError> {
        let first = parts.first().map_or(Seq(0), |part| part.record.seq);
        let found = if let [whole] = texts {
            echoes_before(self.view, with, whole, state, first)?
        } else {
            let whole: String = texts.iter().map(|part| part.text()).collect();
            let whole = OwnText::of(self.hasher, &whole);
            echoes_before(self.view, with, &whole, state, first)?
        };
        let mut from = 0;
        let mut all = parts.iter().zip(texts).map(|(part, text)| {
            let range = from..from + text.text().len();
            from = range.end;
            (range, &part.record)
        });
        Ok(match found.echoes {
            Echoes::Whole(sources) => all.all(|(_, record)| {
                record.label.trust() == Trust::Untrusted
                    && self.names_discounted(record, &[])
                    && sources.iter().all(|source| repeats(record, *source))
            }),
            Echoes::Parts(echoes) => all.all(|(range, record)| {
                let mut touching = echoes
                    .iter()
                    .filter(|(echo, _)| echo.start < range.end && range.start < echo.end);
                touching.all(|(_, source)| repeats(record, *source))
                    && self.names_discounted(record, &found.discounted.within(&range))
            }),
        })
    }

    /// Whether `record` names these entries as repeated and discounted, and besides them only such as were destroyed
    /// since. In the format of before nothing does.
    fn names_discounted(&self, record: &Record, expected: &[Seq]) -> bool {
        let Request::Session(SessionRequest::Observe { discounted, .. }) = &record.request else {
            return false;
        };
        let state = self.view.state();
        let are_named = expected.iter().all(|entry| discounted.contains(entry));
        let mut others = discounted.iter().filter(|entry| !expected.contains(entry));
        record.v < FORMAT || (are_named && others.all(|entry| state.is_purged(*entry)))
    }

    /// Whether a trusted text of the same tenant that is older than `seq` was destroyed at any time: what it discounted
    /// looks like an echo now.
    fn lost_cover(&self, with: &ComparedWith, seq: Seq) -> bool {
        let state = self.view.state();
        let mut marked = state.marked();
        marked.any(|(entry, marks)| {
            entry < seq
                && marks.is_purged()
                && state.label(entry).is_some_and(Label::is_good)
                && state.tenant_of(entry) == Some(&with.tenant)
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

impl ObservedText {
    /// The end of the parts so far, in bytes; `None` if the text of one was destroyed.
    fn length(&self) -> Option<u64> {
        let mut lengths =
            self.parts.iter().map(|part| part.own.as_ref().map(|own| own.text().len()));
        lengths.try_fold(0, |sum, length| Some(sum + length? as u64))
    }

    /// Whether `record` is the next part.
    fn continues_with(&self, record: &Record) -> bool {
        let (Some(last), Some(next)) = (self.parts.last(), part_of(record)) else { return false };
        let follows = part_of(&last.record)
            .is_some_and(|part| part.whole == next.whole && part.start < next.start);
        last.record.seq.0 + 1 == record.seq.0
            && observed_as(&last.record) == observed_as(record)
            && follows
            && self.length().is_none_or(|length| length == next.start)
    }

    /// Whether all parts are known.
    fn is_complete(&self) -> bool {
        let whole = self.parts.first().map(|first| part_of(&first.record));
        match whole.flatten() {
            None => true,
            Some(part) => self.length() == Some(part.whole),
        }
    }
}

fn part_of(record: &Record) -> Option<TextPart> {
    let Request::Session(SessionRequest::Observe { part, .. }) = &record.request else {
        return None;
    };
    *part
}

fn is_observation(record: &Record) -> bool {
    matches!(record.request, Request::Session(SessionRequest::Observe { .. }))
}

/// What is the same of all parts of one text.
fn observed_as(record: &Record) -> Option<impl PartialEq> {
    let Request::Session(request) = &record.request else { return None };
    let SessionRequest::Observe { kind, channel, origin, .. } = request else { return None };
    Some((record.by.clone(), *kind, *channel, origin.clone()))
}

/// Whether a text of the same tenant was destroyed that is older than `seq`: it may have been what was repeated, or
/// what discounted that.
fn has_purged(state: &State, with: &ComparedWith, seq: Seq) -> bool {
    let mut marked = state.marked();
    marked.any(|(entry, marks)| {
        entry < seq && marks.is_purged() && state.tenant_of(entry) == Some(&with.tenant)
    })
}
