//! Principal authentication: whose credential this is. Part of the trusted base.
//!
//! The kernel checks every proof; here the proofs are obtained. A token opens agent sessions; a
//! passphrase, typed by a human, unlocks the key that proves them present.

use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::Tenant;
use custody_kernel::principal::{Authority, CredentialError, Principal, Role};
use custody_kernel::record::{AdminRequest, Value};
use custody_kernel::state::State;
use custody_keys::{HumanKey, fresh_key};
use custody_log::{Digest, EntryId, PrincipalId};
use zeroize::Zeroizing;

use crate::clock::random;
use crate::content::Content;
use crate::error::{PrincipalError, StoreError};
use crate::store::Store;
use crate::transaction::Receipt;
use crate::writer::Ticket;

pub use crate::credentials::{checked_name, prove};

/// What every token starts with, so that a leaked one is recognised by whoever finds it.
const TOKEN_PREFIX: &str = "custody_";

/// A principal to be registered.
#[derive(Debug)]
pub struct NewPrincipal<'a> {
    /// 1 to 64 of a-z, 0-9 and `-`.
    pub name: &'a str,
    /// What they may do at most.
    pub role: Role,
    /// Where they act.
    pub tenant: Tenant,
    /// The public key of a human.
    pub public_key: Option<Digest>,
    /// Whether to make a token.
    pub with_token: bool,
}

impl Store {
    /// The authority of the human whose key was unlocked.
    ///
    /// # Errors
    /// [`PrincipalError::Unknown`], or [`PrincipalError::Proof`] when the key is not theirs.
    pub fn authenticate(&self, name: &str, key: &HumanKey) -> Result<Authority, PrincipalError> {
        Ok(prove(key, &self.principal(name)?)?)
    }

    /// The authority of whoever holds `token`. No human is proven by it.
    ///
    /// # Errors
    /// [`PrincipalError::Proof`] when no principal has it.
    pub fn authenticate_token(&self, token: &str) -> Result<Authority, PrincipalError> {
        Ok(self.authenticate_token_and(token, |_, _| ())?.0)
    }

    /// The same, with what `look` sees of the state and of the holder at that moment.
    ///
    /// # Errors
    /// As [`Store::authenticate_token`].
    pub fn authenticate_token_and<R>(
        &self,
        token: &str,
        look: impl FnOnce(&State, &Principal) -> R,
    ) -> Result<(Authority, R), PrincipalError> {
        let hash = Digest::of(token.as_bytes());
        let found = self.state(|state| {
            let mut principals = state.principals();
            let holder = principals.find(|principal| principal.token_hash == Some(hash))?;
            Some((holder.clone(), look(state, holder)))
        })?;
        let (holder, seen) = found.ok_or(CredentialError::Token)?;
        Ok((Authority::by_token(&holder, token.as_bytes())?, seen))
    }

    fn principal(&self, name: &str) -> Result<Principal, PrincipalError> {
        let principal = self.state(|state| state.principal(name).cloned())?;
        principal.ok_or_else(|| PrincipalError::Unknown(name.chars().take(64).collect()))
    }

    /// Registers a principal. Returns its token, which is shown once and stored only as a hash.
    ///
    /// # Errors
    /// When the name is taken or is none.
    pub fn add_principal(
        &self,
        owner: &Authority,
        new: NewPrincipal<'_>,
    ) -> Result<(Receipt, Option<Zeroizing<String>>), PrincipalError> {
        let token = new.with_token.then(fresh_token);
        let principal = Principal {
            id: PrincipalId::from_random(random()),
            name: checked_name(new.name)?,
            role: new.role,
            tenant: new.tenant,
            public_key: new.public_key,
            token_hash: token.as_ref().map(|token| Digest::of(token.as_bytes())),
        };
        let receipt = self.ask(owner, AdminRequest::AddPrincipal(Box::new(principal)))?;
        let token = token.filter(|_| receipt.answer.refusal().is_none());
        Ok((receipt, token))
    }

    /// Withdraws a principal's credentials and closes its sessions.
    ///
    /// # Errors
    /// [`PrincipalError::Unknown`].
    pub fn revoke_principal(
        &self,
        owner: &Authority,
        name: &str,
    ) -> Result<Receipt, PrincipalError> {
        let principal = self.principal(name)?.id;
        Ok(self.ask(owner, AdminRequest::RevokePrincipal { principal })?)
    }

    /// Registers a principal anew, under the same name, with the same role, tenant and public key, and with a fresh
    /// token. What it had is withdrawn in the same commit: its old token opens nothing, and its sessions are closed.
    /// Returns the new token, unless that was refused, and then nothing has changed.
    ///
    /// # Errors
    /// [`PrincipalError::Unknown`].
    pub fn renew_principal(
        &self,
        owner: &Authority,
        name: &str,
    ) -> Result<(Receipt, Option<Zeroizing<String>>), PrincipalError> {
        let (old, token) = (self.principal(name)?, fresh_token());
        let withdrawn = AdminRequest::RevokePrincipal { principal: old.id };
        let token_hash = Some(Digest::of(token.as_bytes()));
        let new = Principal { id: PrincipalId::from_random(random()), token_hash, ..old };
        let owner = owner.clone();
        let renewing: Ticket<Receipt> = self.run(move |step| {
            let receipt = step.administer(owner.clone(), withdrawn, None, Vec::new())?;
            if receipt.answer.refusal().is_some() {
                return Ok(receipt);
            }
            let registered = AdminRequest::AddPrincipal(Box::new(new));
            step.administer(owner, registered, None, Vec::new())
        });
        let receipt = renewing.wait()?;
        let token = receipt.answer.refusal().is_none().then_some(token);
        Ok((receipt, token))
    }

    /// Approves a pending proposal for exactly the value it has now, which the reviewer was shown.
    ///
    /// # Errors
    /// [`StoreError`] when the answer could not be recorded.
    pub fn approve(
        &self,
        reviewer: &Authority,
        proposal: EntryId,
        shown: Option<Digest>,
    ) -> Result<Receipt, StoreError> {
        self.ask(reviewer, AdminRequest::Approve { proposal, shown })
    }

    /// Turns a pending proposal down.
    ///
    /// # Errors
    /// [`StoreError`] when the answer could not be recorded.
    pub fn deny(&self, reviewer: &Authority, proposal: EntryId) -> Result<Receipt, StoreError> {
        self.ask(reviewer, AdminRequest::Deny { proposal })
    }

    /// Changes the store's limits.
    ///
    /// # Errors
    /// [`StoreError`] when the answer could not be recorded.
    pub fn set_limits(&self, owner: &Authority, limits: Limits) -> Result<Receipt, StoreError> {
        self.ask(owner, AdminRequest::SetLimits(limits))
    }

    /// Decides tool calls by the policy with this text from here on. What a policy's text means is not the store's to
    /// know: the caller has parsed it, and gives the version that goes with it.
    ///
    /// # Errors
    /// [`StoreError`] when the answer could not be recorded.
    pub fn set_policy_text(
        &self,
        owner: &Authority,
        version: Digest,
        text: &str,
    ) -> Result<Receipt, StoreError> {
        let content = Content::new(text)?;
        let owner = owner.clone();
        self.run(move |step| {
            let text = Value::New(content.commitment());
            let request = AdminRequest::SetPolicy { version, text };
            step.administer(owner, request, Some(&content), Vec::new())
        })
        .wait()
    }

    /// Signs checkpoints with a fresh log key from here on.
    ///
    /// # Errors
    /// [`StoreError`] when the key could not be stored or the answer not be recorded.
    pub fn rotate_log_key(
        &self,
        owner: &Authority,
        owner_key: &HumanKey,
    ) -> Result<Receipt, PrincipalError> {
        let (store, holder) = self.state(|state| (state.store(), state.owner().cloned()))?;
        let (store, holder) = store.zip(holder).ok_or(StoreError::HalfWay)?;
        // Another's certificate would stand in the record and not be believed.
        prove(owner_key, &holder)?;
        // One rotation at a time: two would take each other's next key.
        let _alone = self.keys().lock()?;
        self.keys().finish_rotation(|next| self.is_signed_by(next).unwrap_or(false))?;
        let signer = fresh_key();
        let certified = owner_key.certify(store, &signer);
        // Stored before the commit: a kill in between leaves a key file that nothing asks for; after
        // the commit, opening the store finishes what was begun.
        self.keys().store_next_log_key(&signer)?;
        let owner = owner.clone();
        let rotating: Ticket<Receipt> = self.run(move |step| {
            let receipt =
                step.administer(owner, AdminRequest::RotateLogKey(certified), None, Vec::new())?;
            if receipt.answer.refusal().is_none() {
                step.sign_with(signer);
            }
            Ok(receipt)
        });
        let receipt = rotating.wait()?;
        if receipt.answer.refusal().is_none() {
            self.keys().take_next_log_key()?;
        }
        Ok(receipt)
    }
}

fn fresh_token() -> Zeroizing<String> {
    Zeroizing::new(format!("{TOKEN_PREFIX}{}", hex::encode(random::<32>())))
}
