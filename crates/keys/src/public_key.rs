//! Public keys as people hand them on: 64 hexadecimal digits, or a PEM file.

use ed25519_dalek::VerifyingKey;
use ed25519_dalek::pkcs8::{DecodePublicKey, EncodePublicKey, spki::der::pem::LineEnding};

/// Why a text is no public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "it is no Ed25519 public key; give its 64 hexadecimal digits, as `custody keys show` does, or PEM"
)]
pub struct NoPublicKey;

/// Reads a public key in either form. White space around it does not count.
///
/// # Errors
/// [`NoPublicKey`] when it is none, or one that no signature should be believed from.
pub fn parse(text: &str) -> Result<VerifyingKey, NoPublicKey> {
    let text = text.trim();
    let mut bytes = [0; 32];
    let key = match hex::decode_to_slice(text, &mut bytes) {
        Ok(()) => VerifyingKey::from_bytes(&bytes).map_err(|_| NoPublicKey)?,
        Err(_) => VerifyingKey::from_public_key_pem(text).map_err(|_| NoPublicKey)?,
    };
    // Under a key of small order anybody can sign.
    if key.is_weak() { Err(NoPublicKey) } else { Ok(key) }
}

/// A public key as PEM, which OpenSSL and others read.
pub fn pem(key: &VerifyingKey) -> String {
    key.to_public_key_pem(LineEnding::LF).expect("32 bytes have a DER form")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_name_one_key_and_nothing_else_is_one() {
        let key = ed25519_dalek::SigningKey::from_bytes(&[1; 32]).verifying_key();
        let digits = hex::encode(key.as_bytes());
        for text in [&digits, &digits.to_uppercase(), &format!(" {digits}\n"), &pem(&key)] {
            assert_eq!(parse(text), Ok(key), "{text}");
        }
        let identity = format!("01{}", "00".repeat(31));
        let off_the_curve = format!("02{}", "00".repeat(31));
        let private = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        for text in ["", "owner", &digits[..62], &identity, &off_the_curve, private] {
            assert_eq!(parse(text), Err(NoPublicKey), "{text}");
        }
    }
}
