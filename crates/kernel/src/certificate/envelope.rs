//! The DSSE envelope: a payload, its type, and one Ed25519 signature over both.
//!
//! Source: DSSE protocol and envelope v1.

use std::borrow::Cow;

use base64ct::{Base64, Encoding};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::Deserialize;

use super::MAX_BYTES;
use super::error::{CertificateError, Part};
use crate::digest::Digest;

/// The type of an in-toto Statement.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// The envelope as it is read. It is written by [`render`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    #[serde(borrow)]
    payload: Cow<'a, str>,
    #[serde(borrow, rename = "payloadType")]
    payload_type: Cow<'a, str>,
    #[serde(borrow)]
    signatures: Vec<Signed<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed<'a> {
    #[serde(borrow)]
    keyid: Cow<'a, str>,
    #[serde(borrow)]
    sig: Cow<'a, str>,
}

/// The name of a key: SHA-256 of its 32 bytes, in hexadecimal.
pub fn key_id(key: &VerifyingKey) -> String {
    Digest::of(key.as_bytes()).to_string()
}

/// The bytes that are signed: `DSSEv1 LENGTH TYPE LENGTH PAYLOAD`, lengths in bytes.
///
/// Source: DSSE protocol v1, PAE.
pub fn signing_bytes(payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {PAYLOAD_TYPE} {} ", PAYLOAD_TYPE.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

/// Signs a payload. Returns the file.
pub(super) fn seal(payload: &str, key: &SigningKey) -> Result<Vec<u8>, CertificateError> {
    let signature = key.sign(&signing_bytes(payload.as_bytes())).to_bytes();
    let payload = Base64::encode_string(payload.as_bytes());
    let file = render(&payload, &key_id(&key.verifying_key()), &Base64::encode_string(&signature));
    if file.len() > MAX_BYTES {
        return Err(CertificateError::TooLarge { bytes: file.len() });
    }
    Ok(file.into_bytes())
}

/// The payload of a file that `key` signed, still unread.
pub(super) fn open(file: &[u8], key: &VerifyingKey) -> Result<Vec<u8>, CertificateError> {
    if file.len() > MAX_BYTES {
        return Err(CertificateError::TooLarge { bytes: file.len() });
    }
    let envelope: Envelope<'_> = serde_json::from_slice(file).map_err(|cause| {
        if cause.is_eof() { CertificateError::Truncated } else { malformed(cause) }
    })?;
    if envelope.payload_type != PAYLOAD_TYPE {
        return Err(CertificateError::PayloadType { found: envelope.payload_type.into_owned() });
    }
    let [signed] = envelope.signatures.as_slice() else {
        return Err(CertificateError::Signatures { found: envelope.signatures.len() });
    };
    let expected = key_id(key);
    if signed.keyid != expected {
        return Err(CertificateError::OtherKey { found: signed.keyid.to_string(), expected });
    }
    if render(&envelope.payload, &signed.keyid, &signed.sig).as_bytes() != file {
        return Err(CertificateError::NotCanonical { part: Part::Envelope });
    }
    // The decoder takes one spelling only: padding must be there and unused bits must be zero.
    let payload = Base64::decode_vec(&envelope.payload)
        .map_err(|_| CertificateError::Base64 { field: "payload" })?;
    let signature = Base64::decode_vec(&signed.sig)
        .ok()
        .and_then(|bytes| Signature::from_slice(&bytes).ok())
        .ok_or(CertificateError::Base64 { field: "sig" })?;
    key.verify_strict(&signing_bytes(&payload), &signature)
        .map_err(|_| CertificateError::Signature { key: expected })?;
    Ok(payload)
}

/// The one form of an envelope, which is RFC 8785. A field with a character that JSON escapes is not what was read.
fn render(payload: &str, key_id: &str, signature: &str) -> String {
    format!(
        r#"{{"payload":"{payload}","payloadType":"{PAYLOAD_TYPE}","signatures":[{{"keyid":"{key_id}","sig":"{signature}"}}]}}"#
    )
}

fn malformed(cause: serde_json::Error) -> CertificateError {
    CertificateError::Malformed { part: Part::Envelope, cause }
}
