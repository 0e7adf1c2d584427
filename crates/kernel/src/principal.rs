//! Who asks, as it was proven (docs/design.md §10).

use std::fmt;

use custody_log::Digest;
use ed25519_dalek::SigningKey;

use crate::namespace::Tenant;
use crate::record::{Request, act_bytes};
use crate::signature::{LogPosition, RecordSignature};

pub use custody_record::principal::{Credential, Principal, PrincipalClaim, Role};

/// A proven asker. Can only be made from a proof, so nobody can act as an owner by saying so.
///
/// That of a human holds their key, which signs each of their acts: what a human asks for is recorded with a signature
/// that nobody else can make (G1).
#[derive(Clone, PartialEq, Eq)]
pub struct Authority {
    who: PrincipalClaim,
    key: Option<Box<SigningKey>>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.as_ref().map(|_| "…");
        f.debug_struct("Authority").field("who", &self.who).field("key", &key).finish()
    }
}

/// Why a proof proves nothing. Says no more than that, so that guessing learns nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// The token is not that principal's.
    #[error("the token is not valid; ask the owner for a new one (`custody principal add`)")]
    Token,
    /// The key is not that principal's.
    #[error("the key is not the one registered for this principal; check `custody principal list`")]
    Key,
}

impl Authority {
    /// Acts without any proof: an agent, in `tenant`.
    pub fn unproven(tenant: Tenant) -> Self {
        let (role, credential) = (Role::Agent, Credential::None);
        Self::unsigned(PrincipalClaim { principal: None, role, tenant, credential })
    }

    /// Acts under a bearer token.
    ///
    /// # Errors
    /// [`CredentialError::Token`] when `token` does not hash to the principal's.
    pub fn by_token(principal: &Principal, token: &[u8]) -> Result<Self, CredentialError> {
        let hash = Digest::of(token);
        // Equality of two hashes: timing tells about the hash of the guess, which the guesser knows.
        if principal.token_hash != Some(hash) {
            return Err(CredentialError::Token);
        }
        Ok(Self::of(principal, Credential::Token))
    }

    /// Acts as the human who holds `key`.
    ///
    /// # Errors
    /// [`CredentialError::Key`] when the principal is registered with another key or none.
    pub fn by_key(principal: &Principal, key: &SigningKey) -> Result<Self, CredentialError> {
        let public = key.verifying_key();
        if principal.verifying_key() != Some(public) || public.is_weak() {
            return Err(CredentialError::Key);
        }
        let acting = Self::of(principal, Credential::Passphrase);
        Ok(Self { key: Some(Box::new(key.clone())), ..acting })
    }

    /// Plays the part of a user in a replayed trace. Nothing such a tenant holds can leave it.
    ///
    /// Returns `None` when `tenant` is not one for replayed traces.
    pub fn replayed(tenant: Tenant) -> Option<Self> {
        let (role, credential) = (Role::User, Credential::None);
        let is_replay = tenant.is_replay();
        let who = PrincipalClaim { principal: None, role, tenant, credential };
        is_replay.then_some(Self::unsigned(who))
    }

    /// The same owner, acting on another tenant. Nobody else can change tenants.
    #[must_use]
    pub fn acting_in(self, tenant: Tenant) -> Option<Self> {
        if !self.is_owner() && self.who.tenant != tenant {
            return None;
        }
        Some(Self { who: PrincipalClaim { tenant, ..self.who }, key: self.key })
    }

    fn of(principal: &Principal, credential: Credential) -> Self {
        let Principal { id, role, tenant, .. } = principal;
        let (principal, tenant) = (Some(*id), tenant.clone());
        Self::unsigned(PrincipalClaim { principal, role: *role, tenant, credential })
    }

    const fn unsigned(who: PrincipalClaim) -> Self {
        Self { who, key: None }
    }

    /// An authority read back from a record, to decide again what was decided then.
    pub(crate) fn recorded(who: PrincipalClaim) -> Self {
        Self::unsigned(who)
    }

    /// The signature of a human under `request`, recorded at `at`. Nobody else signs.
    pub(crate) fn sign(&self, at: LogPosition, request: &Request) -> Option<RecordSignature> {
        let bytes = act_bytes(at, &self.who, request).expect("a request holds text and numbers");
        self.key.as_ref().map(|key| RecordSignature::sign(key, &bytes))
    }

    /// What the record keeps.
    pub fn who(&self) -> &PrincipalClaim {
        &self.who
    }

    /// Whether a human owner is present.
    pub fn is_owner(&self) -> bool {
        self.who.credential == Credential::Passphrase && self.who.role == Role::Owner
    }

    /// Whether a human is present, whoever they are.
    pub fn is_human(&self) -> bool {
        self.who.credential == Credential::Passphrase && self.who.role.is_human()
    }
}

#[cfg(test)]
mod tests {
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
    fn only_the_registered_key_makes_a_human() {
        let key = SigningKey::from_bytes(&[3; 32]);
        let owner = principal(Role::Owner, &key, b"token");
        assert!(Authority::by_key(&owner, &key).unwrap().is_owner());
        let other = SigningKey::from_bytes(&[4; 32]);
        assert_eq!(Authority::by_key(&owner, &other), Err(CredentialError::Key));
        let agent = Principal { public_key: None, ..owner };
        assert_eq!(Authority::by_key(&agent, &key), Err(CredentialError::Key));
    }

    #[test]
    fn a_key_is_never_printed() {
        let key = SigningKey::from_bytes(&[3; 32]);
        let authority = Authority::by_key(&principal(Role::Owner, &key, b"token"), &key).unwrap();
        let (shown, secret) = (format!("{authority:?}"), hex::encode([3; 32]));
        assert!(shown.contains("key: Some(\"…\")") && !shown.contains(&secret), "{shown}");
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
