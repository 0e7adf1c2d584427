//! Any bytes as a certificate, and as a statement that the owner signed: whatever verifies has exactly one spelling.
#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use custody_certificate::{
    Certificate, Expectations, PAYLOAD_TYPE, PREDICATE_TYPE, certify, key_id, signing_bytes,
};
use custody_log::Digest;
use ed25519_dalek::{Signer, SigningKey};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// The owner of the seeds.
const OWNER: [u8; 32] = [1; 32];

fuzz_target!(|bytes: &[u8]| {
    let owner = SigningKey::from_bytes(&OWNER);
    check(bytes, &owner);
    check(&sealed(bytes, &owner), &owner);
    // Nearly no changed statement has the right digest by chance.
    if let Some(statement) = with_its_digest(bytes) {
        check(&sealed(statement.as_bytes(), &owner), &owner);
    }
});

/// What verifies can be read without a key, and signing it again gives the same bytes.
fn check(file: &[u8], owner: &SigningKey) {
    let read = Certificate::read_unverified(file);
    let Ok(verified) = Certificate::verify(file, &owner.verifying_key(), Expectations::default())
    else {
        return;
    };
    let unverified = read.as_ref().expect("what verifies can be read").certificate();
    assert_eq!(unverified, verified.certificate());
    assert!(verified.claims().count() > 0);
    // The version before is not written any more, and what stands outside is not in the file.
    let is_present = read.as_ref().is_ok_and(|read| contains(read.payload(), PREDICATE_TYPE));
    if !is_present || !verified.certificate().is_whole() {
        return;
    }
    let again = certify(&verified.certificate().recovery, owner);
    assert_eq!(again.expect("what verifies can be signed"), file);
}

fn contains(payload: &[u8], text: &str) -> bool {
    payload.windows(text.len()).any(|window| window == text.as_bytes())
}

fn sealed(payload: &[u8], owner: &SigningKey) -> Vec<u8> {
    let signature = STANDARD.encode(owner.sign(&signing_bytes(payload)).to_bytes());
    let (payload, key_id) = (STANDARD.encode(payload), key_id(&owner.verifying_key()));
    format!(
        r#"{{"payload":"{payload}","payloadType":"{PAYLOAD_TYPE}","signatures":[{{"keyid":"{key_id}","sig":"{signature}"}}]}}"#
    )
    .into_bytes()
}

/// A statement with the digest that its predicate should have.
fn with_its_digest(statement: &[u8]) -> Option<String> {
    let mut root: Value = serde_json::from_slice(statement).ok()?;
    let predicate = root.get_mut("predicate")?.as_object_mut()?;
    predicate.remove("manifest_digest");
    let digest = Digest::of(python(&Value::Object(predicate.clone())).as_bytes());
    predicate.insert("manifest_digest".into(), digest.to_string().into());
    Some(root.to_string())
}

/// `json.dumps(value, sort_keys=True)`.
fn python(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(python).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                format!("{}: {}", python(&name.as_str().into()), python(value))
            };
            let members: Vec<String> = members.iter().map(member).collect();
            format!("{{{}}}", members.join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let mut text = String::new();
            for c in value.to_string().chars() {
                match c {
                    ' '..='~' => text.push(c),
                    _ => {
                        let units = c.encode_utf16(&mut [0; 2]).to_vec();
                        text.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
                    }
                }
            }
            text
        }
    }
}
