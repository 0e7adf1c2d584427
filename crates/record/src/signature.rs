//! Signatures of records (docs/decisions/0018-record-format-2.md).
//!
//! A human signs each of their acts with their own key. A session signs each of its records with a key that the process
//! made which opened it. Both sign where the record stands: its position, and the root of all records before it.
//! Neither signature holds at another position, in another store, or after another history.
//! The bytes that are signed: [`act_bytes`](crate::record::act_bytes), [`session_bytes`](crate::record::session_bytes).

use custody_log::{Digest, Seq, StoreId};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An Ed25519 signature, written as 128 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordSignature([u8; 64]);

/// Where a record stands: how many records are before it, and their root (RFC 9162 §2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LogPosition {
    /// The store.
    pub store: StoreId,
    /// The root of the records before it.
    pub root: Digest,
    /// Its own position.
    pub seq: Seq,
}

impl RecordSignature {
    /// Signs `bytes`.
    pub fn sign(key: &SigningKey, bytes: &[u8]) -> Self {
        Self(key.sign(bytes).to_bytes())
    }

    /// Whether the holder of `key`, 32 bytes of an Ed25519 public key, signed `bytes`.
    pub fn is_by(&self, key: &Digest, bytes: &[u8]) -> bool {
        let signature = Signature::from_bytes(&self.0);
        VerifyingKey::from_bytes(&key.0)
            .is_ok_and(|key| key.verify_strict(bytes, &signature).is_ok())
    }
}

impl Serialize for RecordSignature {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(self.0))
    }
}

impl<'de> Deserialize<'de> for RecordSignature {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let mut bytes = [0; 64];
        hex::decode_to_slice(text.as_bytes(), &mut bytes).map_err(serde::de::Error::custom)?;
        Ok(Self(bytes))
    }
}
