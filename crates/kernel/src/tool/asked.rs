//! Calls that wait for a human.
//!
//! An approval holds for one tool, its manifest, one list of canonical arguments, one session and one policy;
//! once, and until it expires.

use custody_log::{Digest, EntryId, Seq, SessionId, Timestamp};

use super::call::Call;
use crate::memory::item::ContentRef;
use crate::memory::refusal::Refusal;
use crate::memory::review::reviews;
use crate::namespace::Tenant;
use crate::principal::{Authority, Who};
use crate::record::Value;

/// A call that a human is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedCall {
    /// The entry that proposed it; also its name.
    pub proposal: EntryId,
    /// Where that entry stands.
    pub entry: Seq,
    /// In which session.
    pub session: SessionId,
    /// Whose data it acts on.
    pub tenant: Tenant,
    /// The tool's name.
    pub tool: String,
    /// Its manifest.
    pub manifest: Digest,
    /// The canonical arguments.
    pub arguments: ContentRef,
    /// The policy in force.
    pub policy: Digest,
    /// Who submitted it.
    pub requester: Who,
    /// When it can no longer be approved, nor an approval be used.
    pub expires: Timestamp,
    /// What became of it.
    pub standing: Standing,
}

impl AskedCall {
    /// Whether the question is worth its answer: an approval under another manifest or policy would not hold. What was
    /// turned down or has run was answered for good.
    pub fn still_stands(&self, manifest: Digest, policy: Digest) -> bool {
        match self.standing {
            Standing::Waiting | Standing::Approved => {
                self.manifest == manifest && self.policy == policy
            }
            Standing::TurnedDown | Standing::Used => true,
        }
    }
}

/// What became of a call that a human was asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nobody answered.
    Waiting,
    /// It may run once.
    Approved,
    /// It may not run.
    TurnedDown,
    /// It ran.
    Used,
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
) -> Result<(), Refusal> {
    let proposal = asked.proposal;
    reviews(&asked.tenant, &asked.requester, reviewer)?;
    if asked.standing != Standing::Waiting {
        return Err(Refusal::NotPending { proposal });
    }
    if now >= asked.expires {
        return Err(Refusal::Expired { proposal });
    }
    if shown != Some(asked.arguments.commitment) {
        return Err(Refusal::OtherContent { proposal });
    }
    Ok(())
}

/// Decides whether a reviewer may turn a call down. The requester may withdraw their own.
///
/// # Errors
/// [`Refusal::NeedsReviewer`], or [`Refusal::NotPending`] when it ran.
pub fn decide_turn_down(asked: &AskedCall, reviewer: &Authority) -> Result<(), Refusal> {
    match reviews(&asked.tenant, &asked.requester, reviewer) {
        Ok(()) | Err(Refusal::OwnProposal) => {}
        Err(refusal) => return Err(refusal),
    }
    match asked.standing {
        // An approval that was not used yet can be taken back.
        Standing::Waiting | Standing::Approved => Ok(()),
        Standing::TurnedDown | Standing::Used => {
            Err(Refusal::NotPending { proposal: asked.proposal })
        }
    }
}

/// Decides whether `call`, proposed in `session`, may use the approval of `asked`.
///
/// # Errors
/// What differs from what was approved.
///
/// Source: docs/design.md §5.6.
pub fn decide_use(
    asked: &AskedCall,
    session: SessionId,
    call: &Call,
    now: Timestamp,
) -> Result<(), Refusal> {
    let proposal = asked.proposal;
    match asked.standing {
        Standing::Approved => {}
        Standing::Waiting => return Err(Refusal::NotApproved { proposal }),
        Standing::TurnedDown => return Err(Refusal::TurnedDown { proposal }),
        Standing::Used => return Err(Refusal::UsedUp { proposal }),
    }
    if now >= asked.expires {
        return Err(Refusal::Expired { proposal });
    }
    // The very content that was shown: equal bytes that arrived otherwise are another proposal.
    let is_same = session == asked.session
        && call.tool == asked.tool
        && call.manifest == asked.manifest
        && call.arguments == Value::Of(asked.arguments);
    if !is_same {
        return Err(Refusal::OtherContent { proposal });
    }
    if call.policy.version != asked.policy {
        return Err(Refusal::OtherPolicy { proposal });
    }
    Ok(())
}
