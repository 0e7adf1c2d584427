//! Recording a text that tool calls are judged by (see [`tool::basis`](crate::tool::basis)).

use custody_log::{Digest, Seq};

use super::draft::{Draft, InSession, ascending};
use crate::label::{Channel, Label};
use crate::record::{Answer, Record};
use crate::state::{AskError, State};
use crate::tool::basis::{Basis, BasisKind};

/// A basis as it is committed: the name under which calls find it.
#[derive(Debug)]
pub(crate) struct RecordedBasis(Option<Digest>);

/// Nothing vouches for a basis: it comes from a file of the operator's or from a tool, and is labelled like that. It
/// enters no context.
pub(crate) fn decide(
    asked: InSession<'_>,
    basis: &Basis,
) -> Result<Draft<RecordedBasis>, AskError> {
    let (channel, named) = match &basis.of {
        BasisKind::Tool { .. } | BasisKind::LocalPolicy { .. } => (Channel::File, Vec::new()),
        BasisKind::Output { call, texts } => (Channel::Tool, [&[*call], texts.as_slice()].concat()),
    };
    let parents = ascending([named, Vec::from_iter(asked.arrival(Some(basis.text))?)].concat());
    let label = Label::at_ingress(channel, asked.session.on_behalf_of());
    let label = asked.join_named(label, &parents)?;
    Ok(Draft::new(Answer::Done, label, parents).with(RecordedBasis(basis.of.digest())))
}

impl RecordedBasis {
    pub(crate) fn apply(self, state: &mut State, record: &Record) {
        if let Some(digest) = self.0 {
            state.bases.insert(digest, record.seq);
        }
    }
}

/// Records what was recorded earlier.
pub(crate) fn fold(state: &mut State, record: &Record, basis: &Basis) -> Option<()> {
    (record.answer == Answer::Done).then(|| RecordedBasis(basis.of.digest()).apply(state, record))
}

impl State {
    /// The entry that holds the basis of this digest, unless that was taken out.
    pub fn basis(&self, digest: Digest) -> Option<Seq> {
        self.bases.get(&digest).copied().filter(|entry| !self.is_out(*entry))
    }
}
