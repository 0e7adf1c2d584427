//! What an owner keeps of a store of format 1, in which no act of a human is signed.

use custody_log::{Digest, PrincipalId, Seq};
use serde::{Deserialize, Serialize};

use crate::key::Key;
use crate::memory::rate::Limits;
use crate::namespace::{Scope, Tenant};

/// The claims of a store of format 1 that its owner signs. What is not among them lapses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptClaims {
    /// Principals that stay registered, besides the owner.
    pub principals: Vec<PrincipalId>,
    /// Items whose mode stays. Every other item whose mode was ever set becomes immutable.
    pub modes: Vec<KeptMode>,
    /// The policy for tool calls that stays in force; without it the one that ships is.
    pub policy: Option<Digest>,
    /// Records that released a value or adopted a file, and whose version stays clean. Every other one is tainted.
    pub released: Vec<Seq>,
    /// The limits from here on.
    pub limits: Limits,
}

/// An item whose mode stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptMode {
    /// The tenant of the item.
    pub tenant: Tenant,
    /// The scope of the item.
    pub scope: Scope,
    /// The item's key.
    pub key: Key,
}
