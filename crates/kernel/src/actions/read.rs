//! Reading an item: MON rules 1 and 9.

use custody_log::SessionId;

use super::draft::{Draft, InSession};
use crate::key::Key;
use crate::label::{Channel, Label, Taint, Trust};
use crate::memory::item::{Item, Mode, Version};
use crate::memory::refusal::Refusal;
use crate::namespace::{Namespace, Scope};
use crate::record::{Answer, Record};
use crate::state::State;

/// A version that a session may read.
#[derive(Debug)]
pub struct ReadVersion(Version);

impl ReadVersion {
    /// The version.
    pub const fn version(&self) -> &Version {
        &self.0
    }
}

/// Decides a read by a session of `reader`'s namespace, in the namespace `asked` for.
///
/// Returns the version read, or `None` when the visible namespace holds nothing there.
///
/// # Errors
/// [`Refusal::NotVisible`] when `asked` is neither the reader's own nor shared.
///
/// Source: MON §3.3 rules 1 and 9.
pub fn decide_read(
    reader: &Namespace,
    asked: &Namespace,
    key: &Key,
    item: Option<&Item>,
) -> Result<Option<ReadVersion>, Refusal> {
    if !is_visible(reader, asked) {
        return Err(Refusal::NotVisible { key: key.clone() });
    }
    Ok(item.and_then(|item| item.current).map(ReadVersion))
}

/// Rule 9: a session sees its own namespace and the shared one of its tenant.
pub fn is_visible(reader: &Namespace, asked: &Namespace) -> bool {
    reader == asked || (reader.tenant == asked.tenant && asked.scope == Scope::Shared)
}

/// The label of a memory read: that of the version read (MON rule 1).
pub(super) fn label_of(provenance: Trust, taint: Taint) -> Label {
    let label = Label::at_ingress(Channel::Memory, provenance);
    match (provenance, taint) {
        (Trust::Trusted, Taint::Clean) => label,
        (Trust::Untrusted, _) | (_, Taint::Tainted) => label.lowered(),
    }
}

pub(crate) fn decide(asked: InSession<'_>, scope: Scope, key: &Key) -> Draft<ReadVersion> {
    let (state, own) = (asked.state, asked.own());
    let namespace = Namespace { tenant: own.tenant.clone(), scope };
    let label = Label::at_ingress(Channel::Memory, Trust::Trusted);
    // A session's own item never hides an immutable shared one.
    let item = match state.visible_item(&own, key) {
        Some((visible, item)) if namespace == own && visible.scope == Scope::Shared => {
            (item.mode == Mode::Immutable).then_some(item)
        }
        Some(_) | None => state.item(&namespace, key),
    };
    match decide_read(&own, &namespace, key, item) {
        Err(refusal) => Draft::new(Answer::Refused(refusal), label, Vec::new()),
        Ok(None) => Draft::new(Answer::NotFound, label, Vec::new()),
        Ok(Some(read)) => {
            let Version { entry, content, provenance, taint } = read.0;
            let answer = Answer::Value { version: entry, content };
            Draft::new(answer, label_of(provenance, taint), vec![entry]).with(read)
        }
    }
}

impl ReadVersion {
    pub(crate) fn apply(self, state: &mut State, id: SessionId, record: &Record) {
        enter(state, id, record);
    }
}

/// Enters what was read earlier.
pub(crate) fn fold(state: &mut State, id: SessionId, record: &Record) -> Option<()> {
    match record.answer {
        Answer::Value { .. } => enter(state, id, record),
        Answer::NotFound | Answer::Refused(_) => {}
        Answer::Done | Answer::Pending { .. } => return None,
    }
    Some(())
}

pub(super) fn enter(state: &mut State, id: SessionId, record: &Record) {
    if let Some(session) = state.sessions.get_mut(&id) {
        session.context.read(record.seq, record.label);
    }
}
