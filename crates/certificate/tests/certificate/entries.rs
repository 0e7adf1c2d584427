//! Incidents of more entries than stand inside a certificate: the root over them, what stands inside, and the file
//! beside.

use custody_certificate::{
    Certificate, CertificateError, EntryReader, Expectations, MAX_BYTES, MAX_LISTED, Missing,
    OutcomeState, Recovery, Verified, certify, entry_lines,
};
use custody_log::{Digest, Seq, verify_inclusion};
use serde_json::{Value, json};

use crate::fixture::{large, owner_key, recovered};
use crate::hostile::{reason, verdict};
use crate::json::{edited, envelope, payload};

fn verify(file: &[u8]) -> Result<Verified, CertificateError> {
    Certificate::verify(file, &owner_key().verifying_key(), Expectations::default())
}

fn lines_of(recovery: &Recovery) -> Vec<u8> {
    entry_lines(recovery).flat_map(Result::unwrap).collect()
}

fn with_entries(verified: Verified, lines: &[u8]) -> Result<Verified, CertificateError> {
    let mut reader = EntryReader::new(verified);
    lines.split_inclusive(|byte| *byte == b'\n').try_for_each(|line| reader.push(line))?;
    reader.finish()
}

/// The verdict over a certificate with this file of entries.
fn verdict_with(file: &[u8], lines: &[u8]) -> String {
    let verified = verify(file).expect("sound without its entries");
    reason(with_entries(verified, lines).err())
}

#[test]
fn g30_what_stands_inside_a_certificate_does_not_grow_with_the_incident() {
    let files = [12_000, 30_000].map(|members| certify(&large(members, 0), &owner_key()).unwrap());
    let listed = files.each_ref().map(|file| {
        let verified = verify(file).unwrap();
        let certificate = verified.certificate();
        assert!(!certificate.is_whole());
        assert_eq!(certificate.outcome.state, OutcomeState::Recovered);
        certificate.recovery.runtime_recovery.closure.members.len()
    });
    assert!(listed.iter().all(|listed| *listed as u64 <= 4 * MAX_LISTED), "{listed:?}");
    // Twice as many leaves need one more hash in every proof, and nothing else.
    let growth = files[1].len() - files[0].len();
    assert!(growth < listed[1] * 3 * 70 * 4 / 3, "{growth} bytes more for {listed:?}");
    assert!(files[1].len() * 10 < MAX_BYTES);
}

#[test]
fn g30_small_incidents_stand_inside_as_a_whole() {
    let small = certify(&recovered(), &owner_key()).unwrap();
    let verified = verify(&small).unwrap();
    assert!(verified.certificate().is_whole());
    assert_eq!(verified.certificate().entries.proofs, []);
    let lines = lines_of(&recovered());
    assert_eq!(lines.iter().filter(|byte| **byte == b'\n').count(), 8, "6 members, 2 origins");
    assert_eq!(verdict_with(&small, &lines), "accepted");
    assert_eq!(verdict_with(&small, &lines_of(&large(12, 0))), "EntryLine", "too many");
}

#[test]
fn g30_with_its_entries_a_certificate_says_all_that_was_certified() {
    let recovery = large(1_500, 3);
    let file = certify(&recovery, &owner_key()).unwrap();
    let verified = verify(&file).unwrap();
    let without: Vec<&str> = verified.claims().map(|claim| claim.name()).collect();
    assert!(without.contains(&"entries") && !without.contains(&"closure"));
    let whole = with_entries(verified.clone(), &lines_of(&recovery)).unwrap();
    assert_eq!(whole.certificate().recovery, recovery);
    let with: Vec<&str> = whole.claims().map(|claim| claim.name()).collect();
    assert!(!with.contains(&"entries") && with.contains(&"closure"));
    assert!(verified.completed(recovery).unwrap().certificate().is_whole());
}

#[test]
fn g30_more_unfinished_entries_than_are_listed_are_counted_and_never_recovered() {
    let file = certify(&large(4_000, 2_500), &owner_key()).unwrap();
    let verified = verify(&file).unwrap();
    let certificate = verified.certificate();
    assert_eq!(certificate.outcome.state, OutcomeState::Incomplete);
    let [reason] = certificate.outcome.reasons.as_slice() else { panic!("one reason") };
    assert_eq!((reason.missing, reason.count), (Missing::ActionsUnfinished, 2_500));
    assert_eq!(certificate.entries.unfinished, 2_500);
    let listed = &certificate.recovery.residual.unfinished;
    assert!(listed.len() as u64 >= MAX_LISTED);
    let first: Vec<Seq> = listed.iter().map(|left| left.entry).take(1_000).collect();
    assert_eq!(first, (1_000..2_000).map(Seq).collect::<Vec<_>>());
}

#[test]
fn g30_every_change_of_the_entries_is_refused() {
    let recovery = large(1_200, 2);
    let file = certify(&recovery, &owner_key()).unwrap();
    let whole = String::from_utf8(lines_of(&recovery)).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let joined = |lines: &[&str]| lines.concat();
    let (mut swapped, mut doubled, mut longer) = (lines.clone(), lines.clone(), lines.clone());
    swapped.swap(1_500, 1_501);
    doubled.insert(7, lines[6]);
    longer.push("{\"possible_origin\":9000}\n");
    let cases = [
        ("as it is", whole.clone(), "accepted"),
        ("the last line dropped", joined(&lines[..lines.len() - 1]), "EntriesRoot"),
        ("the first line dropped", joined(&lines[1..]), "EntriesRoot"),
        ("nothing", String::new(), "EntriesRoot"),
        ("two lines swapped", swapped.concat(), "EntryLine"),
        ("a line twice", doubled.concat(), "EntryLine"),
        ("a line more", longer.concat(), "EntryLine"),
        ("no newline at the end", whole.trim_end().into(), "EntryLine"),
        ("an empty line", format!("\n{whole}"), "EntryLine"),
        ("a blank", whole.replacen("{\"member", "{ \"member", 1), "EntryLine"),
        ("an unknown field", whole.replacen("\"seed\"", "\"seal\"", 1), "EntryLine"),
        ("another kind", whole.replacen("tool_output", "completion", 1), "EntriesRoot"),
        ("done that is not", whole.replacen("\"done\":false", "\"done\":true", 1), "EntriesRoot"),
        ("a milder action", whole.replacen("\"quarantine\"", "\"none\"", 1), "EntriesRoot"),
        (
            "of another incident",
            String::from_utf8(lines_of(&large(1_200, 3))).unwrap(),
            "EntriesRoot",
        ),
    ];
    for (label, text, expected) in cases {
        assert_eq!(verdict_with(&file, text.as_bytes()), expected, "{label}");
    }
    let endless = [b"x".repeat(17 << 20).as_slice(), whole.as_bytes()].concat();
    assert_eq!(verdict_with(&file, &endless), "EntryLine");
}

/// The owner signs what they like. What contradicts itself is refused at once, what contradicts the entries with them.
#[test]
fn g30_a_lie_about_entries_that_stand_outside_is_refused_where_they_are_given() {
    let recovery = large(4_000, 1_200);
    let file = certify(&recovery, &owner_key()).unwrap();
    let (statement, lines) = (payload(&file), lines_of(&recovery));
    let signed = |edits: &[(&str, Value)]| {
        envelope(edited(&statement, edits).as_bytes(), &owner_key(), &owner_key())
    };
    assert_eq!(signed(&[]), file);
    let value: Value = serde_json::from_str(&statement).unwrap();
    let (stated, runtime) =
        (&value["predicate"]["entries"], &value["predicate"]["runtime_recovery"]);
    let proof = stated["proofs"][5]["inclusion"].clone();
    let refused_alone = [
        ("fewer unfinished", vec![("/entries/unfinished", json!(1_100))], "Entries"),
        ("fewer members", vec![("/entries/members", json!(3_999))], "Entries"),
        ("no seeds counted", vec![("/entries/seeds", json!(0))], "Entries"),
        ("more quarantined than listed", vec![("/entries/quarantined", json!(900))], "Entries"),
        (
            "a count beyond all",
            vec![("/entries/members", json!(9_007_199_254_740_992_u64))],
            "Entries",
        ),
        ("another root", vec![("/entries/root", json!("0".repeat(64)))], "EntryInclusion"),
        ("another place", vec![("/entries/proofs/5/index", json!(0))], "Entries"),
        ("a proof of another", vec![("/entries/proofs/4/inclusion", proof)], "EntryInclusion"),
        ("no proofs", vec![("/entries/proofs", json!([]))], "Entries"),
        (
            "another kind of a listed entry",
            vec![("/runtime_recovery/manifest_entries/3/kind", json!("message"))],
            "EntryInclusion",
        ),
        (
            "totals that say all is done",
            vec![(
                "/runtime_recovery/totals/flag/done",
                runtime["totals"]["flag"]["planned"].clone(),
            )],
            "Totals",
        ),
        (
            "an outcome that the totals do not give",
            vec![("/outcome/reasons", json!([])), ("/outcome/state", json!("recovered"))],
            "Outcome",
        ),
    ];
    for (label, edits, expected) in refused_alone {
        assert_eq!(verdict(&signed(&edits)), expected, "{label}");
    }
    let spared = stated["spared"].as_u64().unwrap();
    let flagged = runtime["totals"]["flag"]["planned"].as_u64().unwrap();
    let flags_done = runtime["totals"]["flag"]["done"].as_u64().unwrap();
    let purged = runtime["totals"]["purge"]["planned"].as_u64().unwrap();
    let purges_done = runtime["totals"]["purge"]["done"].as_u64().unwrap();
    let refused_with_entries = [
        ("more spared", vec![("/entries/spared", json!(spared + 1))]),
        (
            "a flag counted as a purge",
            vec![
                ("/runtime_recovery/totals/flag/planned", json!(flagged - 1)),
                ("/runtime_recovery/totals/flag/done", json!(flags_done - 1)),
                ("/runtime_recovery/totals/purge/planned", json!(purged + 1)),
                ("/runtime_recovery/totals/purge/done", json!(purges_done + 1)),
            ],
        ),
    ];
    for (label, edits) in refused_with_entries {
        let lie = signed(&edits);
        assert_eq!(verdict(&lie), "accepted", "{label}");
        assert_eq!(verdict_with(&lie, &lines), "OfEntries", "{label}");
    }
}

#[test]
fn g30_each_listed_entry_is_proven_to_be_under_the_root() {
    let recovery = large(1_500, 1);
    let verified = verify(&certify(&recovery, &owner_key()).unwrap()).unwrap();
    let stated = &verified.certificate().entries;
    let lines = lines_of(&recovery);
    let lines: Vec<&[u8]> = lines.split(|byte| *byte == b'\n').collect();
    assert!(!stated.proofs.is_empty());
    for proof in &stated.proofs {
        let line = lines[usize::try_from(proof.index).unwrap()];
        let inclusion: Vec<[u8; 32]> = proof.inclusion.iter().map(|digest| digest.0).collect();
        let leaf = custody_log::leaf_hash(line);
        verify_inclusion(&leaf, proof.index, stated.leaves(), &inclusion, &stated.root.0).unwrap();
        let named: Value = serde_json::from_slice(line).unwrap();
        assert_eq!(named["member"]["manifest"]["entry"], proof.entry.0);
    }
    assert_ne!(stated.root, Digest([0; 32]));
}
