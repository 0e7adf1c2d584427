//! Joining a context: one entry that stands for all that a session has read so far (G7).
//!
//! Without it, whatever the model produces would name each entry of its context, and a long session would cost the
//! square of its length. The entry is a node between others: closures pass through it and never contain it, and its
//! marks follow from those of the entries that it stands for.
//!
//! Source: decision 0018.

use custody_log::SessionId;

use super::draft::{Draft, InSession};
use crate::label::{Channel, Label};
use crate::record::{Answer, Record};
use crate::state::{AskError, State};

/// A context that is joined.
#[derive(Debug)]
pub(crate) struct JoinedContext;

pub(crate) fn decide(asked: InSession<'_>) -> Result<Draft<JoinedContext>, AskError> {
    let context = &asked.session.context;
    if context.parents().is_empty() {
        return Err(AskError::EmptyContext);
    }
    let label = Label::at_ingress(Channel::Model, asked.session.on_behalf_of());
    let parents = super::draft::ascending(context.parents().to_vec());
    Ok(Draft::new(Answer::Done, label.join(context.label()), parents).with(JoinedContext))
}

impl JoinedContext {
    pub(crate) fn apply(self, state: &mut State, id: SessionId, record: &Record) {
        let Self = self;
        join(state, id, record);
    }
}

/// Joins what was joined earlier.
pub(crate) fn fold(state: &mut State, id: SessionId, record: &Record) -> Option<()> {
    (record.answer == Answer::Done).then(|| join(state, id, record))
}

fn join(state: &mut State, id: SessionId, record: &Record) {
    state.recovered.join(record.seq, record.parents.clone());
    if let Some(session) = state.sessions.get_mut(&id) {
        session.context.produced(record.seq);
    }
}
