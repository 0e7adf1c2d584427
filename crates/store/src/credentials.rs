//! What makes somebody somebody: a name, and the proof that a key's holder is here. Part of the trusted base.

use custody_kernel::principal::{Authority, CredentialError, Principal};
use custody_keys::HumanKey;

use crate::error::PrincipalNameError;

/// The authority of `principal`, whose key was unlocked. It signs each of their acts.
///
/// # Errors
/// When `principal` is registered with another key.
pub fn prove(key: &HumanKey, principal: &Principal) -> Result<Authority, CredentialError> {
    Authority::by_key(principal, key.signing_key())
}

/// A principal's name: 1 to 64 of a-z, 0-9 and `-`, so that it can name a file and be typed.
///
/// # Errors
/// [`PrincipalNameError`] when it is none.
pub fn checked_name(name: &str) -> Result<String, PrincipalNameError> {
    let is_allowed = name.bytes().all(|c| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    if name.is_empty() || name.len() > 64 || !is_allowed {
        return Err(PrincipalNameError(
            name.chars().take(64).flat_map(char::escape_debug).collect(),
        ));
    }
    Ok(name.to_owned())
}
