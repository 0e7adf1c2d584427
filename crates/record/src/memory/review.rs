//! Proposals that wait for a reviewer.

use custody_log::{EntryId, Seq, Timestamp};
use serde::{Deserialize, Serialize};

use crate::key::Key;
use crate::memory::item::ContentRef;
use crate::namespace::Namespace;
use crate::principal::PrincipalClaim;

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
    /// The item's key.
    pub key: Key,
    /// The proposed value; `None` would delete.
    pub value: Option<ContentRef>,
    /// The version it was made against.
    pub base: Option<Seq>,
    /// What it depends on.
    pub dependencies: Vec<Seq>,
    /// Who submitted it.
    pub requester: PrincipalClaim,
    /// When it can no longer be approved.
    pub expires: Timestamp,
}
