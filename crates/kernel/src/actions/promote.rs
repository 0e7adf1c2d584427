//! Promoting an item of a session to the shared namespace: MON rules 6 and 7.

use custody_log::SessionId;

use super::draft::{Draft, InSession};
use super::read::label_of;
use super::write::{
    AcceptedWrite, AskedChange, DecidedWrite, ItemChange, WriteContext, WriteProposal, accept,
    check_clean, check_mutable, draft, fold_change,
};
use crate::context::Added;
use crate::key::Key;
use crate::label::{Taint, Trust};
use crate::memory::item::Version;
use crate::memory::refusal::Refusal;
use crate::namespace::{Namespace, Scope};
use crate::principal::Authority;
use crate::record::{Answer, Record};
use crate::state::{AskError, State};

/// A promotion that the monitor accepted, or that only a reviewer's word is missing for. Only [`decide_promote`] makes
/// one, and committing consumes it.
#[derive(Debug)]
pub struct AcceptedPromotion(AcceptedWrite);

impl AcceptedPromotion {
    /// The write that it amounts to.
    pub const fn write(&self) -> &AcceptedWrite {
        &self.0
    }
}

/// Decides a promotion of `source` from a session to the shared namespace.
///
/// `proposal` is the write it amounts to on the shared key, with `source`'s content as its value
/// and the context of whoever asks among its dependencies. Promotion never clears taint
/// (M9): a tainted item is refused.
///
/// # Errors
/// The refusing rule.
///
/// Source: MON §3.3 rules 6 and 7; docs/design.md §4.2: promotion onto an existing key is a write to
/// it, a tainted context refuses it by rule 4, and replayed traces are never promoted.
pub fn decide_promote(
    context: &WriteContext<'_>,
    source: &Version,
    proposal: WriteProposal,
) -> Result<AcceptedPromotion, Refusal> {
    check_not_replayed(&proposal)?;
    check_mutable(context, &proposal.key)?;
    if source.taint == Taint::Tainted {
        return Err(Refusal::PromoteTainted { key: proposal.key });
    }
    check_clean(&proposal)?;
    if source.provenance == Trust::Untrusted {
        return Err(Refusal::PromoteUntrusted { key: proposal.key });
    }
    check_authorised(&proposal)?;
    accept(context, proposal).map(AcceptedPromotion)
}

/// Rules 6 and 7, for whatever comes to stand in the shared namespace, promoted or written there: whoever asks is
/// trusted, and is nobody in a replayed trace.
pub(super) fn check_authorised(proposal: &WriteProposal) -> Result<(), Refusal> {
    check_not_replayed(proposal)?;
    match proposal.on_behalf_of {
        Trust::Trusted => Ok(()),
        Trust::Untrusted => Err(Refusal::PromoteUntrusted { key: proposal.key.clone() }),
    }
}

fn check_not_replayed(proposal: &WriteProposal) -> Result<(), Refusal> {
    if proposal.namespace.tenant.is_replay() {
        return Err(Refusal::PromoteReplayed { key: proposal.key.clone() });
    }
    Ok(())
}

/// A promotion as it is committed: the write that it amounts to.
#[derive(Debug)]
pub(crate) struct DecidedPromotion(DecidedWrite);

pub(crate) fn decide(
    asked: InSession<'_>,
    from: SessionId,
    key: &Key,
) -> Result<Draft<DecidedPromotion>, AskError> {
    let InSession { state, session, at, .. } = asked;
    let source = Namespace::session(session.who.tenant.clone(), from);
    // A human may share what any session of their tenant holds; an agent only its own.
    let may_see = from == asked.id || Authority::recorded(session.who.clone()).is_human();
    let version = state.item(&source, key).and_then(|item| item.current).filter(|_| may_see);
    let Some(version) = version else {
        return Err(AskError::NoSuchItem { namespace: source, key: key.clone() });
    };
    let added = Added { parents: vec![version.entry], source: None };
    let value = Some(version.content);
    let change = AskedChange { asked, scope: Scope::Shared, key, value, added };
    let (proposal, label) = change.proposal();
    let label = label.join(label_of(version.provenance, version.taint));
    let parents = proposal.dependencies.parents().to_vec();
    let context = WriteContext::of(state, &proposal.namespace, key, &session.who, at);
    let outcome = decide_promote(&context, &version, proposal).map(|promotion| promotion.0);
    let promoted = Draft::new(Answer::Done, label, parents);
    let promoted = draft(state, &session.who, &context, outcome, None, promoted);
    Ok(promoted.releasing(Some(version.content)).map(DecidedPromotion))
}

impl DecidedPromotion {
    pub(crate) fn apply(self, state: &mut State, id: SessionId, record: &Record) {
        self.0.apply(state, id, record);
    }
}

/// Promotes what was promoted earlier.
pub(crate) fn fold(
    state: &mut State,
    id: SessionId,
    record: &Record,
    from: SessionId,
    key: &Key,
) -> Option<()> {
    let tenant = state.session(id)?.who.tenant.clone();
    let source = Namespace::session(tenant.clone(), from);
    let content = state.item(&source, key).and_then(|item| item.current).map(|v| v.content);
    if content.is_none() && !matches!(record.answer, Answer::Refused(_)) {
        return None;
    }
    let change =
        ItemChange { namespace: Namespace::shared(tenant), key: key.clone(), value: content };
    fold_change(state, id, record, change)
}
