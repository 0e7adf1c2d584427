//! What makes somebody somebody: a name, and the proof that a key's holder is here. Part of the trusted base.

use custody_kernel::principal::{Authority, CredentialError, Principal, challenge_bytes};
use custody_keys::HumanKey;
use ed25519_dalek::Signer;

use crate::clock::random;
use crate::error::PrincipalNameError;

/// Proves to the kernel that the holder of `key` is here now.
///
/// # Errors
/// When `principal` has another key.
pub fn prove(key: &HumanKey, principal: &Principal) -> Result<Authority, CredentialError> {
    let challenge = random();
    let signature = key.signing_key().sign(&challenge_bytes(&challenge));
    Authority::by_signature(principal, &challenge, &signature)
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
