//! What a reader with the store can recount.

use custody_certificate::{Certificate, Claim, Expectations, MemberAction, Verified, certify};
use custody_log::{Digest, Seq};

use crate::fixture::{incomplete, owner_key, recovered};

fn verified(file: &[u8]) -> Verified {
    Certificate::verify(file, &owner_key().verifying_key(), Expectations::default()).expect("sound")
}

#[test]
fn claims_say_one_thing_each_in_words() {
    let first = verified(&certify(&recovered(), &owner_key()).unwrap());
    let said: Vec<String> = first
        .claims()
        .filter(|claim| claim.entry() == Some(Seq(9)))
        .map(|c| c.to_string())
        .collect();
    assert_eq!(
        said,
        [
            "#9 was put in quarantine",
            "#9 scores 0.486490",
            "#9 is in quarantine",
            "#9 cannot be undone",
        ]
    );
    let next = verified(&certify(&incomplete(first.digest()), &owner_key()).unwrap());
    let said: Vec<String> = next.claims().map(|claim| claim.to_string()).collect();
    assert!(said.contains(&"#8 waits for its action".to_owned()), "{said:?}");
    assert!(said.contains(&"#31 is an adoption of the ledger".to_owned()), "{said:?}");
    assert!(
        said.contains(&format!("the adapter {} is still loaded", Digest([0xB1; 32]))),
        "{said:?}"
    );
}

/// A store in which one purged entry came back: exactly the claim about it no longer holds.
#[test]
fn whoever_has_the_store_learns_which_claim_no_longer_holds() {
    let verified = verified(&certify(&recovered(), &owner_key()).unwrap());
    let purged_in_store = [Seq(4), Seq(6)];
    let no_longer_holds = |claim: &Claim<'_>| {
        matches!(claim, Claim::Entry(row)
        if row.action >= MemberAction::Purge && !purged_in_store.contains(&row.entry))
    };
    let broken: Vec<Option<Seq>> =
        verified.claims().filter(no_longer_holds).map(|claim| claim.entry()).collect();
    assert_eq!(broken, [Some(Seq(3))]);
}

#[test]
fn every_list_of_a_certificate_is_among_its_claims() {
    let first = certify(&recovered(), &owner_key()).unwrap();
    let next = certify(&incomplete(Digest::of(&first)), &owner_key()).unwrap();
    for file in [first, next] {
        let verified = verified(&file);
        let recovery = &verified.certificate().recovery;
        let count = |is: fn(&Claim<'_>) -> bool| verified.claims().filter(is).count();
        let members = recovery.runtime_recovery.closure.members.len();
        let adapters = &recovery.adapter_attestation;
        let expected = [
            (2, count(|claim| matches!(claim, Claim::Log(_)))),
            (1, count(|claim| matches!(claim, Claim::OnlyBreaks(_)))),
            (1, count(|claim| matches!(claim, Claim::Newest(_)))),
            (1, count(|claim| matches!(claim, Claim::Policy(_)))),
            (1, count(|claim| matches!(claim, Claim::Closure { .. }))),
            (members, count(|claim| matches!(claim, Claim::Entry(_)))),
            (members, count(|claim| matches!(claim, Claim::Risk(_)))),
            (recovery.audit.records.len(), count(|claim| matches!(claim, Claim::Record(_)))),
            (recovery.audit.breaks.len(), count(|claim| matches!(claim, Claim::Break(_)))),
            (recovery.spared.len(), count(|claim| matches!(claim, Claim::Spared(_)))),
            (recovery.residual.quarantined.len(), count(|c| matches!(c, Claim::Quarantined(_)))),
            (recovery.residual.effects.len(), count(|claim| matches!(claim, Claim::Effect(_)))),
            (adapters.evicted.len(), count(|claim| matches!(claim, Claim::Evicted(_)))),
            (adapters.fusion_warnings.len(), count(|claim| matches!(claim, Claim::Fused(_)))),
            (adapters.unfinished.len(), count(|claim| matches!(claim, Claim::StillLoaded(_)))),
            (adapters.retained.len(), count(|claim| matches!(claim, Claim::Retained(_)))),
            (1, count(|claim| matches!(claim, Claim::Probes(_)))),
        ];
        assert!(expected.iter().all(|(listed, claimed)| listed == claimed), "{expected:?}");
        let total: usize = expected.iter().map(|(listed, _)| listed).sum();
        assert_eq!(verified.claims().count(), total);
    }
}

#[test]
fn kinds_are_named_as_they_are_written() {
    for file in
        [certify(&recovered(), &owner_key()), certify(&incomplete(Digest([0; 32])), &owner_key())]
    {
        let verified = verified(&file.unwrap());
        for row in &verified.certificate().recovery.runtime_recovery.manifest_entries {
            assert_eq!(serde_json::to_value(row.kind).unwrap(), row.kind.as_str());
        }
    }
}
