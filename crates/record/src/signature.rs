//! What is signed of a record, and by whom (docs/decisions/0018-record-format-2.md).
//!
//! A human signs each of their acts with their own key. A session signs each of its records with a key that the process
//! made which opened it. Both sign where the record stands: its position, and the root of all records before it.
//! Neither signature holds at another position, in another store, or after another history.

use custody_log::{Digest, Seq, StoreId};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::principal::PrincipalClaim;
use crate::record::{Record, Request};

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

/// What a human signs: that `by` asks this at this place. Fields stand in the order of RFC 8785.
#[derive(Serialize)]
struct ActStatement<'a> {
    at: LogPosition,
    by: &'a PrincipalClaim,
    domain: &'static str,
    request: &'a Request,
}

/// What a session's key signs: the whole record but the signature.
#[derive(Serialize)]
struct SessionStatement<'a> {
    at: LogPosition,
    domain: &'static str,
    record: &'a Record,
}

/// The bytes that a human signs to ask for `request` as `by`: canonical JSON (RFC 8785).
///
/// # Errors
/// Never for requests that a record can hold.
pub fn act_bytes(
    at: LogPosition,
    by: &PrincipalClaim,
    request: &Request,
) -> Result<Vec<u8>, serde_json::Error> {
    let statement = ActStatement { at, by, domain: "custody.act/2", request };
    serde_json_canonicalizer::to_vec(&statement)
}

/// The bytes that a session's key signs of `record`, whose signature is left out: canonical JSON (RFC 8785).
///
/// # Errors
/// Never for a record that was parsed.
pub fn session_bytes(at: LogPosition, record: &Record) -> Result<Vec<u8>, serde_json::Error> {
    let unsigned = Record { signature: None, ..record.clone() };
    let statement = SessionStatement { at, domain: "custody.session/2", record: &unsigned };
    serde_json_canonicalizer::to_vec(&statement)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Tenant;
    use crate::principal::{Credential, Role};
    use crate::record::AdminRequest;

    const AT: LogPosition =
        LogPosition { store: StoreId::from_random([1; 16]), root: Digest([2; 32]), seq: Seq(3) };

    fn owner() -> PrincipalClaim {
        let (tenant, credential) = (Tenant::main(), Credential::Passphrase);
        PrincipalClaim { principal: None, role: Role::Owner, tenant, credential }
    }

    fn adoption(reason: &str) -> Request {
        AdminRequest::AdoptLedger { reason: reason.into(), head_size: None }.into()
    }

    #[test]
    fn a_signature_holds_for_one_request_of_one_asker_at_one_place() {
        let key = SigningKey::from_bytes(&[4; 32]);
        let public = Digest(key.verifying_key().to_bytes());
        let bytes = act_bytes(AT, &owner(), &adoption("restored")).unwrap();
        let signature = RecordSignature::sign(&key, &bytes);
        assert!(signature.is_by(&public, &bytes));
        let reviewer = PrincipalClaim { role: Role::Reviewer, ..owner() };
        let others = [
            act_bytes(LogPosition { seq: Seq(4), ..AT }, &owner(), &adoption("restored")),
            act_bytes(LogPosition { root: Digest([3; 32]), ..AT }, &owner(), &adoption("restored")),
            act_bytes(AT, &reviewer, &adoption("restored")),
            act_bytes(AT, &owner(), &adoption("Restored")),
        ];
        for other in others {
            assert!(!signature.is_by(&public, &other.unwrap()));
        }
        assert!(!signature.is_by(&Digest([0; 32]), &bytes), "a key of small order");
    }

    #[test]
    fn the_statement_is_canonical_json() {
        let bytes = act_bytes(AT, &owner(), &adoption("lost")).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(serde_json_canonicalizer::to_vec(&value).unwrap(), bytes);
        assert_eq!(value["domain"], "custody.act/2");
        assert_eq!(value["at"]["seq"], 3);
    }
}
