//! Who asks, as it was proven (docs/design.md §10).

use custody_log::Digest;
use ed25519_dalek::Signature;
use sha2::{Digest as _, Sha256};

use crate::namespace::Tenant;

pub use custody_record::principal::{Credential, Principal, PrincipalClaim, Role};

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

    use custody_log::PrincipalId;

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
