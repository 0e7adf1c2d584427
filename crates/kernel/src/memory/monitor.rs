//! The reference monitor: MON rules 1–7 and 9, one pure function per action.
//!
//! Every function reads nothing but its arguments and returns a witness or a refusal. The rules
//! are tried in the paper's order, immutable (3), tainted (4), untrusted (5), so a refusal names
//! the first that failed. No detector score is an argument anywhere.
//!
//! Rule 8, propagation, is [`Label::join`](crate::label::Label::join) over the parents of every
//! entry; rule 9, visibility, is [`visible`].

use custody_log::Timestamp;

use crate::context::Dependencies;
use crate::key::Key;
use crate::label::{Taint, Trust};
use crate::memory::item::{ContentRef, Item, Mode, Version};
use crate::memory::rate::{Limits, RateWindow};
use crate::memory::refusal::Refusal;
use crate::namespace::{Namespace, Scope};

/// What the store holds that bears on one key, gathered by [`State`](crate::state::State).
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The item under this key in the namespace asked for.
    pub target: Option<&'a Item>,
    /// The shared item under this key in the same tenant.
    pub shared: Option<&'a Item>,
    /// A protected shared key that this one could be taken for.
    pub look_alike: Option<&'a Key>,
    /// The asker's own recent changes in this namespace.
    pub recent: Option<&'a RateWindow>,
    /// The store's limits.
    pub limits: &'a Limits,
    /// The time of the request.
    pub now: Timestamp,
}

/// One proposed change of one item. A delete is a write of nothing.
#[derive(Debug, Clone)]
pub struct WriteProposal {
    /// Where.
    pub namespace: Namespace,
    /// Under which key.
    pub key: Key,
    /// What; `None` deletes.
    pub value: Option<ContentRef>,
    /// On what it depends.
    pub dependencies: Dependencies,
    /// π: the trust of the principal the session runs for.
    pub on_behalf_of: Trust,
}

/// A change that the monitor accepted, or that only a reviewer's word is missing for. Only
/// [`decide_write`], [`decide_delete`] and [`decide_promote`] make one, and the store commits
/// nothing else, so skipping the check does not compile.
#[derive(Debug)]
pub struct AcceptedWrite {
    proposal: WriteProposal,
    needs_review: bool,
}

impl Surroundings<'_> {
    /// When the asker's next change is allowed, if not now.
    pub(crate) fn wait_until(&self) -> Option<Timestamp> {
        match self.recent {
            Some(recent) => recent.wait_until(self.limits, self.now),
            None => RateWindow::default().wait_until(self.limits, self.now),
        }
    }
}

impl AcceptedWrite {
    /// Whether the item's mode is `reviewed`, so that this becomes a pending proposal.
    pub const fn needs_review(&self) -> bool {
        self.needs_review
    }

    /// What was accepted.
    pub const fn proposal(&self) -> &WriteProposal {
        &self.proposal
    }
}

/// Decides one proposed write against the item it would replace.
///
/// # Errors
/// The refusing rule, with what a reviewer needs to act on it.
///
/// Source: MON §3.3 rules 2–5; docs/design.md §4.2 and §4.5.
pub fn decide_write(
    around: &Surroundings<'_>,
    proposal: WriteProposal,
) -> Result<AcceptedWrite, Refusal> {
    immutable(around, &proposal.key)?;
    tainted(&proposal)?;
    untrusted(&proposal)?;
    accepted(around, proposal)
}

/// Decides one proposed delete: a write of nothing, so rules 2–5.
///
/// # Errors
/// The refusing rule.
///
/// Source: docs/design.md §4.2.
pub fn decide_delete(
    around: &Surroundings<'_>,
    proposal: WriteProposal,
) -> Result<AcceptedWrite, Refusal> {
    // What imitates a protected key may be removed by whoever could otherwise write there; refusing
    // that would leave a look-alike from before the lock standing for ever.
    let around = Surroundings { look_alike: None, ..*around };
    decide_write(&around, WriteProposal { value: None, ..proposal })
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
    around: &Surroundings<'_>,
    source: &Version,
    proposal: WriteProposal,
) -> Result<AcceptedWrite, Refusal> {
    if proposal.namespace.tenant.is_replay() {
        return Err(Refusal::PromoteReplayed { key: proposal.key });
    }
    immutable(around, &proposal.key)?;
    if source.taint == Taint::Tainted {
        return Err(Refusal::PromoteTainted { key: proposal.key });
    }
    tainted(&proposal)?;
    if proposal.on_behalf_of == Trust::Untrusted || source.provenance == Trust::Untrusted {
        return Err(Refusal::PromoteUntrusted { key: proposal.key });
    }
    accepted(around, proposal)
}

/// Decides a read by a session of `reader`'s namespace, in the namespace `asked` for.
///
/// Returns the version read, or `None` when the visible namespace holds nothing there.
///
/// # Errors
/// [`Refusal::NotVisible`] when `asked` is neither the reader's own nor shared.
///
/// Source: MON §3.3 rules 1 and 9.
pub fn decide_read<'a>(
    reader: &Namespace,
    asked: &Namespace,
    key: &Key,
    item: Option<&'a Item>,
) -> Result<Option<&'a Version>, Refusal> {
    if !visible(reader, asked) {
        return Err(Refusal::NotVisible { key: key.clone() });
    }
    Ok(item.and_then(|item| item.current.as_ref()))
}

/// Rule 9: a session sees its own namespace and the shared one of its tenant.
pub fn visible(reader: &Namespace, asked: &Namespace) -> bool {
    reader == asked || (reader.tenant == asked.tenant && asked.scope == Scope::Shared)
}

/// Rule 3, and its two extensions: shadowing and look-alikes.
pub(crate) fn immutable(around: &Surroundings<'_>, key: &Key) -> Result<(), Refusal> {
    // A session item of the same key would hide a protected shared one (M2), so the
    // shared item speaks for every session of the tenant.
    let locked = |item: Option<&Item>| item.is_some_and(|item| item.mode == Mode::Immutable);
    if locked(around.target) || locked(around.shared) {
        return Err(Refusal::Immutable { key: key.clone() });
    }
    match around.look_alike {
        Some(protected) => {
            Err(Refusal::Confusable { key: key.clone(), protected: protected.clone() })
        }
        None => Ok(()),
    }
}

fn tainted(proposal: &WriteProposal) -> Result<(), Refusal> {
    match proposal.dependencies.culprit() {
        Some(culprit) => {
            Err(Refusal::Tainted { key: proposal.key.clone(), culprit: culprit.clone() })
        }
        None => Ok(()),
    }
}

fn untrusted(proposal: &WriteProposal) -> Result<(), Refusal> {
    match proposal.on_behalf_of {
        Trust::Trusted => Ok(()),
        Trust::Untrusted => Err(Refusal::Untrusted { key: proposal.key.clone() }),
    }
}

fn accepted(around: &Surroundings<'_>, proposal: WriteProposal) -> Result<AcceptedWrite, Refusal> {
    // Counted only here, so that refused attempts cannot use up anybody's window.
    if let Some(until) = around.wait_until() {
        return Err(Refusal::RateLimited { key: proposal.key, until });
    }
    // A session's own copy of a key that is under review when shared is reviewed as well:
    // otherwise it would hide what the reviewer approved.
    let reviewed = |item: Option<&Item>| item.is_some_and(|item| item.mode == Mode::Reviewed);
    let needs_review = reviewed(around.target) || reviewed(around.shared);
    Ok(AcceptedWrite { proposal, needs_review })
}
