//! The key that signs a store's checkpoints and nothing else.

use ed25519_dalek::{Signature, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::{Digest, LogName, StoreId};

/// The name under which every store's log key signs.
const KEY_NAME: &str = "custody-log";

/// A log key with the certificate of the store's owner.
///
/// Fields are declared in the order of RFC 8785, because certificates quote a log key in canonical JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogKey {
    /// The owner's signature over [`LogKey::certified_bytes`], 128 lower-case hexadecimal digits.
    pub certificate: String,
    /// Ed25519 public key.
    pub public_key: Digest,
}

impl LogKey {
    /// The bytes that the owner signs to certify a log key for one store.
    pub fn certified_bytes(store: StoreId, public_key: &Digest) -> Vec<u8> {
        [b"custody: certify log key\n".as_slice(), store.as_bytes(), &public_key.0].concat()
    }

    /// The public key, if `owner` certified it for `store`. `None` too for a certificate in upper-case digits,
    /// which would be a second spelling of the same key.
    pub fn certified_key(&self, store: StoreId, owner: &VerifyingKey) -> Option<VerifyingKey> {
        let mut signature = [0; 64];
        hex::decode_to_slice(&self.certificate, &mut signature).ok()?;
        let is_canonical = hex::encode(signature) == self.certificate;
        let certified = Self::certified_bytes(store, &self.public_key);
        owner.verify_strict(&certified, &Signature::from_bytes(&signature)).ok()?;
        VerifyingKey::from_bytes(&self.public_key.0).ok().filter(|_| is_canonical)
    }
}

/// The name under which log keys sign checkpoints: `custody-log`.
pub fn key_name() -> LogName {
    LogName::new(KEY_NAME).expect("a fixed log name")
}

/// The origin line of a store's checkpoints: `custody.log/store-…`. It names the store, so that the head of one
/// store cannot stand in for another's.
pub fn origin(store: StoreId) -> LogName {
    LogName::new(format!("custody.log/{store}")).expect("a store id is a log name")
}
