//! The holes of the published certificates, each closed.

use custody_certificate::{
    Certificate, CertificateError, CertificateOutcome, ClosureMode, Expectations, MemberAction,
    MembershipProbe, Missing, OutcomeReason, OutcomeState, ProbeKind, ProbeVerdict, Recovery,
    Verified, certify,
};
use custody_log::{Digest, Seq, StoreId};
use ed25519_dalek::SigningKey;

use crate::fixture::{incident, incomplete, measured, owner_key, probe, recovered, store};
use crate::hostile::{reason, verdict};
use crate::json::{edited, envelope, payload};

fn verified(recovery: &Recovery, expected: Expectations) -> Result<Verified, CertificateError> {
    let file = certify(recovery, &owner_key())?;
    Certificate::verify(&file, &owner_key().verifying_key(), expected)
}

/// Closes R23: the paper's certificate is a plain hash that anybody can make, and says what it likes.
#[test]
fn only_the_owner_can_make_a_certificate_and_it_cannot_contradict_itself() {
    let statement = payload(&certify(&recovered(), &owner_key()).unwrap());
    // Correct as to the paper: every field is there and its digest is that of the rest.
    let forged = edited(&statement, &[("/residual/effects", serde_json::json!([]))]);
    let anybody = SigningKey::from_bytes(&[9; 32]);
    assert_eq!(verdict(&envelope(forged.as_bytes(), &anybody, &owner_key())), "Signature");
    assert_eq!(verdict(&envelope(forged.as_bytes(), &anybody, &anybody)), "OtherKey");

    let lies = [
        ("/runtime_recovery/totals/purge/done", serde_json::json!(900), "Totals"),
        ("/runtime_recovery/manifest_entries", serde_json::json!([]), "Rows"),
        ("/risk_scores/entries", serde_json::json!([]), "Rows"),
        ("/membership_probe/probes/0/verdict", serde_json::json!("FAIL"), "Probe"),
    ];
    for (pointer, lie, expected) in lies {
        let statement = edited(&statement, &[(pointer, lie)]);
        let file = envelope(statement.as_bytes(), &owner_key(), &owner_key());
        assert_eq!(verdict(&file), expected, "{pointer}");
    }
}

/// Closes R24: the paper attests what was purged and quarantined, and forgets the rest of the closure.
#[test]
fn every_member_is_in_the_record_flagged_spared_and_untouched_ones_too() {
    let verified = verified(&recovered(), Expectations::default()).unwrap();
    let recovery = &verified.certificate().recovery;
    let members = &recovery.runtime_recovery.closure.members;
    let actions: Vec<(u64, MemberAction)> = recovery
        .runtime_recovery
        .manifest_entries
        .iter()
        .map(|row| (row.entry.0, row.action))
        .collect();
    assert_eq!(members.len(), actions.len());
    assert!(actions.contains(&(7, MemberAction::Flag)), "spared");
    assert!(actions.contains(&(12, MemberAction::None)), "untouched");

    for forgotten in [Seq(7), Seq(12)] {
        let mut short = recovered();
        short.runtime_recovery.manifest_entries.retain(|row| row.entry != forgotten);
        assert_eq!(reason(certify(&short, &owner_key()).err()), "Rows", "{forgotten}");
    }
}

/// Closes R25: the paper attests the mean similarity, which hides the one answer that leaked.
#[test]
fn the_one_answer_that_leaked_decides_and_not_the_mean() {
    let silent = probe(ProbeKind::Semantic, 3, Some(measured(0, 0)), None);
    let leaked = probe(ProbeKind::Direct, 3, Some(measured(100_000, 930_000)), None);
    let mut probes = vec![silent; 99];
    probes.push(leaked);
    assert_eq!(leaked.max_ppm.unwrap().millionths(), 930_000);
    let mut recovery = recovered();
    recovery.membership_probe = MembershipProbe::run(None, probes);
    assert_eq!(recovery.membership_probe.verdict, ProbeVerdict::Partial);
    let outcome =
        verified(&recovery, Expectations::default()).unwrap().certificate().outcome.clone();
    assert_eq!(outcome.state, OutcomeState::Incomplete);
    assert_eq!(outcome.reasons, [OutcomeReason { count: 1, missing: Missing::ProbesFailed }]);
    assert!(recovery.membership_probe.probes.iter().all(|probe| probe.scores.pre.is_some()));
}

/// Closes R26 and R37: without probes the paper's pipeline passes.
#[test]
fn no_probes_are_not_run_and_never_a_pass() {
    let none = [
        MembershipProbe::not_run("no language model is configured"),
        MembershipProbe::run(Some("a model".into()), Vec::new()),
    ];
    for probes in none {
        assert_eq!(probes.verdict, ProbeVerdict::NotRun);
        assert!(probes.why.is_some());
        let mut recovery = recovered();
        recovery.membership_probe = probes;
        let outcome = CertificateOutcome::of(&recovery);
        assert_eq!(outcome.state, OutcomeState::Incomplete);
        assert_eq!(outcome.reasons, [OutcomeReason { count: 1, missing: Missing::ProbesNotRun }]);
        assert!(verified(&recovery, Expectations::default()).is_ok());
        recovery.membership_probe.verdict = ProbeVerdict::Pass;
        assert_eq!(reason(certify(&recovery, &owner_key()).err()), "Verdict");
    }
}

/// Closes R35: a model that only repeats the question leaks nothing. A score at the limit is a leak, unless an echo of
/// the question scores so too.
#[test]
fn a_probe_is_judged_by_its_maximum_its_limit_and_its_control() {
    let at = |longest| Some(measured(0, longest));
    let cases = [
        (at(399_999), None, ProbeVerdict::Pass),
        (at(400_000), None, ProbeVerdict::Fail),
        (at(400_000), at(399_999), ProbeVerdict::Fail),
        (at(400_000), at(400_000), ProbeVerdict::Inconclusive),
        (at(100_000), at(900_000), ProbeVerdict::Pass),
        (None, None, ProbeVerdict::Inconclusive),
        (Some(Default::default()), None, ProbeVerdict::Inconclusive),
    ];
    for (post, control, expected) in cases {
        let found = probe(ProbeKind::Direct, 3, post, control).verdict;
        assert_eq!(found, expected, "{post:?} against {control:?}");
    }
}

/// docs/papers.md §3.4: no recovery passes, below one half is partial, else it fails; and R37 once more.
#[test]
fn the_verdict_over_all_probes_is_the_papers_and_unknown_is_no_pass() {
    let [pass, fail, unknown] = [Some(measured(0, 0)), Some(measured(0, 900_000)), None]
        .map(|post| probe(ProbeKind::Direct, 3, post, None));
    let cases = [
        (vec![pass, pass], ProbeVerdict::Pass),
        (vec![pass, pass, fail], ProbeVerdict::Partial),
        (vec![pass, fail], ProbeVerdict::Fail),
        (vec![pass, unknown], ProbeVerdict::Inconclusive),
        (vec![unknown], ProbeVerdict::Inconclusive),
        (vec![pass, unknown, fail], ProbeVerdict::Partial),
    ];
    for (probes, expected) in cases {
        assert_eq!(MembershipProbe::run(None, probes).verdict, expected);
    }
}

/// Closes R27: the paper's certificates are not chained, so an old one passes for a new one.
#[test]
fn an_older_certificate_is_refused_where_a_newer_one_is_expected() {
    let first = verified(&recovered(), Expectations::default()).unwrap();
    let next = incomplete(first.digest());
    let after = |digest| Expectations { after: Some(digest), ..Expectations::default() };
    let newest = verified(&next, after(first.digest())).unwrap();

    let replayed = verified(&recovered(), after(first.digest()));
    assert_eq!(reason(replayed.err()), "NotNext", "the same one again");
    let replayed = verified(&next, after(newest.digest()));
    assert_eq!(reason(replayed.err()), "NotNext", "the newest one again");
    let skipped = verified(&incomplete(Digest([3; 32])), after(first.digest()));
    assert_eq!(reason(skipped.err()), "NotNext", "one is missing between");
    assert_eq!(newest.certificate().recovery.previous, Some(first.digest()));
}

#[test]
fn a_certificate_of_another_incident_or_store_is_refused() {
    let of = |incident, store| Expectations { incident, store, after: None };
    let cases = [
        (of(Some(incident(0x11)), Some(store())), "accepted"),
        (of(Some(incident(0x22)), None), "OtherIncident"),
        (of(None, Some(StoreId::from_random([1; 16]))), "OtherStore"),
    ];
    for (expected, verdict) in cases {
        assert_eq!(reason(verified(&recovered(), expected).err()), verdict, "{expected:?}");
    }
}

/// docs/design.md §8: what failed or is unfinished shows at the top.
#[test]
fn everything_that_is_missing_is_in_the_outcome() {
    let outcome = CertificateOutcome::of(&incomplete(Digest([0; 32])));
    assert_eq!(outcome.state, OutcomeState::Incomplete);
    let reasons: Vec<(Missing, u64)> =
        outcome.reasons.iter().map(|reason| (reason.missing, reason.count)).collect();
    assert_eq!(
        reasons,
        [
            (Missing::ClosureTruncated, 3),
            (Missing::ActionsUnfinished, 2),
            (Missing::AdaptersUnfinished, 1),
            (Missing::AdaptersFused, 1),
            (Missing::ProbesFailed, 1),
            (Missing::ProbesInconclusive, 2),
        ]
    );
    assert_eq!(
        CertificateOutcome::of(&recovered()),
        CertificateOutcome { reasons: Vec::new(), state: OutcomeState::Recovered }
    );
}

/// R6 and R12: a cut closure and fused weights cannot pass for a recovery.
#[test]
fn a_depth_limit_or_a_fused_adapter_alone_makes_it_incomplete() {
    let mut cut = recovered();
    cut.runtime_recovery.closure.mode = ClosureMode::RvuV1;
    cut.runtime_recovery.closure.frontier = 1;
    let mut fused = recovered();
    fused.adapter_attestation.fusion_warnings =
        incomplete(Digest([0; 32])).adapter_attestation.fusion_warnings;
    for recovery in [cut, fused] {
        let verified = verified(&recovery, Expectations::default()).unwrap();
        assert_eq!(verified.certificate().outcome.state, OutcomeState::Incomplete);
    }
    // Nor can an eviction of them be called done.
    let mut denied = recovered();
    let attested = &mut denied.adapter_attestation;
    attested.evicted.clear();
    attested.fusion_warnings = incomplete(Digest([0; 32])).adapter_attestation.fusion_warnings;
    attested.fusion_warnings[0].weights = Digest([0xAD; 32]);
    assert_eq!(reason(certify(&denied, &owner_key()).err()), "Adapter");
}
