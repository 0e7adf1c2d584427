//! What deciding an action comes to: the fields of the record to be, and the witness of what it changes.

use custody_log::{Seq, SessionId, Timestamp};

use crate::label::{Channel, Label, Trust};
use crate::memory::item::{ContentRef, Item, Value};
use crate::memory::refusal::Refusal;
use crate::namespace::Namespace;
use crate::record::{Answer, Record};
use crate::state::{AskError, SessionState, State};

/// A decision before it is put together with who asked and when. `W` is what its action takes to change the state.
pub(crate) struct Draft<W> {
    pub(crate) answer: Answer,
    pub(crate) label: Label,
    pub(crate) parents: Vec<Seq>,
    /// The last change of the item that is changed.
    pub(crate) after: Option<Seq>,
    /// The content that is put in force, where the request does not name it.
    pub(crate) content: Option<ContentRef>,
    /// `None` when nothing is changed but the record.
    pub(crate) witness: Option<W>,
}

impl<W> Draft<W> {
    /// A decision that changes nothing but the record.
    pub(crate) fn new(answer: Answer, label: Label, parents: Vec<Seq>) -> Self {
        Self { answer, label, parents, after: None, content: None, witness: None }
    }

    /// A decision about the store itself, which is no part of any context.
    pub(crate) fn administrative(outcome: Result<W, Refusal>) -> Self {
        let label = Label::at_ingress(Channel::System, Trust::Trusted);
        match outcome {
            Ok(witness) => Self::new(Answer::Done, label, Vec::new()).with(witness),
            Err(refusal) => Self::new(Answer::Refused(refusal), label, Vec::new()),
        }
    }

    /// This decision, with the witness of what it changes.
    pub(crate) fn with(self, witness: W) -> Self {
        Self { witness: Some(witness), ..self }
    }

    /// This decision, on a change of `item`.
    pub(crate) fn changing(self, item: Option<&Item>) -> Self {
        let after = item.and_then(|item| item.last_change);
        Self { after: after.filter(|_| self.answer == Answer::Done), ..self }
    }

    /// This decision, on a change that puts `content` in force without naming it.
    pub(crate) fn releasing(self, content: Option<ContentRef>) -> Self {
        let is_kept = matches!(self.answer, Answer::Done | Answer::Pending { .. });
        Self { content: content.filter(|_| is_kept), ..self }
    }

    /// This decision, about what `proposed` asked for. It stands below that in the graph: edges and origins stay,
    /// whatever taint a version is stored with.
    pub(crate) fn below(self, proposed: Seq, state: &State) -> Self {
        let label = state.label(proposed).unwrap_or_else(|| self.label.lowered());
        Self { label: self.label.join(label), parents: vec![proposed], ..self }
    }

    /// This decision, with its witness as `effect` takes it.
    pub(crate) fn map<E>(self, effect: impl FnOnce(W) -> E) -> Draft<E> {
        let Self { answer, label, parents, after, content, witness } = self;
        Draft { answer, label, parents, after, content, witness: witness.map(effect) }
    }
}

/// What an action reads that is asked for in a session.
#[derive(Clone, Copy)]
pub(crate) struct InSession<'a> {
    pub(crate) state: &'a State,
    pub(crate) id: SessionId,
    pub(crate) session: &'a SessionState,
    pub(crate) at: Timestamp,
}

impl InSession<'_> {
    /// The session's own namespace.
    pub(crate) fn own(&self) -> Namespace {
        Namespace::session(self.session.who.tenant.clone(), self.id)
    }

    /// The label of an entry that the request names. Entries of other tenants are as unknown as those that do not
    /// exist.
    pub(crate) fn named(&self, entry: Seq) -> Result<Label, AskError> {
        let label = self.state.label_within(&self.session.who.tenant, entry);
        label.ok_or(AskError::UnknownEntry(entry))
    }

    /// `label`, joined with those of `entries`, which the request names.
    pub(crate) fn join_named(&self, label: Label, entries: &[Seq]) -> Result<Label, AskError> {
        entries.iter().try_fold(label, |label, entry| Ok(label.join(self.named(*entry)?)))
    }

    /// Where `value` arrived, if that was earlier: it brings the label it arrived with. What is out is not known any
    /// more.
    pub(crate) fn arrival(&self, value: Option<Value>) -> Result<Option<Seq>, AskError> {
        let Some(Value::Of(content)) = value else { return Ok(None) };
        if !self.session.context.holds(content) || self.state.is_out(content.arrival) {
            return Err(AskError::UnknownContent(content.arrival));
        }
        Ok(Some(content.arrival))
    }
}

/// `entries`, ascending and each once.
pub(crate) fn ascending(mut entries: Vec<Seq>) -> Vec<Seq> {
    entries.sort_unstable();
    entries.dedup();
    entries
}

/// Makes the change that `record` has if it was done; `None` when its answer is neither that nor a refusal.
pub(crate) fn done_or_refused(record: &Record, change: impl FnOnce()) -> Option<()> {
    match record.answer {
        Answer::Done => change(),
        Answer::Refused(_) => {}
        Answer::Value { .. } | Answer::NotFound | Answer::Pending { .. } => return None,
    }
    Some(())
}
