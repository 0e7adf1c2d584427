//! Principals: who asks, and how they proved it (docs/design.md §10).

use std::fmt;

use custody_log::{Digest, PrincipalId};
use ed25519_dalek::{Signature, VerifyingKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

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

/// A proven asker. Can only be made from a proof, so nobody can act as an owner by saying so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority(PrincipalClaim);

/// Why a proof proves nothing. Says no more than that, so that guessing learns nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// The token is not that principal's.
    #[error("the token is not valid; ask the owner for a new one (`custody principal add`)")]
    Token,
    /// The signature is not that principal's over this challenge.
    #[error("the key is not the one registered for this principal; check `custody principal list`")]
    Signature,
}

/// The bytes a human's key signs to prove presence: a fixed prefix, so that no signature made for
/// another purpose is ever a proof, then the runtime's fresh challenge.
pub fn challenge_bytes(challenge: &[u8; 32]) -> Vec<u8> {
    [b"custody: prove presence\n".as_slice(), challenge].concat()
}

impl Authority {
    /// Acts without any proof: an agent, in `tenant`.
    pub fn unproven(tenant: Tenant) -> Self {
        Self(PrincipalClaim {
            principal: None,
            role: Role::Agent,
            tenant,
            credential: Credential::None,
        })
    }

    /// Acts under a bearer token.
    ///
    /// # Errors
    /// [`CredentialError::Token`] when `token` does not hash to the principal's.
    pub fn by_token(principal: &Principal, token: &[u8]) -> Result<Self, CredentialError> {
        let hash = Digest(Sha256::digest(token).into());
        // Equality of two hashes: timing tells about the hash of the guess, which the guesser knows.
        if principal.token_hash != Some(hash) {
            return Err(CredentialError::Token);
        }
        Ok(Self::of(principal, Credential::Token))
    }

    /// Acts as the human whose key signed `challenge`.
    ///
    /// # Errors
    /// [`CredentialError::Signature`] when the principal has no key or it did not sign this challenge.
    pub fn by_signature(
        principal: &Principal,
        challenge: &[u8; 32],
        signature: &Signature,
    ) -> Result<Self, CredentialError> {
        let key = principal.verifying_key().ok_or(CredentialError::Signature)?;
        key.verify_strict(&challenge_bytes(challenge), signature)
            .map_err(|_| CredentialError::Signature)?;
        Ok(Self::of(principal, Credential::Passphrase))
    }

    /// Plays the part of a user in a replayed trace. Nothing such a tenant holds can leave it.
    ///
    /// Returns `None` when `tenant` is not one for replayed traces.
    pub fn replayed(tenant: Tenant) -> Option<Self> {
        let (role, credential) = (Role::User, Credential::None);
        let is_replay = tenant.is_replay();
        is_replay.then_some(Self(PrincipalClaim { principal: None, role, tenant, credential }))
    }

    /// The same owner, acting on another tenant. Nobody else can change tenants.
    #[must_use]
    pub fn acting_in(self, tenant: Tenant) -> Option<Self> {
        if !self.is_owner() && self.0.tenant != tenant {
            return None;
        }
        Some(Self(PrincipalClaim { tenant, ..self.0 }))
    }

    fn of(principal: &Principal, credential: Credential) -> Self {
        Self(PrincipalClaim {
            principal: Some(principal.id),
            role: principal.role,
            tenant: principal.tenant.clone(),
            credential,
        })
    }

    /// An authority read back from the record, to decide again what was decided then.
    pub(crate) fn recorded(who: PrincipalClaim) -> Self {
        Self(who)
    }

    /// What the record keeps.
    pub fn who(&self) -> &PrincipalClaim {
        &self.0
    }

    /// Whether a human owner is present.
    pub fn is_owner(&self) -> bool {
        self.0.credential == Credential::Passphrase && self.0.role == Role::Owner
    }

    /// Whether a human is present, whoever they are.
    pub fn is_human(&self) -> bool {
        self.0.credential == Credential::Passphrase && self.0.role.is_human()
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::{Signer, SigningKey};

    use super::*;

    fn principal(role: Role, key: &SigningKey, token: &[u8]) -> Principal {
        Principal {
            id: PrincipalId::from_random([1; 16]),
            name: "ada".into(),
            role,
            tenant: Tenant::main(),
            public_key: Some(Digest(key.verifying_key().to_bytes())),
            token_hash: Some(Digest::of(token)),
        }
    }

    #[test]
    fn only_a_signature_over_this_challenge_proves_a_human() {
        let key = SigningKey::from_bytes(&[3; 32]);
        let owner = principal(Role::Owner, &key, b"token");
        let signature = key.sign(&challenge_bytes(&[9; 32]));
        assert!(Authority::by_signature(&owner, &[9; 32], &signature).unwrap().is_owner());
        assert_eq!(
            Authority::by_signature(&owner, &[8; 32], &signature),
            Err(CredentialError::Signature),
            "an old signature proves nothing today"
        );
        let bare = key.sign(&[9; 32]);
        assert!(Authority::by_signature(&owner, &[9; 32], &bare).is_err());
    }

    #[test]
    fn a_token_opens_sessions_but_is_no_human() {
        let key = SigningKey::from_bytes(&[3; 32]);
        let owner = principal(Role::Owner, &key, b"token");
        let authority = Authority::by_token(&owner, b"token").unwrap();
        assert!(!authority.is_owner() && !authority.is_human());
        assert_eq!(Authority::by_token(&owner, b"guess"), Err(CredentialError::Token));
    }
}
