//! Calls that wait for a human.
//!
//! An approval holds for one tool, its manifest, one list of canonical arguments, one session and one policy;
//! once, and until it expires.

use custody_log::{Digest, EntryId, Seq, SessionId, Timestamp};

use crate::memory::item::ContentRef;
use crate::namespace::Tenant;
use crate::principal::PrincipalClaim;

/// A call that a human is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedCall {
    /// The entry that proposed it; also its name.
    pub proposal: EntryId,
    /// Where that entry stands.
    pub entry: Seq,
    /// The session that proposed it.
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
    pub requester: PrincipalClaim,
    /// When it can no longer be approved, nor an approval be used.
    pub expires: Timestamp,
    /// What became of it.
    pub standing: ApprovalStatus,
}

impl AskedCall {
    /// Whether the question is worth its answer: an approval under another manifest or policy would not hold. What was
    /// turned down or has run was answered for good.
    pub fn still_stands(&self, manifest: Digest, policy: Digest) -> bool {
        match self.standing {
            ApprovalStatus::Waiting | ApprovalStatus::Approved => {
                self.manifest == manifest && self.policy == policy
            }
            ApprovalStatus::TurnedDown | ApprovalStatus::Used => true,
        }
    }
}

/// What became of a call that a human was asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalStatus {
    /// Nobody answered.
    Waiting,
    /// It may run once.
    Approved,
    /// It may not run.
    TurnedDown,
    /// It ran.
    Used,
}
