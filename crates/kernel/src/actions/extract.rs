//! Closed-schema extraction: single values out of an output that the model does not get to read.
//!
//! The second way, besides a reviewer's word, by which something untrusted becomes clean; narrower than the
//! first. The value has a closed shape, the owner's policy names its field, and a session takes out no more
//! bits than the store's limits allow. The graph does not change: the value has the output for a parent, and as
//! an argument it is still the tool's.
//!
//! Source: docs/design.md §4.4.

use custody_log::{Seq, SessionId};

use super::draft::{Draft, InSession, ascending, done_or_refused};
use crate::label::{Channel, Label};
use crate::memory::item::Value;
use crate::memory::refusal::Refusal;
use crate::record::{Answer, Record};
use crate::state::{AskError, State};
use crate::tool::extract::Extract;

/// What a session may still take out.
#[derive(Debug, Clone, Copy)]
pub struct Budget<'a> {
    /// The fields of this call's output that the policy names; none unless the owner signed that policy.
    pub fields: &'a [String],
    /// Bits that were taken out in this session.
    pub used: u32,
    /// Bits that may be.
    pub limit: u32,
}

/// A value that may be taken out. Only [`decide_extract`] makes one, and committing consumes it.
#[derive(Debug)]
pub struct AcceptedExtract {
    bits: u32,
}

impl AcceptedExtract {
    /// What it counts, in bits.
    pub const fn bits(&self) -> u32 {
        self.bits
    }
}

/// Decides whether a value may be taken out.
///
/// # Errors
/// Why not: the policy does not name the field, or too much was taken out already.
pub fn decide_extract(extract: &Extract, budget: Budget<'_>) -> Result<AcceptedExtract, Refusal> {
    let field = extract.field.clone();
    if !budget.fields.contains(&field) {
        return Err(Refusal::NotExtractable { field });
    }
    let Ok(bits) = extract.shape.bits() else { return Err(Refusal::NotExtractable { field }) };
    match budget.used.checked_add(bits) {
        Some(used) if used <= budget.limit => Ok(AcceptedExtract { bits }),
        Some(_) | None => {
            let left = budget.limit.saturating_sub(budget.used);
            Err(Refusal::BitsUsedUp { field, bits, left })
        }
    }
}

/// An output that is kept from the model.
#[derive(Debug)]
pub(crate) struct Withheld {
    call: Seq,
}

/// An output that the model is not shown is labelled like one that it reads.
pub(crate) fn decide_withhold(
    asked: InSession<'_>,
    call: Seq,
    content: Value,
) -> Result<Draft<Withheld>, AskError> {
    let arrival = asked.arrival(Some(content))?;
    let parents = ascending([call].into_iter().chain(arrival).collect());
    let label = Label::at_ingress(Channel::Tool, asked.session.on_behalf_of());
    let label = asked.join_named(label, &parents)?;
    Ok(Draft::new(Answer::Done, label, parents).with(Withheld { call }))
}

/// The value that is taken out is ours, in our spelling, and clean; its parent is the output.
pub(crate) fn decide(
    asked: InSession<'_>,
    extract: &Extract,
) -> Result<Draft<AcceptedExtract>, AskError> {
    let InSession { state, session, .. } = asked;
    let Extract { call, output, value, .. } = extract;
    asked.named(*call)?;
    asked.named(*output)?;
    asked.arrival(*value)?;
    if state.is_out(*output) {
        return Err(AskError::UnknownContent(*output));
    }
    let fields = match session.withheld.get(output) {
        Some(withheld) if withheld == call => session.extractable.get(call),
        Some(_) | None => None,
    };
    let budget = Budget {
        fields: fields.map_or(&[][..], Vec::as_slice),
        used: session.extracted_bits,
        limit: state.limits.extracted_bits,
    };
    let label = Label::at_ingress(Channel::System, session.on_behalf_of());
    let draft = Draft::new(Answer::Done, label, vec![*output]);
    Ok(match decide_extract(extract, budget) {
        Ok(accepted) => draft.with(accepted),
        Err(refusal) => Draft { answer: Answer::Refused(refusal), ..draft },
    })
}

impl Withheld {
    pub(crate) fn apply(self, state: &mut State, id: SessionId, record: &Record) {
        withhold(state, id, record, self.call);
    }
}

impl AcceptedExtract {
    pub(crate) fn apply(self, state: &mut State, id: SessionId, record: &Record) {
        take_out(state, id, record, self.bits);
    }
}

/// Withholds what was withheld earlier.
pub(crate) fn fold_withhold(
    state: &mut State,
    id: SessionId,
    record: &Record,
    call: Seq,
) -> Option<()> {
    (record.answer == Answer::Done).then(|| withhold(state, id, record, call))
}

/// Takes out what was taken out earlier.
pub(crate) fn fold(
    state: &mut State,
    id: SessionId,
    record: &Record,
    extract: &Extract,
) -> Option<()> {
    done_or_refused(record, || {
        take_out(state, id, record, extract.shape.bits().unwrap_or(u32::MAX));
    })
}

fn withhold(state: &mut State, id: SessionId, record: &Record, call: Seq) {
    if let Some(session) = state.sessions.get_mut(&id) {
        session.withheld.insert(record.seq, call);
    }
}

fn take_out(state: &mut State, id: SessionId, record: &Record, bits: u32) {
    let Some(session) = state.sessions.get_mut(&id) else { return };
    session.context.read(record.seq, record.label);
    session.extracted_bits = session.extracted_bits.saturating_add(bits);
}
