//! Review: what a human may release, change or adopt, and only a human.
//!
//! An approval binds to exactly one value, key, namespace, base version and dependency set, can be
//! used once and expires (M11).

use custody_log::{Digest, EntryId, Seq, Timestamp};
use serde::{Deserialize, Serialize};

use crate::key::Key;
use crate::memory::item::{ContentRef, Item};
use crate::memory::monitor::{Surroundings, immutable};
use crate::memory::refusal::Refusal;
use crate::namespace::{Namespace, Tenant};
use crate::principal::{Authority, Credential, Role, Who};

/// What a pending proposal waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The item is in mode `reviewed`; the proposal is clean.
    Review,
    /// Rule 4 refused it; a reviewer may declassify exactly this text.
    Declassify,
    /// A tool call that the floor or the policy asks about.
    Call,
}

/// A change that waits for a reviewer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The entry that proposed it; also its name.
    pub proposal: EntryId,
    /// Where that entry stands.
    pub entry: Seq,
    /// Why it waits.
    pub purpose: Purpose,
    /// Where it would be stored.
    pub namespace: Namespace,
    /// Under which key.
    pub key: Key,
    /// The proposed value; `None` would delete.
    pub value: Option<ContentRef>,
    /// The version it was made against.
    pub base: Option<Seq>,
    /// What it depends on.
    pub dependencies: Vec<Seq>,
    /// Who submitted it.
    pub requester: Who,
    /// When it can no longer be approved.
    pub expires: Timestamp,
}

/// A released proposal. Only [`decide_declassify`] and [`decide_review`] make one.
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

/// What a reviewer looks at when deciding about `pending`.
#[derive(Debug, Clone, Copy)]
pub struct Approval<'a> {
    /// Who approves.
    pub reviewer: &'a Authority,
    /// The commitment of the value that the reviewer was shown; `None` for a delete.
    pub shown: Option<Digest>,
    /// What the store holds under that key now, and the time.
    pub around: Surroundings<'a>,
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

/// Decides whether a reviewer may turn a proposal down.
///
/// # Errors
/// [`Refusal::NeedsReviewer`]. The requester may withdraw: only approving one's own is forbidden.
pub fn decide_deny(pending: &Pending, reviewer: &Authority) -> Result<(), Refusal> {
    match reviews(&pending.namespace.tenant, &pending.requester, reviewer) {
        Ok(()) | Err(Refusal::OwnProposal) => Ok(()),
        Err(refusal) => Err(refusal),
    }
}

/// Decides whether an owner may set the mode of an item: locking, unlocking or putting under
/// review.
///
/// # Errors
/// [`Refusal::NeedsOwner`] for everybody else, agents with an owner's token included.
///
/// Source: docs/design.md §4.2: modes are changed by an owner only. A replayed trace sets up
/// its own tenant, where everything is a claim anyway.
pub fn decide_unlock(authority: &Authority, tenant: &Tenant) -> Result<(), Refusal> {
    if tenant.is_replay() && authority.who().tenant == *tenant {
        return Ok(());
    }
    needs_owner(authority)
}

/// Decides whether somebody may do what only the owner may: register principals, adopt files and
/// stores, change limits, rotate keys.
///
/// # Errors
/// [`Refusal::NeedsOwner`].
pub fn needs_owner(authority: &Authority) -> Result<(), Refusal> {
    if authority.is_owner() { Ok(()) } else { Err(Refusal::NeedsOwner) }
}

fn release(pending: &Pending, approval: &Approval<'_>) -> Result<Released, Refusal> {
    reviews(&pending.namespace.tenant, &pending.requester, approval.reviewer)?;
    let proposal = pending.proposal;
    if approval.around.now >= pending.expires {
        return Err(Refusal::Expired { proposal });
    }
    if approval.shown != pending.value.map(|value| value.commitment) {
        return Err(Refusal::OtherContent { proposal });
    }
    // As for any delete, imitation is no obstacle to being removed.
    let look_alike = approval.around.look_alike.filter(|_| pending.value.is_some());
    immutable(&Surroundings { look_alike, ..approval.around }, &pending.key)?;
    let present = approval.around.target.and_then(Item::entry);
    let last_change = approval.around.target.and_then(|item| item.last_change);
    // An item that was written and deleted since is as absent as before, and still not the same.
    if present != pending.base || last_change > Some(pending.entry) {
        return Err(Refusal::Stale { proposal, key: pending.key.clone() });
    }
    Ok(Released { pending: pending.clone() })
}

/// Whether `reviewer` may answer what `requester` asks for `tenant`.
pub(crate) fn reviews(
    tenant: &Tenant,
    requester: &Who,
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
