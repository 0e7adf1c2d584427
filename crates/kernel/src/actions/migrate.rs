//! Going on from a store of format 1, in which nothing that a human did is signed (G1).
//!
//! Whatever only a human may do is a claim there. The owner signs the claims that stay; the others lapse to what is
//! safe, and nothing is deleted.

use std::collections::BTreeSet;

use custody_log::{Digest, Seq};

use super::draft::Draft;
use super::settings::check_owner;
use crate::key::Key;
use crate::memory::item::Mode;
use crate::memory::rate::Limits;
use crate::migration::{KeptClaims, KeptMode};
use crate::namespace::{Namespace, Tenant};
use crate::principal::{Authority, Principal, Role};
use crate::record::{AdminRequest, Record, Request, UNSIGNED_FORMAT};
use crate::state::{AskError, State};
use crate::tool::asked::ApprovalStatus;

/// The claims that are in force in a store of format 1, for its owner to look at.
#[derive(Debug, Clone)]
pub struct UnsignedClaims {
    /// Everybody but the owner.
    pub principals: Vec<Principal>,
    /// Items whose mode was set, with the mode.
    pub modes: Vec<(Namespace, Key, Mode)>,
    /// The policy for tool calls.
    pub policy: Option<Digest>,
    /// Items whose present value was released or adopted, with the record that did it.
    pub released: Vec<(Namespace, Key, Seq)>,
    /// The limits.
    pub limits: Limits,
    /// Proposals and calls that wait. They lapse.
    pub waiting: usize,
}

impl UnsignedClaims {
    /// All of them, to be kept.
    pub fn kept(&self) -> KeptClaims {
        let modes = self.modes.iter().map(|(namespace, key, _)| kept_mode(namespace, key));
        KeptClaims {
            principals: self.principals.iter().map(|principal| principal.id).collect(),
            modes: modes.collect(),
            policy: self.policy,
            released: self.released.iter().map(|(_, _, entry)| *entry).collect(),
            limits: self.limits,
        }
    }
}

/// A store of format 1 that goes on in the present one.
#[derive(Debug)]
pub(crate) struct ClosedFormat(KeptClaims);

impl State {
    /// What a store of format 1 claims that humans did. `None` for any other store.
    pub fn unsigned_claims(&self) -> Option<UnsignedClaims> {
        if !self.is_unsigned() {
            return None;
        }
        let principals = self.principals.values().filter(|who| Some(who.id) != self.owner);
        let modes = self.claims.modes.iter().filter_map(|(namespace, key)| {
            let mode = self.item(namespace, key)?.mode;
            Some((namespace.clone(), key.clone(), mode))
        });
        let mut released: Vec<_> = self
            .items()
            .filter_map(|(namespace, key, item)| {
                let entry = item.entry().filter(|entry| self.claims.released.contains(entry))?;
                Some((namespace.clone(), key.clone(), entry))
            })
            .collect();
        released.sort_unstable_by_key(|(_, _, entry)| *entry);
        let waits = |status| matches!(status, ApprovalStatus::Waiting | ApprovalStatus::Approved);
        let calls = self.asked_calls().filter(|asked| waits(asked.standing));
        Some(UnsignedClaims {
            principals: principals.cloned().collect(),
            modes: modes.collect(),
            policy: self.policy.map(|policy| policy.version),
            released,
            limits: self.limits,
            waiting: self.pending.len() + calls.count(),
        })
    }
}

/// Notes what a record of format 1 claims.
pub(crate) fn note(state: &mut State, record: &Record) {
    let Request::Admin(request) = &record.request else { return };
    if record.v != UNSIGNED_FORMAT || !record.answer.is_done() {
        return;
    }
    if let AdminRequest::SetMode { tenant, scope, key, .. } = request {
        let namespace = Namespace { tenant: tenant.clone(), scope: *scope };
        state.claims.modes.insert((namespace, key.clone()));
    }
    if let AdminRequest::AdoptFile { tenant, key, .. } = request {
        state.claims.modes.insert((Namespace::shared(tenant.clone()), key.clone()));
    }
    if matches!(request, AdminRequest::AdoptFile { .. } | AdminRequest::Approve { .. }) {
        state.claims.released.insert(record.seq);
    }
}

/// Decides whether a store of format 1 goes on with `kept`.
///
/// # Errors
/// [`AskError::UnknownClaim`] when something is kept that the store does not claim; [`AskError::Unproven`] for
/// everybody but the owner.
///
/// Source: docs/decisions/0018-record-format-2.md.
pub(crate) fn decide(
    state: &State,
    authority: &Authority,
    kept: &KeptClaims,
) -> Result<Draft<ClosedFormat>, AskError> {
    let claimed = state.unsigned_claims().ok_or(AskError::NothingUnsigned)?.kept();
    let is_claimed = is_part(&kept.principals, &claimed.principals)
        && is_part(&kept.modes, &claimed.modes)
        && is_part(&kept.released, &claimed.released)
        && kept.policy.is_none_or(|policy| claimed.policy == Some(policy));
    if !is_claimed {
        return Err(AskError::UnknownClaim);
    }
    // No refusal: recorded in the new format, it would end the old one with every claim still in force.
    if check_owner(authority).is_err() {
        return Err(AskError::Unproven(Role::Owner, authority.who().tenant.clone()));
    }
    Ok(Draft::administrative(Ok(ClosedFormat(kept.clone()))))
}

fn is_part<T: PartialEq>(some: &[T], all: &[T]) -> bool {
    some.iter().all(|one| all.contains(one))
}

impl ClosedFormat {
    pub(crate) fn apply(self, state: &mut State) {
        close(state, &self.0);
    }
}

/// Closes what was closed earlier.
pub(crate) fn fold(state: &mut State, record: &Record, kept: &KeptClaims) -> Option<()> {
    record.answer.is_done().then(|| close(state, kept))
}

fn close(state: &mut State, kept: &KeptClaims) {
    let owner = state.owner;
    state.principals.retain(|id, _| Some(*id) == owner || kept.principals.contains(id));
    // Their records could not be signed.
    state.closed.extend(std::mem::take(&mut state.sessions).into_keys());
    state.recent.clear();
    state.pending.clear();
    state.waiting = Default::default();
    for asked in state.asked_calls.values_mut() {
        match asked.standing {
            ApprovalStatus::Waiting | ApprovalStatus::Approved => {
                asked.standing = ApprovalStatus::TurnedDown;
            }
            ApprovalStatus::TurnedDown | ApprovalStatus::Used => {}
        }
    }
    let claims = std::mem::take(&mut state.claims);
    for (namespace, key) in &claims.modes {
        if !kept.modes.contains(&kept_mode(namespace, key)) {
            state.items.set_mode(namespace, key, Mode::Immutable);
        }
    }
    let lapsed: BTreeSet<Seq> =
        claims.released.into_iter().filter(|entry| !kept.released.contains(entry)).collect();
    state.items.taint_versions(&lapsed);
    state.policy = state.policy.filter(|policy| kept.policy == Some(policy.version));
    state.limits = kept.limits;
}

fn kept_mode(namespace: &Namespace, key: &Key) -> KeptMode {
    let tenant: Tenant = namespace.tenant.clone();
    KeptMode { tenant, scope: namespace.scope, key: key.clone() }
}
