//! Phrases over the parts of one observation.
//!
//! A text that repeats others is recorded in parts, each with what it repeats for a parent. A phrase may begin in one
//! and end in the next, or the one after. A record does not say of which observation it is a part, so that neighbours
//! of one kind are joined: what stands in two observations that follow one another in a session is found too.

use std::collections::BTreeSet;

use custody_kernel::record::{Author, Record, Request, SessionRequest};
use custody_log::Seq;
use custody_runtime::store::View;
use custody_text::Phrase;

use crate::IncidentError;
use crate::arrival::arrival;

/// How much of a part is read on either side of where it meets the next, in bytes.
const MAX_SIDE: usize = 16 << 10;

/// The most parts that one occurrence reaches over.
const MAX_PARTS: usize = 8;

/// The entries over which `phrase` reaches, of those that begin at or before one of `candidates`, ascending.
pub(crate) fn across_parts(
    view: View<'_>,
    phrase: &Phrase,
    candidates: &[Seq],
) -> Result<Vec<Seq>, IncidentError> {
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for candidate in candidates {
        // The candidate may be the first of the parts, the second or the last.
        for back in 0..MAX_PARTS as u64 {
            let Some(start) = candidate.0.checked_sub(back).map(Seq) else { break };
            if !seen.insert(start) {
                continue;
            }
            let parts = parts_from(view, start)?;
            if parts.len() as u64 <= back {
                break;
            }
            found.extend(over_first_boundary(phrase, &parts));
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// The entries that an occurrence has which begins in the first part and ends in a later one.
fn over_first_boundary(phrase: &Phrase, parts: &[(Seq, String)]) -> Vec<Seq> {
    let Some(((_, first), rest)) = parts.split_first() else { return Vec::new() };
    let tail = first.get(first.ceil_char_boundary(first.len().saturating_sub(MAX_SIDE))..);
    let mut joined = tail.unwrap_or_default().to_owned();
    let boundary = joined.len();
    let mut ends = vec![boundary];
    for (_, text) in rest {
        let room = MAX_SIDE.saturating_sub(joined.len() - boundary);
        joined.push_str(text.get(..text.floor_char_boundary(room)).unwrap_or_default());
        ends.push(joined.len());
    }
    let Some(range) = phrase.find_across(&joined, boundary) else { return Vec::new() };
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let spans = starts.zip(&ends).zip(parts);
    let touched = spans.filter(|((start, end), _)| *start < range.end && range.start < **end);
    touched.map(|(_, (entry, _))| *entry).collect()
}

/// The text of an entry and of the neighbours that follow it.
fn parts_from(view: View<'_>, start: Seq) -> Result<Vec<(Seq, String)>, IncidentError> {
    let mut parts = Vec::new();
    let mut last: Option<Record> = None;
    for seq in (start.0..view.len()).map(Seq).take(MAX_PARTS) {
        let record = view.record(seq)?;
        if last.as_ref().is_some_and(|last| !are_neighbours(last, &record)) {
            break;
        }
        let Some(content) = arrival(&record) else { break };
        let Some(bytes) = view.any_content(content)? else { break };
        parts.push((seq, String::from_utf8_lossy(&bytes).into_owned()));
        last = Some(record);
    }
    Ok(parts)
}

/// Whether two records can be parts of one observation.
fn are_neighbours(last: &Record, next: &Record) -> bool {
    let is_same_session = matches!(last.by, Author::Session(_)) && last.by == next.by;
    match (&last.request, &next.request) {
        (
            Request::Session(SessionRequest::Observe { kind, channel, origin, .. }),
            Request::Session(SessionRequest::Observe {
                kind: next_kind,
                channel: next_channel,
                origin: next_origin,
                ..
            }),
        ) => {
            is_same_session && kind == next_kind && channel == next_channel && origin == next_origin
        }
        _ => false,
    }
}
