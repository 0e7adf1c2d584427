//! The DSSE envelope: a payload, its type, and one Ed25519 signature over both.
//!
//! Source: DSSE protocol and envelope v1.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use custody_log::Digest;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::Deserialize;

use crate::error::{CertificateError, FileLayer};
use crate::format::{MAX_BYTES, PAYLOAD_TYPE};

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
pub(crate) fn seal(payload: &str, key: &SigningKey) -> Result<Vec<u8>, CertificateError> {
    let signature = key.sign(&signing_bytes(payload.as_bytes())).to_bytes();
    let payload = STANDARD.encode(payload.as_bytes());
    let file = render(&payload, &key_id(&key.verifying_key()), &STANDARD.encode(signature));
    if file.len() > MAX_BYTES {
        return Err(CertificateError::TooLarge { bytes: file.len() });
    }
    Ok(file.into_bytes())
}

/// The payload of a file that `key` signed, still unread.
pub(crate) fn open(file: &[u8], key: &VerifyingKey) -> Result<Vec<u8>, CertificateError> {
    let sealed = Sealed::read(file)?;
    let expected = key_id(key);
    if sealed.key_id() != expected {
        return Err(CertificateError::OtherKey { found: sealed.key_id().to_owned(), expected });
    }
    let payload = sealed.payload()?;
    let signature = STANDARD
        .decode(sealed.signed.sig.as_bytes())
        .ok()
        .and_then(|bytes| Signature::from_slice(&bytes).ok())
        .ok_or(CertificateError::Base64 { field: "sig" })?;
    key.verify_strict(&signing_bytes(&payload), &signature)
        .map_err(|_| CertificateError::Signature { key: expected })?;
    Ok(payload)
}

/// An envelope of our kind, of which nothing is believed.
pub(crate) struct Sealed<'a> {
    file: &'a [u8],
    payload: Cow<'a, str>,
    signed: Signed<'a>,
}

impl<'a> Sealed<'a> {
    /// Takes a file apart.
    pub(crate) fn read(file: &'a [u8]) -> Result<Self, CertificateError> {
        if file.len() > MAX_BYTES {
            return Err(CertificateError::TooLarge { bytes: file.len() });
        }
        let envelope: Envelope<'_> = serde_json::from_slice(file).map_err(|cause| {
            if cause.is_eof() { CertificateError::Truncated } else { malformed(cause) }
        })?;
        let Envelope { payload, payload_type, signatures } = envelope;
        if payload_type != PAYLOAD_TYPE {
            return Err(CertificateError::PayloadType { found: payload_type.into_owned() });
        }
        let [signed] = <[Signed<'a>; 1]>::try_from(signatures)
            .map_err(|found| CertificateError::Signatures { found: found.len() })?;
        Ok(Self { file, payload, signed })
    }

    /// Whose signature it says it has.
    pub(crate) fn key_id(&self) -> &str {
        &self.signed.keyid
    }

    /// The payload, if the file is in its one form.
    pub(crate) fn payload(&self) -> Result<Vec<u8>, CertificateError> {
        let Signed { keyid, sig } = &self.signed;
        if render(&self.payload, keyid, sig).as_bytes() != self.file {
            return Err(CertificateError::NotCanonical { part: FileLayer::Envelope });
        }
        // The decoder takes one spelling only: padding must be there and unused bits must be zero.
        STANDARD
            .decode(self.payload.as_bytes())
            .map_err(|_| CertificateError::Base64 { field: "payload" })
    }
}

/// The one form of an envelope, which is RFC 8785. A field with a character that JSON escapes is not what was read.
fn render(payload: &str, key_id: &str, signature: &str) -> String {
    format!(
        r#"{{"payload":"{payload}","payloadType":"{PAYLOAD_TYPE}","signatures":[{{"keyid":"{key_id}","sig":"{signature}"}}]}}"#
    )
}

fn malformed(cause: serde_json::Error) -> CertificateError {
    CertificateError::Malformed { part: FileLayer::Envelope, cause }
}
