//! Registering principals and withdrawing their credentials.

use custody_log::PrincipalId;

use super::draft::{Draft, done_or_refused};
use super::settings::check_owner;
use crate::principal::{Authority, Principal};
use crate::record::Record;
use crate::state::{AskError, State};

/// A principal that may be registered.
#[derive(Debug)]
pub(crate) struct AddedPrincipal(Principal);

/// A principal whose credentials are withdrawn.
#[derive(Debug)]
pub(crate) struct RevokedPrincipal(PrincipalId);

pub(crate) fn decide_add(
    state: &State,
    authority: &Authority,
    principal: &Principal,
) -> Result<Draft<AddedPrincipal>, AskError> {
    let is_known =
        state.principal(&principal.name).is_some() || state.principal_by_id(principal.id).is_some();
    if is_known {
        return Err(AskError::DuplicatePrincipal(principal.name.clone()));
    }
    let outcome = check_owner(authority);
    Ok(Draft::administrative(outcome.map(|()| AddedPrincipal(principal.clone()))))
}

pub(crate) fn decide_revoke(
    state: &State,
    authority: &Authority,
    principal: PrincipalId,
) -> Result<Draft<RevokedPrincipal>, AskError> {
    if state.owner == Some(principal) {
        return Err(AskError::RevokeOwner);
    }
    if state.principal_by_id(principal).is_none() {
        return Err(AskError::UnknownPrincipal(principal));
    }
    let outcome = check_owner(authority);
    Ok(Draft::administrative(outcome.map(|()| RevokedPrincipal(principal))))
}

impl AddedPrincipal {
    pub(crate) fn apply(self, state: &mut State) {
        state.principals.insert(self.0.id, self.0);
    }
}

impl RevokedPrincipal {
    pub(crate) fn apply(self, state: &mut State) {
        revoke(state, self.0);
    }
}

/// Registers who was registered earlier.
pub(crate) fn fold_add(state: &mut State, record: &Record, principal: &Principal) -> Option<()> {
    done_or_refused(record, || {
        state.principals.insert(principal.id, principal.clone());
    })
}

/// Withdraws what was withdrawn earlier.
pub(crate) fn fold_revoke(
    state: &mut State,
    record: &Record,
    principal: PrincipalId,
) -> Option<()> {
    done_or_refused(record, || revoke(state, principal))
}

/// Forgets the principal, and closes every session that was opened under one of their credentials.
fn revoke(state: &mut State, principal: PrincipalId) {
    state.principals.remove(&principal);
    let theirs = state.sessions.extract_if(|_, session| session.who.principal == Some(principal));
    state.closed.extend(theirs.map(|(id, _)| id));
    state.recent.retain(|(of, _), _| *of != Some(principal));
}
