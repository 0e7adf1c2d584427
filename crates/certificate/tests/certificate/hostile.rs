//! Every change of a valid certificate is refused, and says why.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use custody_certificate::{
    AdapterAttestation, Certificate, CertificateError, CertifiedClosure, Expectations, MAX_BYTES,
    MembershipProbe, Residual, RuntimeRecovery, certify, key_id, signing_bytes,
};
use custody_log::{Digest, Seq};
use ed25519_dalek::{Signature, SigningKey, Verifier, VerifyingKey};
use proptest::prelude::*;

use crate::fixture::{incomplete, owner_key, recovered};
use crate::json::{Tree, edited, envelope, payload};

/// The name of the refusal, `accepted` if there is none.
pub(crate) fn verdict(file: &[u8]) -> String {
    reason(Certificate::verify(file, &owner_key().verifying_key(), Expectations::default()).err())
}

pub(crate) fn reason(error: Option<CertificateError>) -> String {
    let Some(error) = error else { return "accepted".into() };
    let name =
        |text: &str| text.chars().take_while(char::is_ascii_alphanumeric).collect::<String>();
    if let CertificateError::Disagreement(which) = &error {
        return name(&format!("{which:?}"));
    }
    name(&format!("{error:?}"))
}

fn file() -> Vec<u8> {
    certify(&recovered(), &owner_key()).expect("a sound recovery")
}

/// With a row in every list.
fn statements() -> [String; 2] {
    let first = file();
    let next = certify(&incomplete(Digest::of(&first)), &owner_key()).expect("sound");
    [payload(&first), payload(&next)]
}

fn stranger() -> SigningKey {
    SigningKey::from_bytes(&[9; 32])
}

fn assert_refused(label: &str, file: &[u8], reasons: &[&str]) {
    let verdict = verdict(file);
    assert!(reasons.contains(&verdict.as_str()), "{label}: {verdict}, not of {reasons:?}");
}

/// A change of the statement's JSON that leaves it JSON, or nearly.
type Mutation = (&'static str, fn(&mut Tree) -> bool, &'static [&'static str]);

const MALFORMED: &[&str] = &["Malformed"];
const NOT_CANONICAL: &[&str] = &["NotCanonical"];
/// Another value of a field that may be null: the paper's digest is of the old one.
const VALUE: &[&str] = &["Malformed", "ManifestDigest"];
const EITHER: &[&str] = &["Malformed", "NotCanonical"];

/// Each returns whether it applies to the node, and is refused so even under the owner's own signature.
const MUTATIONS: &[Mutation] = &[
    ("the first field dropped", |node| member(node, |members| drop(members.remove(0))), EITHER),
    ("the last field dropped", |node| member(node, |members| drop(members.pop())), EITHER),
    (
        "an unknown field in front",
        |node| member(node, |members| members.insert(0, ("a".into(), scalar("1")))),
        MALFORMED,
    ),
    (
        "an unknown field behind",
        |node| member(node, |members| members.push(("zz".into(), scalar("null")))),
        MALFORMED,
    ),
    (
        "a field twice",
        |node| member(node, |members| members.extend(members.first().cloned())),
        MALFORMED,
    ),
    (
        "the fields in another order",
        |node| {
            matches!(node, Tree::Object(members) if members.len() > 1)
                && member(node, |members| members.rotate_left(1))
        },
        NOT_CANONICAL,
    ),
    ("a blank before", |node| respell(node, |text| format!(" {text}")), NOT_CANONICAL),
    ("a newline behind", |node| respell(node, |text| format!("{text}\n")), NOT_CANONICAL),
    (
        "a null for a list or an object",
        |node| !matches!(node, Tree::Scalar(_)) && respell(node, |_| "null".into()),
        VALUE,
    ),
    (
        "an integer as a fraction",
        |node| number(node) && respell(node, |text| format!("{text}.0")),
        MALFORMED,
    ),
    (
        "an integer with an exponent",
        |node| number(node) && respell(node, |text| format!("{text}e0")),
        MALFORMED,
    ),
    (
        "a negative integer",
        |node| number(node) && respell(node, |text| format!("-{text}")),
        MALFORMED,
    ),
    (
        "a text with an escape it does not need",
        |node| {
            matches!(node, Tree::Scalar(text) if text.len() > 2 && text.starts_with('"') && !text.contains('\\'))
                && respell(node, |text| {
                    format!("\"\\u{:04x}{}", u32::from(text.as_bytes()[1]), &text[2..])
                })
        },
        NOT_CANONICAL,
    ),
];

fn member(node: &mut Tree, change: fn(&mut Vec<(String, Tree)>)) -> bool {
    let Tree::Object(members) = node else { return false };
    change(members);
    true
}

fn scalar(text: &str) -> Tree {
    Tree::Scalar(text.into())
}

fn respell(node: &mut Tree, spell: impl Fn(&str) -> String) -> bool {
    *node = Tree::Scalar(spell(&node.to_string()));
    true
}

fn number(node: &Tree) -> bool {
    matches!(node, Tree::Scalar(text) if text.starts_with(|c: char| c.is_ascii_digit()))
}

/// Every mutation at every place where it applies: a label, the text, and why the owner's own is refused.
fn mutants(statement: &str) -> Vec<(String, String, &'static [&'static str])> {
    let tree = Tree::parse(statement);
    assert_eq!(tree.to_string(), statement, "nothing is lost in the tree");
    let mut mutants = Vec::new();
    for path in tree.paths() {
        for (label, change, reasons) in MUTATIONS {
            let mut mutant = tree.clone();
            if change(mutant.at(&path)) {
                mutants.push((format!("{label} at {path:?}"), mutant.to_string(), *reasons));
            }
        }
    }
    mutants
}

#[test]
fn every_field_dropped_added_doubled_moved_or_spelled_otherwise_is_refused() {
    let mut tried = BTreeSet::new();
    for statement in statements() {
        for (label, mutant, reasons) in mutants(&statement) {
            let mutant = mutant.as_bytes();
            assert_refused(&label, &envelope(mutant, &owner_key(), &owner_key()), reasons);
            tried.insert(label.split(" at ").next().map(str::to_owned));
        }
    }
    assert_eq!(tried.len(), MUTATIONS.len(), "each of them applied somewhere");
}

#[test]
fn nothing_that_the_owner_did_not_sign_is_read() {
    let [statement, _] = statements();
    let signed = envelope(statement.as_bytes(), &owner_key(), &owner_key());
    assert_eq!(signed, file(), "the envelope is made alike");
    let text = String::from_utf8(signed).unwrap();
    for (label, mutant, _) in mutants(&statement) {
        let mutant = mutant.as_bytes();
        let unsigned =
            text.replace(&STANDARD.encode(statement.as_bytes()), &STANDARD.encode(mutant));
        assert_refused(&label, unsigned.as_bytes(), &["Signature"]);
        assert_refused(&label, &envelope(mutant, &stranger(), &owner_key()), &["Signature"]);
        assert_refused(&label, &envelope(mutant, &stranger(), &stranger()), &["OtherKey"]);
    }
}

/// Scalars that are changed and stay of their type contradict the paper's digest, at least.
#[test]
fn every_value_changed_is_refused_even_under_the_owners_own_signature() {
    for statement in statements() {
        let tree = Tree::parse(&statement);
        for path in tree.paths() {
            let mut mutant = tree.clone();
            let Tree::Scalar(text) = mutant.at(&path) else { continue };
            *text = match text.as_str() {
                "null" => format!("\"{}\"", "a".repeat(64)),
                "true" => "false".into(),
                "false" => "true".into(),
                text if text.starts_with('"') => format!("{}x\"", &text[..text.len() - 1]),
                text => format!("{text}1"),
            };
            let file = envelope(mutant.to_string().as_bytes(), &owner_key(), &owner_key());
            let reasons = [
                "Malformed",
                "ManifestDigest",
                "Version",
                "StatementType",
                "PredicateType",
                "Subject",
            ];
            assert_refused(&format!("{path:?}"), &file, &reasons);
        }
    }
}

/// One purged entry and nothing else: a file short enough to try every byte of.
fn short_file() -> Vec<u8> {
    let mut recovery = recovered();
    let runtime = &recovery.runtime_recovery;
    let closure = CertifiedClosure {
        members: vec![Seq(3)],
        possible_origins: Vec::new(),
        ..runtime.closure.clone()
    };
    recovery.runtime_recovery =
        RuntimeRecovery::new(closure, runtime.manifest_entries[..1].to_vec());
    recovery.risk_scores.entries.truncate(1);
    recovery.spared.clear();
    recovery.residual = Residual::default();
    recovery.adapter_attestation = AdapterAttestation::default();
    recovery.membership_probe = MembershipProbe::not_run("short");
    recovery.audit.records.truncate(1);
    certify(&recovery, &owner_key()).expect("sound")
}

#[test]
fn every_flipped_byte_of_the_file_is_refused() {
    let file = short_file();
    let payload = 12..file.windows(3).position(|bytes| bytes == b"\",\"").unwrap();
    for at in 0..file.len() {
        // One bit of a byte that is signed says it; around the payload, try them all.
        let bits = if payload.contains(&at) { at % 8..at % 8 + 1 } else { 0..8 };
        for bit in bits {
            let mut flipped = file.clone();
            flipped[at] ^= 1 << bit;
            let label = format!("bit {bit} of byte {at}");
            if payload.contains(&at) {
                assert_refused(&label, &flipped, &["Base64", "Signature", "Malformed"]);
            } else {
                let reasons = [
                    "Malformed",
                    "Truncated",
                    "NotCanonical",
                    "PayloadType",
                    "Signatures",
                    "OtherKey",
                    "Base64",
                    "Signature",
                ];
                assert_refused(&label, &flipped, &reasons);
            }
        }
    }
}

#[test]
fn every_truncation_is_refused_as_one() {
    let file = short_file();
    for end in 0..file.len() {
        assert_refused(&format!("{end} bytes"), &file[..end], &["Truncated"]);
    }
}

#[test]
fn white_space_anywhere_in_the_file_is_refused() {
    let file = short_file();
    let spaced = |at: usize, blank: u8| [&file[..at], &[blank], &file[at..]].concat();
    for at in 0..=file.len() {
        let blank = b" \n\r\t"[at % 4];
        let reasons = ["NotCanonical", "Malformed", "Base64", "PayloadType", "OtherKey"];
        assert_refused(&format!("{blank} at {at}"), &spaced(at, blank), &reasons);
    }
    for between in [0, 1, file.len() - 1, file.len()] {
        for blank in *b" \n\r\t" {
            assert_refused("between tokens", &spaced(between, blank), NOT_CANONICAL);
        }
    }
}

#[test]
fn every_change_of_the_envelope_has_its_reason() {
    let file = String::from_utf8(file()).unwrap();
    let signatures = file.find("\"signatures\"").unwrap();
    let row = &file[file.find("{\"keyid\"").unwrap()..file.len() - 2];
    let owner = key_id(&owner_key().verifying_key());
    let other = key_id(&stranger().verifying_key());
    let payload = &file[12..file.find("\",\"").unwrap()];
    let sig = &row[row.len() - 90..row.len() - 2];
    let replace = |from: &str, to: &str| file.replacen(from, to, 1);
    let cases = [
        ("as it is", file.clone(), "accepted"),
        (
            "no payload type",
            replace("\"payloadType\":\"application/vnd.in-toto+json\",", ""),
            "Malformed",
        ),
        ("another payload type", replace("in-toto+json", "in-toto+cbor"), "PayloadType"),
        ("no signature", replace(row, ""), "Signatures"),
        ("two signatures", replace(row, &format!("{row},{row}")), "Signatures"),
        (
            "a stranger's signature besides",
            replace(row, &format!("{row},{}", row.replace(&owner, &other))),
            "Signatures",
        ),
        (
            "no list of signatures",
            format!("{}\"signatures\":null}}", &file[..signatures]),
            "Malformed",
        ),
        ("another key id", replace(&owner, &other), "OtherKey"),
        ("no key id", replace(&format!("\"keyid\":\"{owner}\","), ""), "Malformed"),
        ("an empty key id", replace(&owner, ""), "OtherKey"),
        ("the key id in capitals", replace(&owner, &owner.to_uppercase()), "OtherKey"),
        ("an empty signature", replace(sig, ""), "Base64"),
        ("a signature cut short", replace(sig, &sig[..84]), "Base64"),
        ("a signature without padding", replace(sig, sig.trim_end_matches('=')), "Base64"),
        ("a signature of zeros", replace(sig, &STANDARD.encode([0; 64])), "Signature"),
        ("an empty payload", replace(payload, ""), "Signature"),
        ("a payload in the alphabet of addresses", replace(payload, "-_-_"), "Base64"),
        (
            "the fields in another order",
            {
                let (first, rest) = file[1..file.len() - 1].split_once(',').unwrap();
                format!("{{{rest},{first}}}")
            },
            "NotCanonical",
        ),
        ("an unknown field", replace("{\"payload\"", "{\"a\":1,\"payload\""), "Malformed"),
        (
            "an unknown field in a signature",
            replace("{\"keyid\"", "{\"cert\":\"\",\"keyid\""),
            "Malformed",
        ),
        (
            "a field twice",
            replace("\"payloadType\"", "\"payload\":\"\",\"payloadType\""),
            "Malformed",
        ),
        (
            "an escape that is not needed",
            replace("application/vnd", "application\\/vnd"),
            "NotCanonical",
        ),
        ("something behind", format!("{file}{{}}"), "Malformed"),
        ("a byte order mark", format!("\u{feff}{file}"), "Malformed"),
        ("a list", format!("[{file}]"), "Malformed"),
        ("nothing", String::new(), "Truncated"),
    ];
    for (label, text, expected) in cases {
        assert_eq!(verdict(text.as_bytes()), expected, "{label}");
    }
}

/// The last character before the padding has bits that say nothing; only zeros are what we write.
#[test]
fn a_second_spelling_of_the_same_bytes_is_refused() {
    let file = String::from_utf8(file()).unwrap();
    let end = file.rfind("==\"").unwrap();
    let last = file.as_bytes()[end - 1];
    let same_bits = char::from(last + 1);
    let respelled = format!("{}{same_bits}{}", &file[..end - 1], &file[end..]);
    assert_eq!(verdict(respelled.as_bytes()), "Base64");
}

#[test]
fn a_statement_of_another_type_is_named_as_one() {
    let [statement, _] = statements();
    let other_type = |from: &str, to: &str| statement.replacen(from, to, 1);
    let cases = [
        (other_type("Statement/v1", "Statement/v0.1"), "StatementType"),
        (other_type("certificate-v3", "certificate-v4"), "PredicateType"),
        (other_type("certificate-v3", "certificate-v2"), "Version"),
        (r#"{"_type":"https://in-toto.io/Statement/v1","predicate":{"a":1},"predicateType":"https://slsa.dev/provenance/v1","subject":[]}"#.into(), "PredicateType"),
        (other_type("\"version\":3", "\"version\":2"), "Version"),
        ("{}".into(), "Malformed"),
        ("[]".into(), "Malformed"),
        (String::new(), "Malformed"),
        (statement[..statement.len() - 1].into(), "Malformed"),
        (format!("{statement} "), "NotCanonical"),
        (format!("{statement}{statement}"), "Malformed"),
        ("[".repeat(100_000), "Malformed"),
        (format!(r#"{{"predicate":{}"#, "{\"a\":".repeat(100_000)), "Malformed"),
    ];
    for (text, expected) in cases {
        let file = envelope(text.as_bytes(), &owner_key(), &owner_key());
        assert_eq!(verdict(&file), expected, "{}", &text[..text.len().min(200)]);
    }
    // The helper that other tests trust leaves a statement as it is.
    assert_eq!(edited(&statement, &[]), statement);
}

#[test]
fn a_file_over_the_limit_is_refused_unread() {
    assert_eq!(verdict(&vec![b' '; MAX_BYTES + 1]), "TooLarge");
    let mut recovery = recovered();
    recovery.program = "x".repeat(MAX_BYTES / 4 * 3);
    assert_eq!(reason(certify(&recovery, &owner_key()).err()), "TooLarge");
}

/// A point of small order verifies signatures over anything, where the check is not strict.
#[test]
fn a_key_of_small_order_verifies_nothing() {
    let mut point = [0; 32];
    point[0] = 1;
    let key = VerifyingKey::from_bytes(&point).unwrap();
    let [statement, _] = statements();
    let owner = key_id(&owner_key().verifying_key());
    let text = String::from_utf8(file()).unwrap();
    let text = text.replace(&owner, &key_id(&key));
    let at = text.find("\"sig\":\"").unwrap() + 7;
    let zero = [point.as_slice(), &[0; 32]].concat();
    let forged = format!("{}{}{}", &text[..at], STANDARD.encode(&zero), &text[at + 88..]);
    let signature = Signature::from_slice(&zero).unwrap();
    let signed = signing_bytes(statement.as_bytes());
    assert!(key.verify(&signed, &signature).is_ok(), "the trap is one");
    let refused = Certificate::verify(forged.as_bytes(), &key, Expectations::default());
    assert_eq!(reason(refused.err()), "Signature");
}

proptest! {
    #[test]
    fn no_bytes_are_a_certificate_or_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert_ne!(verdict(&bytes), "accepted");
        let signed = envelope(&bytes, &owner_key(), &owner_key());
        prop_assert_eq!(verdict(&signed), "Malformed");
    }

    #[test]
    fn any_bytes_changed_in_the_file_or_in_what_the_owner_signed_are_refused(
        at in any::<prop::sample::Index>(),
        cut in 0..20_usize,
        patch in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let splice = |bytes: &[u8]| {
            let from = at.index(bytes.len());
            let to = bytes.len().min(from + cut);
            [&bytes[..from], &patch, &bytes[to..]].concat()
        };
        let file = short_file();
        let changed = splice(&file);
        prop_assume!(changed != file);
        prop_assert_ne!(verdict(&changed), "accepted");
        let statement = payload(&file);
        let changed = splice(statement.as_bytes());
        prop_assume!(changed != statement.as_bytes());
        prop_assert_ne!(verdict(&envelope(&changed, &owner_key(), &owner_key())), "accepted");
    }
}
