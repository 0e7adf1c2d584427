//! Locking an item, unlocking it, or putting it under review.

use super::draft::{Draft, done_or_refused};
use super::settings::check_owner;
use crate::key::Key;
use crate::memory::item::Mode;
use crate::memory::refusal::Refusal;
use crate::namespace::{Namespace, Tenant};
use crate::principal::Authority;
use crate::record::Record;
use crate::state::State;

/// A mode that may be set. Only [`decide_mode`] makes one, and committing consumes it.
#[derive(Debug)]
pub struct AcceptedMode {
    namespace: Namespace,
    key: Key,
    mode: Mode,
}

/// Decides whether an owner may set the mode of an item: locking, unlocking or putting under
/// review.
///
/// # Errors
/// [`Refusal::NeedsOwner`] for everybody else, agents with an owner's token included.
///
/// Source: docs/design.md §4.2: modes are changed by an owner only. A replayed trace sets up
/// its own tenant, where everything is a claim anyway.
pub fn decide_mode(
    authority: &Authority,
    namespace: Namespace,
    key: Key,
    mode: Mode,
) -> Result<AcceptedMode, Refusal> {
    if !is_own_replay(authority, &namespace.tenant) {
        check_owner(authority)?;
    }
    Ok(AcceptedMode { namespace, key, mode })
}

fn is_own_replay(authority: &Authority, tenant: &Tenant) -> bool {
    tenant.is_replay() && authority.who().tenant == *tenant
}

pub(crate) fn decide(
    authority: &Authority,
    namespace: Namespace,
    key: &Key,
    mode: Mode,
) -> Draft<AcceptedMode> {
    Draft::administrative(decide_mode(authority, namespace, key.clone(), mode))
}

impl AcceptedMode {
    pub(crate) fn apply(self, state: &mut State) {
        state.items.set_mode(&self.namespace, &self.key, self.mode);
    }
}

/// Sets the mode that was set earlier.
pub(crate) fn fold(
    state: &mut State,
    record: &Record,
    namespace: &Namespace,
    key: &Key,
    mode: Mode,
) -> Option<()> {
    done_or_refused(record, || state.items.set_mode(namespace, key, mode))
}
