//! The bytes that are signed of a record.

use serde::Serialize;

use super::{Record, Request};
use crate::principal::PrincipalClaim;
use crate::signature::LogPosition;

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

#[cfg(test)]
mod tests {
    use custody_log::{Digest, Seq, StoreId};
    use ed25519_dalek::SigningKey;

    use super::*;
    use crate::namespace::Tenant;
    use crate::principal::{Credential, Role};
    use crate::record::AdminRequest;
    use crate::signature::RecordSignature;

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
