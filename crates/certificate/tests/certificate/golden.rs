//! Golden files: the bytes that others verify. `integrations/certificates/check.py` verifies the same files without
//! any code of ours.

use custody_certificate::{
    Certificate, Expectations, OutcomeState, certify, entry_lines, key_id, signing_bytes,
};
use ed25519_dalek::SigningKey;
use proptest::prelude::*;
use serde_json::Value;

use crate::fixture::{incomplete, owner_key, recovered};
use crate::json::{envelope, payload};

const RECOVERED: &[u8] = include_bytes!("../golden/certificate.json");
const RECOVERED_STATEMENT: &str = include_str!("../golden/certificate.statement.json");
const RECOVERED_SIGNED: &[u8] = include_bytes!("../golden/certificate.pae");
const RECOVERED_ENTRIES: &[u8] = include_bytes!("../golden/certificate.entries.jsonl");
const INCOMPLETE: &[u8] = include_bytes!("../golden/certificate-incomplete.json");
const INCOMPLETE_STATEMENT: &str = include_str!("../golden/certificate-incomplete.statement.json");

#[test]
fn the_statement_the_signed_bytes_and_the_file_are_the_golden_ones() {
    let file = certify(&recovered(), &owner_key()).unwrap();
    let statement = payload(&file);
    assert_eq!(statement, RECOVERED_STATEMENT);
    assert_eq!(signing_bytes(statement.as_bytes()), RECOVERED_SIGNED);
    assert_eq!(file, RECOVERED);
    let entries: Vec<u8> = entry_lines(&recovered()).flat_map(Result::unwrap).collect();
    assert_eq!(entries, RECOVERED_ENTRIES);

    let first =
        Certificate::verify(RECOVERED, &owner_key().verifying_key(), Expectations::default());
    let next = certify(&incomplete(first.unwrap().digest()), &owner_key()).unwrap();
    assert_eq!(payload(&next), INCOMPLETE_STATEMENT);
    assert_eq!(next, INCOMPLETE);
}

/// Certificates of the second version, which listed every entry and had no root.
const RECOVERED_V2: &[u8] = include_bytes!("../golden/certificate-v2.json");
const INCOMPLETE_V2: &[u8] = include_bytes!("../golden/certificate-incomplete-v2.json");

#[test]
fn a_certificate_of_the_second_version_is_still_read_and_is_whole() {
    let owner = owner_key().verifying_key();
    let first = Certificate::verify(RECOVERED_V2, &owner, Expectations::default()).unwrap();
    assert_eq!(first.certificate().recovery, recovered());
    let expected = Expectations { after: Some(first.digest()), ..Expectations::default() };
    let next = Certificate::verify(INCOMPLETE_V2, &owner, expected).unwrap();
    assert_eq!(next.certificate().recovery, incomplete(first.digest()));
    assert!(first.certificate().is_whole() && next.certificate().is_whole());
    // Its entries have a root too, though nobody signed it.
    let third = Certificate::verify(RECOVERED, &owner, Expectations::default()).unwrap();
    assert_eq!(first.certificate().entries, third.certificate().entries);
}

#[test]
fn what_is_read_is_what_was_written() {
    let owner = owner_key().verifying_key();
    let first = Certificate::verify(RECOVERED, &owner, Expectations::default()).unwrap();
    assert_eq!(first.certificate().recovery, recovered());
    assert_eq!(first.certificate().outcome.state, OutcomeState::Recovered);
    let expected = Expectations { after: Some(first.digest()), ..Expectations::default() };
    let next = Certificate::verify(INCOMPLETE, &owner, expected).unwrap();
    assert_eq!(next.certificate().recovery, incomplete(first.digest()));
    assert_eq!(next.certificate().outcome.state, OutcomeState::Incomplete);
    assert_eq!((next.before(), next.after().size), (first.after(), 40));
}

/// Anybody can make such a file: it is read as it is spelled, and no key verifies it.
#[test]
fn an_unverified_file_is_read_in_its_one_form_and_believed_by_nobody() {
    let stranger = SigningKey::from_bytes(&[9; 32]);
    let forged = envelope(RECOVERED_STATEMENT.as_bytes(), &stranger, &owner_key());
    for file in [RECOVERED, forged.as_slice()] {
        let read = Certificate::read_unverified(file).unwrap();
        assert_eq!(read.certificate().recovery, recovered());
        assert_eq!(read.payload(), RECOVERED_STATEMENT.as_bytes());
        assert_eq!(read.key_id(), key_id(&owner_key().verifying_key()));
    }
    for key in [owner_key(), stranger] {
        let verdict = Certificate::verify(&forged, &key.verifying_key(), Expectations::default());
        assert!(verdict.is_err());
    }
    let spaced = [RECOVERED, b"\n"].concat();
    for file in [&RECOVERED[..99], spaced.as_slice(), b"{}", b""] {
        assert!(Certificate::read_unverified(file).is_err());
    }
}

#[test]
fn the_signed_bytes_are_those_of_the_dsse_specification() {
    let head = format!("DSSEv1 28 application/vnd.in-toto+json {} ", RECOVERED_STATEMENT.len());
    assert_eq!(RECOVERED_SIGNED, [head.as_bytes(), RECOVERED_STATEMENT.as_bytes()].concat());
}

/// The structs declare their fields in the order of RFC 8785, and nothing is written twice to get there.
#[test]
fn a_statement_and_an_envelope_are_rfc_8785() {
    let files = [RECOVERED, INCOMPLETE].map(|file| String::from_utf8(file.to_vec()).unwrap());
    let statements = [RECOVERED_STATEMENT, INCOMPLETE_STATEMENT].map(str::to_owned);
    for text in files.into_iter().chain(statements) {
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json_canonicalizer::to_string(&value).unwrap(), text);
    }
}

proptest! {
    #[test]
    fn any_text_in_a_certificate_is_written_canonically_and_read_back(text in ".*", program in "\\PC*") {
        let mut recovery = recovered();
        recovery.program = program;
        recovery.residual.effects[0].summary = text.clone();
        recovery.adapter_attestation.evicted[0].name = text;
        let file = certify(&recovery, &owner_key()).unwrap();
        let statement = payload(&file);
        let value: Value = serde_json::from_str(&statement).unwrap();
        prop_assert_eq!(serde_json_canonicalizer::to_string(&value).unwrap(), statement);
        let read = Certificate::verify(&file, &owner_key().verifying_key(), Expectations::default()).unwrap();
        prop_assert_eq!(&read.certificate().recovery, &recovery);
    }
}
