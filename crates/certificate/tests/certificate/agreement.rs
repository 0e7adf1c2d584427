//! A certificate that contradicts itself is refused, whoever signed it: each case is one statement changed by its own
//! owner, canonical, with its digests made anew.

use custody_certificate::{
    Certificate, Disagreement, Expectations, LoggedStep, MemberAction, Recovery, certify,
};
use custody_log::{
    Checkpoint, Digest, LogName, Seq, StoreId, Timestamp, key_name, origin, root_of,
};
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};

use crate::fixture::{
    SIZES, audit, certified, checkpoint, incident, incomplete, leaves, log_key, owner_key, ppm,
    recovered, store,
};
use crate::hostile::{reason, verdict};
use crate::json::{edited, envelope, payload};

/// Pointers into the predicate, and the values to put there.
type Edits = Vec<(&'static str, Value)>;

/// What an owner's program may have done to a recovery.
type Change<'a> = Box<dyn Fn(&mut Recovery) + 'a>;

/// The verdict on the golden statement with these values in its predicate, signed by the owner.
fn changed(edits: &[(&str, Value)]) -> String {
    verdict_on(&payload(&certify(&recovered(), &owner_key()).expect("sound")), edits)
}

fn verdict_on(statement: &str, edits: &[(&str, Value)]) -> String {
    let statement = edited(statement, edits);
    verdict(&envelope(statement.as_bytes(), &owner_key(), &owner_key()))
}

#[test]
fn what_an_owner_may_say_alone_is_accepted() {
    assert_eq!(changed(&[]), "accepted");
    assert_eq!(changed(&[("/program", json!("custody 0.2.0"))]), "accepted");
    assert_eq!(changed(&[("/previous", json!("ab".repeat(32)))]), "accepted");
}

#[test]
fn counts_lists_scores_and_verdicts_that_disagree_are_refused() {
    let row = |entry: u64, action: &str| json!({"action": action, "adapters": [], "commitment": null, "done": true, "entry": entry, "kind": "decision"});
    let cases: Vec<(&str, Edits, &str)> = vec![
        ("no seeds", vec![("/runtime_recovery/closure/seeds", json!([]))], "Empty"),
        ("a seed outside", vec![("/runtime_recovery/closure/seeds", json!([5]))], "NoMember"),
        ("members in disorder", vec![("/runtime_recovery/closure/members/0", json!(4))], "Order"),
        (
            "a member dropped",
            vec![("/runtime_recovery/closure/members", json!([3, 4, 6, 7, 9]))],
            "Rows",
        ),
        (
            "a member without a row",
            vec![("/runtime_recovery/closure/members", json!([3, 4, 6, 7, 9, 12, 13]))],
            "Rows",
        ),
        (
            "an origin that is a member",
            vec![("/runtime_recovery/closure/possible_origins", json!([3]))],
            "Member",
        ),
        (
            "a row for another entry",
            vec![("/runtime_recovery/manifest_entries/5", row(13, "none"))],
            "Rows",
        ),
        ("a total too high", vec![("/runtime_recovery/totals/purge/planned", json!(3))], "Totals"),
        ("a done too high", vec![("/runtime_recovery/totals/none/done", json!(0))], "Totals"),
        (
            "an action of another count",
            vec![("/runtime_recovery/manifest_entries/5/action", json!("flag"))],
            "Totals",
        ),
        (
            "an adapter twice",
            vec![(
                "/runtime_recovery/manifest_entries/1/adapters",
                json!(["ad".repeat(32), "ad".repeat(32)]),
            )],
            "Order",
        ),
        (
            "an adapter nobody attests",
            vec![("/runtime_recovery/manifest_entries/1/adapters", json!(["ac".repeat(32)]))],
            "Adapter",
        ),
        (
            "an eviction of what is retained",
            vec![("/runtime_recovery/manifest_entries/1/adapters", json!(["ae".repeat(32)]))],
            "Adapter",
        ),
        ("an adapter not listed", vec![("/adapter_attestation/evicted", json!([]))], "Adapter"),
        (
            "an adapter both gone and retained",
            vec![("/adapter_attestation/retained/0/weights", json!("ad".repeat(32)))],
            "Adapter",
        ),
        (
            "an eviction that unloaded nothing",
            vec![("/adapter_attestation/evicted/0/loads", json!(0))],
            "Adapter",
        ),
        ("spared and quarantined", vec![("/spared/0/entry", json!(9))], "Action"),
        ("spared and no member", vec![("/spared/0/entry", json!(5))], "NoMember"),
        ("covered by a member", vec![("/spared/0/covered_by", json!([1, 4]))], "Member"),
        ("an effect of no member", vec![("/residual/effects/0/entry", json!(5))], "NoMember"),
        ("quarantine not listed", vec![("/residual/quarantined", json!([]))], "Quarantined"),
        (
            "a purge listed as quarantine",
            vec![("/residual/quarantined", json!([3, 9]))],
            "Quarantined",
        ),
        (
            "something unfinished that is done",
            vec![("/residual/unfinished", json!([{"action": "purge", "entry": 3, "why": ""}]))],
            "Unfinished",
        ),
        ("a probe of no member", vec![("/membership_probe/probes/0/target", json!(5))], "NoMember"),
        ("a maximum too low", vec![("/membership_probe/probes/0/max_ppm", json!(60_000))], "Probe"),
        (
            "a leak called a pass",
            vec![
                ("/membership_probe/probes/0/scores/post/numbers_ppm", json!(1_000_000)),
                ("/membership_probe/probes/0/max_ppm", json!(1_000_000)),
            ],
            "Probe",
        ),
        (
            "a limit out of reach",
            vec![("/membership_probe/probes/0/detection_limit_ppm", json!(10_000))],
            "Probe",
        ),
        (
            "another verdict over all",
            vec![("/membership_probe/verdict", json!("PARTIAL"))],
            "Verdict",
        ),
        (
            "a reason why nothing ran beside what ran",
            vec![("/membership_probe/why", json!("busy"))],
            "Verdict",
        ),
        ("no probes and a pass", vec![("/membership_probe/probes", json!([]))], "Verdict"),
        ("a score without a member", vec![("/risk_scores/entries/0/entry", json!(2))], "Rows"),
        ("a score too low", vec![("/risk_scores/entries/0/score_ppm", json!(100_000))], "Score"),
        ("two millionths off", vec![("/risk_scores/entries/0/score_ppm", json!(635_712))], "Score"),
        (
            "unknown influence called harmless",
            vec![
                ("/risk_scores/entries/1/influence/ppm", json!(0)),
                ("/risk_scores/entries/1/score_ppm", json!(437_500)),
            ],
            "Score",
        ),
        (
            "direct evidence in doubt",
            vec![
                ("/risk_scores/entries/0/contamination_ppm", json!(0)),
                ("/risk_scores/entries/0/score_ppm", json!(64_285)),
            ],
            "Score",
        ),
        ("weights over one", vec![("/risk_scores/weights/share_ppm", json!(300_001))], "Tiers"),
        ("tiers in disorder", vec![("/risk_scores/tiers/purge_ppm", json!(500_000))], "Tiers"),
        ("less than the floor", vec![("/risk_scores/entries/5/floor", json!("flag"))], "Action"),
        ("recovered called incomplete", vec![("/outcome/state", json!("incomplete"))], "Outcome"),
        (
            "a reason that is none",
            vec![("/outcome/reasons", json!([{"count": 1, "missing": "probes_not_run"}]))],
            "Outcome",
        ),
        (
            "a truncated closure called whole",
            vec![("/runtime_recovery/closure/frontier", json!(1))],
            "Outcome",
        ),
        ("another incident than the subject", vec![("/incident", json!(incident(9)))], "Subject"),
        ("a number beyond 2⁵³", vec![("/time_ms", json!(9_007_199_254_740_992_u64))], "Number"),
        ("records of nothing", vec![("/audit/records", json!([]))], "NoRecord"),
    ];
    for (label, edits, expected) in cases {
        assert_eq!(changed(&edits), expected, "{label}");
    }
}

#[test]
fn one_millionth_either_way_is_the_same_score() {
    let golden = recovered().risk_scores.entries[0].score_ppm.millionths();
    for (off, expected) in [(golden, "accepted"), (golden + 1, "accepted"), (golden + 2, "Score")] {
        let verdict = signing(|recovery| recovery.risk_scores.entries[0].score_ppm = ppm(off));
        assert_eq!(verdict, expected, "{off}");
    }
    // The root is over what was signed, so that a score that would do is another leaf.
    assert_eq!(changed(&[("/risk_scores/entries/0/score_ppm", json!(golden + 1))]), "Entries");
}

/// docs/papers.md §3.4: (taint, share) gives 0.0375, 0.4375, 0.4750 and 0.5500.
#[test]
fn the_papers_golden_scores_follow_from_their_terms() {
    let cases = [(0, 1, 37_500), (1, 1, 437_500), (1, 2, 475_000), (1, 4, 550_000)];
    for (taint, reach, score) in cases {
        let mut recovery = incomplete(Digest([0; 32]));
        let row = &mut recovery.risk_scores.entries[2];
        row.contamination_ppm = ppm(taint * 1_000_000);
        row.share_ppm = ppm(reach * 125_000);
        row.score_ppm = ppm(score);
        assert_eq!(verdict(&certify(&recovery, &owner_key()).unwrap()), "accepted", "{score}");
    }
}

/// A recovery as an owner's own program might hold it; what [`certify`] says of it.
fn signing(change: impl FnOnce(&mut Recovery)) -> String {
    let mut recovery = recovered();
    change(&mut recovery);
    match certify(&recovery, &owner_key()) {
        Ok(file) => verdict(&file),
        Err(error) => reason(Some(error)),
    }
}

#[test]
fn nothing_is_signed_that_would_be_refused() {
    assert_eq!(signing(|_| {}), "accepted");
    assert_eq!(signing(|r| r.runtime_recovery.totals.purge.done += 1), "Totals");
    assert_eq!(
        signing(|r| r.runtime_recovery.manifest_entries[5].action = MemberAction::Flag),
        "Totals"
    );
    assert_eq!(signing(|r| r.risk_scores.entries[0].score_ppm = ppm(1)), "Score");
    assert_eq!(signing(|r| r.spared[0].entry = Seq(3)), "Action");
    assert_eq!(signing(|r| r.time = Timestamp(u64::MAX)), "Number");
    assert_eq!(signing(|r| r.store = StoreId::from_random([1; 16])), "LogKey");
    assert_eq!(signing(|r| r.audit.consistency.truncate(1)), "Consistency");
    let other = certify(&recovered(), &SigningKey::from_bytes(&[5; 32]));
    assert_eq!(reason(other.err()), "LogKey", "another owner than the log key's");
}

#[test]
fn a_checkpoint_or_proof_that_does_not_hold_is_refused() {
    let other_store = StoreId::from_random([7; 16]);
    let note = |origin: &LogName, size: u64, key_name: &LogName, key: &SigningKey| {
        let root = root_of(&leaves(size));
        Checkpoint { origin: origin.clone(), size, root }.sign(key, key_name)
    };
    let ours = origin(store());
    let other_name = LogName::new("other").unwrap();
    let stranger = SigningKey::from_bytes(&[9; 32]);
    let cases: Vec<(&str, Change<'_>, &str)> = vec![
        (
            "the note altered",
            Box::new(|r| r.audit.after.note = r.audit.after.note.replace("31", "32")),
            "Checkpoint",
        ),
        ("no note", Box::new(|r| r.audit.before.note = String::new()), "Checkpoint"),
        (
            "another signer",
            Box::new(|r| r.audit.after.note = note(&ours, 31, &key_name(), &stranger)),
            "Checkpoint",
        ),
        (
            "another key name",
            Box::new(|r| r.audit.after.note = note(&ours, 31, &other_name, &log_key())),
            "Checkpoint",
        ),
        (
            "another store's log, by the same log key",
            Box::new(|r| {
                r.audit.after.note = note(&origin(other_store), 31, &key_name(), &log_key());
            }),
            "ForeignCheckpoint",
        ),
        (
            "a log key certified for another store",
            Box::new(|r| r.audit.before.log_key = certified(&owner_key(), other_store)),
            "LogKey",
        ),
        (
            "a log key certified by another owner",
            Box::new(|r| r.audit.before.log_key = certified(&stranger, store())),
            "LogKey",
        ),
        (
            "a certificate in capitals",
            Box::new(|r| {
                let certificate = &mut r.audit.before.log_key.certificate;
                *certificate = certificate.to_uppercase();
            }),
            "LogKey",
        ),
        (
            "a log key swapped",
            Box::new(|r| {
                r.audit.after.log_key.public_key = Digest(stranger.verifying_key().to_bytes());
            }),
            "LogKey",
        ),
        ("a log that shrank", Box::new(|r| r.audit.after = checkpoint(20)), "Consistency"),
        ("another later log", Box::new(|r| r.audit.after = checkpoint(33)), "Consistency"),
        (
            "a proof of other sizes",
            Box::new(|r| r.audit.consistency = audit(20, 31, &[]).consistency),
            "Consistency",
        ),
        ("a leaf altered", Box::new(|r| r.audit.records[0].leaf = Digest([0; 32])), "Inclusion"),
        ("a leaf elsewhere", Box::new(|r| r.audit.records[4].seq = Seq(29)), "Inclusion"),
        ("a sibling missing", Box::new(|r| r.audit.records[1].inclusion.truncate(2)), "Inclusion"),
        (
            "a sibling too many",
            Box::new(|r| r.audit.records[1].inclusion.push(Digest([0; 32]))),
            "Inclusion",
        ),
        ("a record beyond the log", Box::new(|r| r.audit.records[4].seq = Seq(31)), "Inclusion"),
        (
            "a record from before the recovery",
            Box::new(|r| {
                r.audit.records = audit(SIZES[0], SIZES[1], &[(23, LoggedStep::Opened)]).records;
            }),
            "RecordBefore",
        ),
        ("records in disorder", Box::new(|r| r.audit.records.swap(0, 1)), "Order"),
        (
            "an origin beyond the log",
            Box::new(|r| r.runtime_recovery.closure.possible_origins = vec![Seq(31)]),
            "BeyondLog",
        ),
    ];
    for (label, change, expected) in cases {
        assert_eq!(signing(change), expected, "{label}");
    }
}

/// The same checks when reading: the owner's program signed what it should not have.
#[test]
fn a_reader_checks_the_log_too() {
    let cases = [
        ("/audit/consistency", json!([]), "Consistency"),
        ("/audit/records/0/leaf", json!("00".repeat(32)), "Inclusion"),
        ("/audit/before/note", json!(""), "Checkpoint"),
        ("/audit/before/log_key/public_key", json!("00".repeat(32)), "LogKey"),
        ("/store", json!(StoreId::from_random([7; 16])), "LogKey"),
    ];
    for (pointer, value, expected) in cases {
        assert_eq!(changed(&[(pointer, value)]), expected, "{pointer}");
    }
}

#[test]
fn the_log_key_may_change_between_the_checkpoints() {
    let next_key = SigningKey::from_bytes(&[4; 32]);
    let public_key = Digest(next_key.verifying_key().to_bytes());
    let certified = custody_log::LogKey::certified_bytes(store(), &public_key);
    let signature = ed25519_dalek::Signer::sign(&owner_key(), &certified).to_bytes();
    let stated = Checkpoint { origin: origin(store()), size: 31, root: root_of(&leaves(31)) };
    let rotated = signing(|r| {
        r.audit.after.log_key.public_key = public_key;
        r.audit.after.log_key.certificate = hex::encode(signature);
        r.audit.after.note = stated.sign(&next_key, &key_name());
    });
    assert_eq!(rotated, "accepted");
}

#[test]
fn an_error_names_its_cause_in_one_line() {
    let error = certify(&recovered(), &SigningKey::from_bytes(&[5; 32])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the owner did not certify the log key of the checkpoint before the recovery; do not trust the file"
    );
    assert_eq!(
        Disagreement::NoMember { list: "seeds", entry: Seq(5) }.to_string(),
        "`seeds` names #5, which is no member of the closure"
    );
    let owner = owner_key().verifying_key();
    let error = Certificate::verify(b"{}", &owner, Expectations::default()).unwrap_err();
    assert_eq!(error.to_string(), "the envelope is not one; fetch the file again");
}
