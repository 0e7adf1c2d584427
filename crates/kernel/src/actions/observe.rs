//! Recording what entered a context, or what the model produced out of it.

use custody_log::{Seq, SessionId};

use super::draft::{Draft, InSession, ascending};
use crate::label::{Channel, Label};
use crate::memory::item::Value;
use crate::record::{Answer, MAX_DISCOUNTED, ObservationKind, Record};
use crate::state::{AskError, State};

/// Something that was observed, as its context takes it.
#[derive(Debug)]
pub(crate) struct Observed(ObservationKind);

/// Labels what enters: by its channel, by whom the session runs for, and by what it was made from.
///
/// Source: MON §3.4, source labelling and propagation.
pub(crate) fn decide(
    asked: InSession<'_>,
    kind: ObservationKind,
    channel: Channel,
    lowered: bool,
    content: Option<Value>,
    made_from: &[Seq],
) -> Result<Draft<Observed>, AskError> {
    let InSession { state, session, .. } = asked;
    for entry in made_from {
        asked.named(*entry)?;
    }
    let arrival = asked.arrival(content)?;
    // What a model produced is known by its kind; nobody may claim `memory`, reads make that.
    if kind.is_produced() != (channel == Channel::Model) || channel == Channel::Memory {
        return Err(AskError::Channel { kind, channel });
    }
    let mut label = Label::at_ingress(channel, session.on_behalf_of());
    let mut parents = [made_from, arrival.as_slice()].concat();
    if kind.is_produced() {
        label = label.join(session.context.label());
        parents.extend_from_slice(session.context.parents());
    }
    let parents = ascending(parents);
    for parent in &parents {
        label = label.join(state.label(*parent).ok_or(AskError::UnknownEntry(*parent))?);
    }
    // What a model said out of nothing came from somewhere, and nobody knows where.
    let of_no_origin = kind.is_produced() && parents.is_empty();
    let label = if lowered || of_no_origin { label.lowered() } else { label };
    Ok(Draft::new(Answer::Done, label, parents).with(Observed(kind)))
}

/// Whether `discounted` can be what a text repeats without being tainted. It changes no label: that older trusted texts
/// hold it is derived again by verification.
pub(crate) fn check_discounted(asked: &InSession<'_>, discounted: &[Seq]) -> Result<(), AskError> {
    let is_list = discounted.len() <= MAX_DISCOUNTED && discounted.is_sorted_by(|a, b| a < b);
    if !is_list {
        return Err(AskError::Discounted);
    }
    discounted.iter().try_for_each(|entry| asked.named(*entry).map(|_| ()))
}

impl Observed {
    pub(crate) fn apply(self, state: &mut State, id: SessionId, record: &Record) {
        enter(state, id, record, self.0);
    }
}

/// Enters what was observed earlier.
pub(crate) fn fold(
    state: &mut State,
    id: SessionId,
    record: &Record,
    kind: ObservationKind,
) -> Option<()> {
    (record.answer == Answer::Done).then(|| enter(state, id, record, kind))
}

fn enter(state: &mut State, id: SessionId, record: &Record, kind: ObservationKind) {
    let Some(session) = state.sessions.get_mut(&id) else { return };
    session.context.read(record.seq, record.label);
    match kind {
        ObservationKind::Completion => session.context.produced(record.seq),
        ObservationKind::Message
        | ObservationKind::ToolCall
        | ObservationKind::ToolOutput
        | ObservationKind::Retrieval
        | ObservationKind::FileChange => {}
    }
}
