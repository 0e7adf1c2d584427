//! Questions that a human was asked already: equal questions of one principal are one, whichever of its sessions puts
//! them, so that repeating them floods no reviewer (G20).
//!
//! Commitments are salted, so equal contents are known by their bytes alone. There are at most as many to
//! compare as may wait for one principal.

use custody_kernel::key::Key;
use custody_kernel::memory::item::{ContentRef, Item};
use custody_kernel::memory::refusal::Refusal;
use custody_kernel::namespace::{Namespace, Scope};
use custody_kernel::principal::PrincipalClaim;
use custody_kernel::record::Answer;
use custody_kernel::tool::asked::AskedCall;
use custody_log::SessionId;
use custody_store::{Receipt, StoreError, Transaction};

/// Whether a human is asked, or would be if fewer questions waited.
pub(crate) const fn is_question(answer: &Answer) -> bool {
    matches!(answer, Answer::Pending { .. } | Answer::Refused(Refusal::TooManyWaiting { .. }))
}

/// The call that `is_alike`, has these canonical arguments, and waits for an answer in another session of whoever
/// `session` runs for.
pub(crate) fn call_elsewhere(
    step: &Transaction<'_>,
    session: SessionId,
    arguments: &[u8],
    is_alike: impl Fn(&AskedCall) -> bool,
) -> Result<Option<AskedCall>, StoreError> {
    let Some(who) = principal_of(step, session) else { return Ok(None) };
    for asked in step.state().waiting_calls(who) {
        let is_open = asked.session != session && step.now() < asked.expires;
        if is_open && is_alike(asked) && holds(step, asked.arguments, arguments)? {
            return Ok(Some(asked.clone()));
        }
    }
    Ok(None)
}

/// What was answered to the same change of the same item, asked for by whoever `session` runs for, while that waits.
pub(crate) fn change(
    step: &Transaction<'_>,
    session: SessionId,
    scope: Scope,
    key: &Key,
    text: &[u8],
) -> Result<Option<Receipt>, StoreError> {
    let Some(who) = principal_of(step, session) else { return Ok(None) };
    let namespace = Namespace { tenant: who.tenant.clone(), scope };
    let base = step.state().item(&namespace, key).and_then(Item::entry);
    for pending in step.state().waiting_changes(who) {
        // Of another version, it could not be approved any more.
        let is_open = step.now() < pending.expires && pending.base == base;
        let is_alike = is_open && pending.namespace == namespace && pending.key == *key;
        if let Some(value) = pending.value
            && is_alike
            && holds(step, value, text)?
        {
            let record = step.record(pending.entry)?;
            let (id, seq, at, label) = (record.id, record.seq, record.at, record.label);
            return Ok(Some(Receipt { id, seq, at, answer: record.answer, label }));
        }
    }
    Ok(None)
}

/// Whom a session runs for, if somebody proved to be that. Those who did not may be different ones.
fn principal_of<'a>(step: &'a Transaction<'_>, session: SessionId) -> Option<&'a PrincipalClaim> {
    let who = &step.state().session(session)?.who;
    who.principal.map(|_| who)
}

/// Whether a content is kept and holds these bytes.
fn holds(step: &Transaction<'_>, content: ContentRef, bytes: &[u8]) -> Result<bool, StoreError> {
    match step.content(content) {
        Ok(kept) => Ok(kept == bytes),
        Err(StoreError::Quarantined(_) | StoreError::Purged(_)) => Ok(false),
        Err(error) => Err(error),
    }
}
