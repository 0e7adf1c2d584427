//! Review: what a human may release or turn down, and only a human.
//!
//! An approval binds to exactly one value, key, namespace, base version and dependency set, or to exactly one call. It
//! can be used once and expires (M11).

use custody_log::{Digest, EntryId, Timestamp};

use super::call::answer;
use super::draft::{Draft, done_or_refused};
use super::write::{WriteContext, check_mutable};
use crate::label::{Taint, Trust};
use crate::memory::item::{Item, Version};
use crate::memory::refusal::Refusal;
use crate::memory::review::{Pending, Purpose};
use crate::namespace::Tenant;
use crate::principal::{Authority, Credential, PrincipalClaim, Role};
use crate::record::Record;
use crate::state::State;
use crate::tool::asked::{ApprovalStatus, AskedCall};

/// A released proposal. Only [`decide_declassify`] and [`decide_review`] make one, and committing consumes it.
#[derive(Debug)]
pub struct Released {
    pending: Pending,
}

impl Released {
    /// The proposal that was released.
    pub const fn pending(&self) -> &Pending {
        &self.pending
    }
}

/// A call that may be proposed once more, and then runs. Only [`decide_approve_call`] makes one.
#[derive(Debug)]
pub struct ApprovedCall {
    proposal: EntryId,
}

/// A proposed change that is turned down. Only [`decide_deny`] makes one.
#[derive(Debug)]
pub struct DeniedWrite {
    proposal: EntryId,
}

/// A call that is turned down. Only [`decide_turn_down`] makes one.
#[derive(Debug)]
pub struct DeniedCall {
    proposal: EntryId,
}

/// What a reviewer looks at when deciding about a proposal.
#[derive(Debug, Clone, Copy)]
pub struct Approval<'a> {
    /// Who approves.
    pub reviewer: &'a Authority,
    /// The commitment of the value that the reviewer was shown; `None` for a delete.
    pub shown: Option<Digest>,
    /// What the store holds under that key now, and the time.
    pub context: WriteContext<'a>,
}

/// Decides whether a reviewer may declassify a tainted proposal.
///
/// The version it releases is stored with τ = 0; the graph keeps its edges and origins.
///
/// # Errors
/// Why not: who asks, what they saw, or what happened in between.
///
/// Source: MON §3.3 rule 8 ("explicit TRUSTED authorization"); docs/design.md §4.3.
pub fn decide_declassify(pending: &Pending, approval: &Approval<'_>) -> Result<Released, Refusal> {
    release(pending, approval)
}

/// Decides whether a reviewer may release a clean proposal to an item in mode `reviewed`.
///
/// # Errors
/// As [`decide_declassify`].
///
/// Source: docs/design.md §4.3.
pub fn decide_review(pending: &Pending, approval: &Approval<'_>) -> Result<Released, Refusal> {
    release(pending, approval)
}

/// Decides whether a reviewer may turn a proposal down. The requester may withdraw it: only approving one's own is
/// forbidden.
///
/// # Errors
/// [`Refusal::NeedsReviewer`].
pub fn decide_deny(pending: &Pending, reviewer: &Authority) -> Result<DeniedWrite, Refusal> {
    may_turn_down(&pending.namespace.tenant, &pending.requester, reviewer)?;
    Ok(DeniedWrite { proposal: pending.proposal })
}

/// Decides whether a reviewer may approve a call.
///
/// # Errors
/// Why not: who asks, what they saw, or that it was answered or expired.
pub fn decide_approve_call(
    asked: &AskedCall,
    reviewer: &Authority,
    shown: Option<Digest>,
    now: Timestamp,
) -> Result<ApprovedCall, Refusal> {
    let proposal = asked.proposal;
    may_review(&asked.tenant, &asked.requester, reviewer)?;
    if asked.standing != ApprovalStatus::Waiting {
        return Err(Refusal::NotPending { proposal });
    }
    if now >= asked.expires {
        return Err(Refusal::Expired { proposal });
    }
    if shown != Some(asked.arguments.commitment) {
        return Err(Refusal::OtherContent { proposal });
    }
    Ok(ApprovedCall { proposal })
}

/// Decides whether a reviewer may turn a call down. The requester may withdraw their own.
///
/// # Errors
/// [`Refusal::NeedsReviewer`], or [`Refusal::NotPending`] when it ran.
pub fn decide_turn_down(asked: &AskedCall, reviewer: &Authority) -> Result<DeniedCall, Refusal> {
    may_turn_down(&asked.tenant, &asked.requester, reviewer)?;
    let proposal = asked.proposal;
    match asked.standing {
        // An approval that was not used yet can be taken back.
        ApprovalStatus::Waiting | ApprovalStatus::Approved => Ok(DeniedCall { proposal }),
        ApprovalStatus::TurnedDown | ApprovalStatus::Used => Err(Refusal::NotPending { proposal }),
    }
}

fn release(pending: &Pending, approval: &Approval<'_>) -> Result<Released, Refusal> {
    may_review(&pending.namespace.tenant, &pending.requester, approval.reviewer)?;
    let proposal = pending.proposal;
    if approval.context.now >= pending.expires {
        return Err(Refusal::Expired { proposal });
    }
    if approval.shown != pending.value.map(|value| value.commitment) {
        return Err(Refusal::OtherContent { proposal });
    }
    // As for any delete, imitation is no obstacle to being removed.
    let look_alike = approval.context.look_alike.filter(|_| pending.value.is_some());
    check_mutable(&WriteContext { look_alike, ..approval.context }, &pending.key)?;
    let present = approval.context.target.and_then(Item::entry);
    let last_change = approval.context.target.and_then(|item| item.last_change);
    // An item that was written and deleted since is as absent as before, and still not the same.
    if present != pending.base || last_change > Some(pending.entry) {
        return Err(Refusal::Stale { proposal, key: pending.key.clone() });
    }
    Ok(Released { pending: pending.clone() })
}

/// Whether `reviewer` may answer what `requester` asks for `tenant`.
fn may_review(
    tenant: &Tenant,
    requester: &PrincipalClaim,
    reviewer: &Authority,
) -> Result<(), Refusal> {
    let who = reviewer.who();
    if !reviewer.is_human() {
        return Err(Refusal::NeedsReviewer);
    }
    let same = who.principal.is_some() && who.principal == requester.principal;
    let may = match who.role {
        Role::Owner => true,
        Role::Reviewer => who.tenant == *tenant,
        // The human for whom the agent worked.
        Role::User => same,
        Role::Agent | Role::Service => false,
    };
    if !may {
        return Err(Refusal::NeedsReviewer);
    }
    // Under a token it was the agent that submitted; the human behind it is another requester.
    if same && requester.credential == Credential::Passphrase {
        return Err(Refusal::OwnProposal);
    }
    Ok(())
}

/// Whether `reviewer` may turn it down, or withdraw it.
fn may_turn_down(
    tenant: &Tenant,
    requester: &PrincipalClaim,
    reviewer: &Authority,
) -> Result<(), Refusal> {
    match may_review(tenant, requester, reviewer) {
        Ok(()) | Err(Refusal::OwnProposal) => Ok(()),
        Err(refusal) => Err(refusal),
    }
}

/// What is approved.
#[derive(Debug)]
pub(crate) enum Approved {
    /// A change.
    Write(Released),
    /// A call.
    Call(ApprovedCall),
}

/// What is turned down.
#[derive(Debug)]
pub(crate) enum Denied {
    /// A change.
    Write(DeniedWrite),
    /// A call.
    Call(DeniedCall),
}

pub(crate) fn decide_approve(
    state: &State,
    reviewer: &Authority,
    proposal: EntryId,
    shown: Option<Digest>,
    at: Timestamp,
) -> Draft<Approved> {
    if let Some(asked) = state.asked_call(proposal) {
        let outcome = if state.is_out(asked.entry) {
            Err(Refusal::InQuarantine { entry: asked.entry })
        } else {
            decide_approve_call(asked, reviewer, shown, at)
        };
        return Draft::administrative(outcome.map(Approved::Call)).below(asked.entry, state);
    }
    let Some(pending) = state.pending_by_id(proposal) else {
        return Draft::administrative(Err(Refusal::NotPending { proposal }));
    };
    if let Some(entry) = state.held_back(pending) {
        let refused = Draft::administrative(Err(Refusal::InQuarantine { entry }));
        return refused.below(pending.entry, state);
    }
    let context = WriteContext::of(state, &pending.namespace, &pending.key, reviewer.who(), at);
    let approval = Approval { reviewer, shown, context };
    let released = match pending.purpose {
        Purpose::Declassify => decide_declassify(pending, &approval),
        Purpose::Review => decide_review(pending, &approval),
        // Calls wait elsewhere.
        Purpose::Call => Err(Refusal::NotPending { proposal }),
    };
    Draft::administrative(released.map(Approved::Write))
        .changing(context.target)
        .releasing(pending.value)
        .below(pending.entry, state)
}

pub(crate) fn decide_denial(
    state: &State,
    reviewer: &Authority,
    proposal: EntryId,
) -> Draft<Denied> {
    if let Some(asked) = state.asked_call(proposal) {
        let outcome = decide_turn_down(asked, reviewer);
        return Draft::administrative(outcome.map(Denied::Call)).below(asked.entry, state);
    }
    let Some(pending) = state.pending_by_id(proposal) else {
        return Draft::administrative(Err(Refusal::NotPending { proposal }));
    };
    let outcome = decide_deny(pending, reviewer);
    Draft::administrative(outcome.map(Denied::Write)).below(pending.entry, state)
}

impl Approved {
    pub(crate) fn apply(self, state: &mut State, record: &Record) {
        match self {
            Self::Write(Released { pending }) => {
                state.end_waiting(pending.proposal);
                put_in_force(state, record, &pending);
            }
            Self::Call(ApprovedCall { proposal }) => {
                answer(state, proposal, ApprovalStatus::Approved);
            }
        }
    }
}

impl Denied {
    pub(crate) fn apply(self, state: &mut State) {
        match self {
            Self::Write(DeniedWrite { proposal }) => {
                state.end_waiting(proposal);
            }
            Self::Call(DeniedCall { proposal }) => {
                answer(state, proposal, ApprovalStatus::TurnedDown);
            }
        }
    }
}

/// Approves what was approved earlier.
pub(crate) fn fold_approve(state: &mut State, record: &Record, proposal: EntryId) -> Option<()> {
    if record.answer.is_done() && !state.knows_proposal(proposal) {
        return None;
    }
    done_or_refused(record, || {
        answer(state, proposal, ApprovalStatus::Approved);
        if let Some(pending) = state.end_waiting(proposal) {
            put_in_force(state, record, &pending);
        }
    })
}

/// Turns down what was turned down earlier.
pub(crate) fn fold_denial(state: &mut State, record: &Record, proposal: EntryId) -> Option<()> {
    if record.answer.is_done() && !state.knows_proposal(proposal) {
        return None;
    }
    done_or_refused(record, || {
        answer(state, proposal, ApprovalStatus::TurnedDown);
        state.end_waiting(proposal);
    })
}

/// A released proposal becomes a version with τ = 0, whatever its entry's label (docs/design.md §4.3,
/// declassification).
fn put_in_force(state: &mut State, record: &Record, pending: &Pending) {
    let (entry, provenance, taint) = (record.seq, Trust::Trusted, Taint::Clean);
    let version = pending.value.map(|content| Version { entry, content, provenance, taint });
    state.items.change(&pending.namespace, &pending.key, entry, version);
}
