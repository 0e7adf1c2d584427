//! The keys of humans.

use custody_log::{Digest, LogKey, StoreId};
use ed25519_dalek::{Signer, SigningKey};

use crate::folder::fresh_key;

/// A key that nobody but its holder can use. Wiped when dropped.
pub struct HumanKey(SigningKey);

impl std::fmt::Debug for HumanKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HumanKey(…)")
    }
}

impl HumanKey {
    /// A fresh key from the operating system's randomness.
    pub fn generate() -> Self {
        Self(fresh_key())
    }

    /// Its public half.
    pub fn public_key(&self) -> Digest {
        Digest(self.0.verifying_key().to_bytes())
    }

    /// The key itself, to sign what only its holder may: a certificate, as the store's owner.
    pub const fn signing_key(&self) -> &SigningKey {
        &self.0
    }

    /// Certifies a log key for one store, as its owner.
    pub fn certify(&self, store: StoreId, log_key: &SigningKey) -> LogKey {
        let public_key = Digest(log_key.verifying_key().to_bytes());
        let signature = self.0.sign(&LogKey::certified_bytes(store, &public_key));
        LogKey { public_key, certificate: hex::encode(signature.to_bytes()) }
    }
}

impl From<SigningKey> for HumanKey {
    fn from(key: SigningKey) -> Self {
        Self(key)
    }
}
