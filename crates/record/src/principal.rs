//! Principals: who may ask, and what a record keeps of who asked (docs/design.md §10).

use std::fmt;

use custody_log::{Digest, PrincipalId};
use ed25519_dalek::VerifyingKey;
use serde::{Deserialize, Serialize};

use crate::label::Trust;
use crate::namespace::Tenant;

/// What a principal may do at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Holds the owner key of the store.
    Owner,
    /// A human who may approve what others propose.
    Reviewer,
    /// A human for whom agents work.
    User,
    /// An agent that works for nobody in particular.
    Agent,
    /// A program that brings its own users.
    Service,
}

impl Role {
    /// π of a session that runs for this role: owner, reviewer and user are trusted, an agent or
    /// service alone is not.
    ///
    /// Source: docs/design.md §3.3.
    pub const fn trust(self) -> Trust {
        match self {
            Self::Owner | Self::Reviewer | Self::User => Trust::Trusted,
            Self::Agent | Self::Service => Trust::Untrusted,
        }
    }

    /// Whether this role is a person, and so has a key of their own under a passphrase.
    pub const fn is_human(self) -> bool {
        matches!(self, Self::Owner | Self::Reviewer | Self::User)
    }

    /// The name used in records and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Reviewer => "reviewer",
            Self::User => "user",
            Self::Agent => "agent",
            Self::Service => "service",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A registered principal. Holds nothing that proves anything: a public key and the hash of a
/// token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// Made by us.
    pub id: PrincipalId,
    /// What people call them. Unique within the store.
    pub name: String,
    /// What they may do at most.
    pub role: Role,
    /// The tenant they act in.
    pub tenant: Tenant,
    /// Ed25519 public key of a human, 32 bytes.
    pub public_key: Option<Digest>,
    /// SHA-256 of the bearer token that opens agent sessions for them.
    pub token_hash: Option<Digest>,
}

impl Principal {
    /// The public key of a human, if it is one.
    pub fn verifying_key(&self) -> Option<VerifyingKey> {
        VerifyingKey::from_bytes(&self.public_key?.0).ok()
    }
}

/// What was shown to prove who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Credential {
    /// A passphrase typed by a human unlocked their key, and the key signed a fresh challenge.
    Passphrase,
    /// A bearer token. An agent's shell may hold it, so it proves no human.
    Token,
    /// Nothing.
    None,
}

/// What the record keeps of who asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrincipalClaim {
    /// `None` when nothing was proven.
    pub principal: Option<PrincipalId>,
    /// The role they act in.
    pub role: Role,
    /// Whose data they act on.
    pub tenant: Tenant,
    /// How they proved it.
    pub credential: Credential,
}
