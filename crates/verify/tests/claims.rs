//! A certificate compared with the store that it is about: what holds, what no longer does, what cannot be told.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../incident/tests/certified/mod.rs"]
mod certified;
#[path = "../../runtime/tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;

use certified::{Poisoned, poison, recovery};
use common::Scratch;
use custody_certificate::{
    ActionTotals, Certificate, Expectations, LoggedStep, MemberKind, MembershipProbe, Recovery,
    SparedMember, Verified,
};
use custody_incident::{Incidents, Indicator, Settings};
use custody_kernel::label::Channel;
use custody_keys::public_key;
use custody_log::{Digest, Seq};
use custody_runtime::Session;
use custody_runtime::ingress::Observation;
use custody_verify::{ClaimResult, verify_claims};

struct Case {
    scratch: Scratch,
    poisoned: Poisoned,
    recovery: Recovery,
}

impl Case {
    fn new() -> Self {
        let scratch = Scratch::new();
        let poisoned = poison(&scratch.store, &scratch.owner);
        let recovery = recovery(&scratch.store, &scratch.owner, &scratch.owner_key);
        Self { scratch, poisoned, recovery }
    }

    fn verified(&self, recovery: &Recovery) -> Verified {
        let key = public_key::parse(&self.scratch.owner_key.public_key().to_string()).unwrap();
        let file =
            custody_certificate::certify(recovery, self.scratch.owner_key.signing_key()).unwrap();
        Certificate::verify(&file, &key, Expectations::default()).unwrap()
    }

    /// What the store says of each claim, by the claim's name and entry.
    fn found(
        &self,
        recovery: &Recovery,
    ) -> BTreeMap<(&'static str, Option<Seq>), Vec<ClaimResult>> {
        let verified = self.verified(recovery);
        let mut found: BTreeMap<_, Vec<ClaimResult>> = BTreeMap::new();
        for (claim, said) in verify_claims(&self.scratch.store, &verified).unwrap().claims {
            found.entry((claim.name(), claim.entry())).or_default().push(said);
        }
        found
    }

    /// The claims that do not hold once `change` was made to the certificate.
    fn broken(&self, change: impl FnOnce(&mut Recovery)) -> Vec<String> {
        let mut recovery = self.recovery.clone();
        change(&mut recovery);
        recovery.runtime_recovery.totals =
            ActionTotals::of(&recovery.runtime_recovery.manifest_entries);
        let verified = self.verified(&recovery);
        let claims = verify_claims(&self.scratch.store, &verified).unwrap().claims;
        let broken = claims.iter().filter_map(|(claim, found)| match found {
            ClaimResult::Fails(why) => Some(format!("{}: {why}", claim.name())),
            ClaimResult::Holds | ClaimResult::CannotTell(_) => None,
        });
        broken.collect()
    }
}

#[test]
fn a_true_certificate_holds_in_every_claim() {
    let case = Case::new();
    let found = case.found(&case.recovery);
    let Poisoned { page, quote, obeyed, call, .. } = case.poisoned;
    for name in ["log", "only_breaks", "policy", "closure"] {
        assert!(found[&(name, None)].iter().all(|found| *found == ClaimResult::Holds), "{name}");
    }
    assert_eq!(found[&("log", None)].len(), 2);
    assert_eq!(found[&("spared", Some(quote))], [ClaimResult::Holds]);
    assert_eq!(found[&("effect", Some(call))], [ClaimResult::Holds]);
    for (name, entry) in
        [("entry", page), ("entry", quote), ("entry", obeyed), ("quarantined", obeyed)]
    {
        assert_eq!(found[&(name, Some(entry))], [ClaimResult::Holds], "{name} {entry}");
    }
    assert_eq!(found[&("risk", Some(page))], [ClaimResult::Holds]);
    assert_eq!(found.values().flatten().filter(|f| matches!(f, ClaimResult::Fails(_))).count(), 0);
}

/// The sparing of a completion is derived again from the entries that the certificate names. What a user quotes covers
/// nothing: it is somebody else's.
#[test]
fn g27_a_spared_completion_is_derived_again_and_what_a_user_quotes_covers_nothing() {
    let scratch = Scratch::new();
    let session = Session::open(&scratch.store, &scratch.owner, None).unwrap();
    let say = |what: Observation| session.observe(what).wait().unwrap()[0].seq;
    let short = say(Observation::message(Channel::User, "Noted."));
    let long = say(Observation::message(Channel::User, "The table for two is booked."));
    let both = say(Observation::message(Channel::User, "Noted.\nThe table for two is booked."));
    let quoted = "Please wire the rest to Bob today.";
    say(Observation::message(Channel::User, format!("Is this real?\n> {quoted}")));
    say(Observation::message(Channel::User, format!("Or this?\n```\n{quoted}\n```")));
    say(Observation::message(Channel::Web, certified::POISON));
    let spared = say(Observation::completion("- Noted.\n- The table for two is booked."));
    let chosen = say(Observation::completion(quoted));
    drop(session);
    let recovery = recovery(&scratch.store, &scratch.owner, &scratch.owner_key);
    let covers = vec![short, long, both];
    assert_eq!(recovery.spared, [SparedMember { covered_by: covers, entry: spared }]);
    assert!(recovery.residual.quarantined.contains(&chosen));
    let poisoned =
        Poisoned { trusted: short, page: short, quote: spared, obeyed: chosen, call: chosen };
    let case = Case { scratch, poisoned, recovery };
    assert_eq!(case.found(&case.recovery)[&("spared", Some(spared))], [ClaimResult::Holds]);
    assert_eq!(
        case.broken(|recovery| recovery.spared[0].covered_by = vec![short, long]),
        ["spared: no trusted clean text contains its sentence 0"],
    );
}

#[test]
fn each_claim_that_the_store_denies_is_named() {
    let case = Case::new();
    let quote = case.poisoned.quote;
    assert_eq!(case.broken(|_| {}), [""; 0]);
    let other = |broken: Vec<String>, expected: &[&str]| assert_eq!(broken, expected);
    other(
        case.broken(|recovery| recovery.policy_digest = Digest::of(b"another")),
        &["policy: no policy was signed, and this one never shipped"],
    );
    other(
        case.broken(|recovery| {
            recovery.runtime_recovery.manifest_entries[2].kind = MemberKind::Message;
        }),
        &["entry: it is a completion"],
    );
    other(
        case.broken(|recovery| {
            recovery.runtime_recovery.manifest_entries[2].commitment = Some(Digest([7; 32]));
        }),
        &["entry: its content has another commitment"],
    );
    other(
        case.broken(|recovery| recovery.residual.effects[0].tool = "send_mail".into()),
        &["effect: it is a call of another tool or with other arguments"],
    );
    other(
        case.broken(|recovery| {
            recovery.spared = vec![SparedMember { covered_by: vec![], entry: quote }];
        }),
        &["spared: no trusted clean text contains its sentence 0"],
    );
    let share = case.recovery.risk_scores.entries[0].share_ppm;
    other(
        case.broken(|recovery| {
            recovery.risk_scores.entries[0].share_ppm = recovery.risk_scores.entries[1].share_ppm;
            recovery.risk_scores.entries[0].score_ppm = custody_certificate::Ppm::try_from(
                (400_000_000_000_u64
                    + 300_000 * u64::from(recovery.risk_scores.entries[1].share_ppm.millionths()))
                .checked_div(700_000)
                .and_then(|score| u32::try_from(score).ok())
                .unwrap(),
            )
            .unwrap();
        }),
        &[&format!("risk: its share of the store is {share}")],
    );
}

/// A member left out, with everything that names it: nothing in the file shows it, the record does.
#[test]
fn a_member_that_was_left_out_is_missed() {
    let case = Case::new();
    let call = case.poisoned.call;
    let broken = case.broken(|recovery| {
        recovery.runtime_recovery.closure.members.retain(|entry| *entry != call);
        recovery.runtime_recovery.manifest_entries.retain(|row| row.entry != call);
        recovery.risk_scores.entries.retain(|row| row.entry != call);
        recovery.residual.effects.clear();
        recovery.residual.quarantined.retain(|entry| *entry != call);
    });
    assert_eq!(broken, ["closure: it lacks 1 entries that they reach and has 0 that they do not"]);
}

/// An older certificate is refused by the store: a newer one says what holds now.
#[test]
fn an_older_certificate_is_refused_by_the_store() {
    let scratch = Scratch::new();
    poison(&scratch.store, &scratch.owner);
    let Recovery { incident, .. } = recovery(&scratch.store, &scratch.owner, &scratch.owner_key);
    let certify = || {
        let Scratch { store, owner, owner_key, .. } = &scratch;
        let probed = Incidents::of(store).applied(incident).unwrap().skip_probes();
        let certified = probed.certify(owner, owner_key, "custody 0.1.0").unwrap();
        let file = certified.taken().unwrap().file;
        Incidents::of(store).verify_certificate(&file, Expectations::default()).unwrap()
    };
    let newest = |verified: &Verified| {
        let claims = verify_claims(&scratch.store, verified).unwrap().claims;
        claims.into_iter().find(|(claim, _)| claim.name() == "newest").unwrap().1
    };
    let older = certify();
    assert_eq!(newest(&older), ClaimResult::Holds);
    let newer = certify();
    assert_eq!(newest(&older), ClaimResult::Fails("1 newer were signed since".into()));
    assert_eq!(newest(&newer), ClaimResult::Holds);
}

#[test]
fn a_restored_entry_is_no_longer_in_quarantine() {
    let case = Case::new();
    let (incident, obeyed) = (case.recovery.incident, case.poisoned.obeyed);
    let scratch = &case.scratch;
    Incidents::of(&scratch.store).restore(&scratch.owner, incident, vec![obeyed]).unwrap();
    assert_eq!(case.broken(|_| {}), ["entry: it was restored", "quarantined: it was restored"]);
}

#[test]
fn what_derives_from_members_after_the_plan_is_counted() {
    let case = Case::new();
    let verified = case.verified(&case.recovery);
    let recount =
        |case: &Case| verify_claims(&case.scratch.store, &verified).unwrap().reached_since;
    assert_eq!(recount(&case), 0);
    let session = Session::open(&case.scratch.store, &case.scratch.owner, None).unwrap();
    let output = Observation::tool_output(case.poisoned.call, "sent");
    session.observe(output).wait().unwrap();
    session.observe(Observation::completion("The money is sent.")).wait().unwrap();
    assert_eq!(recount(&case), 2);
    assert_eq!(case.broken(|_| {}), [""; 0], "what the certificate saw is as it was");
}

#[test]
fn an_adoption_that_the_certificate_conceals_is_found() {
    let scratch = Scratch::new();
    let poisoned = poison(&scratch.store, &scratch.owner);
    let Scratch { folder, paths, owner_key, owner, store, clock } = scratch;
    drop(store);
    let (store, _) =
        custody_runtime::Store::adopt(&paths, &owner_key, "restored", clock.clone()).unwrap();
    let recovery = recovery(&store, &owner, &owner_key);
    let case = Case {
        scratch: Scratch { folder, paths, owner_key, owner, store, clock },
        poisoned,
        recovery,
    };
    assert_eq!(case.broken(|_| {}), [""; 0], "the certificate says so itself");
    let hidden = case.broken(|recovery| recovery.audit.breaks.clear());
    assert_eq!(hidden, ["only_breaks: 1 more stand in the log"]);
    let adopted = case.scratch.store.state(|state| state.breaks().to_vec()).unwrap();
    let record = case.scratch.store.record(adopted[0]).unwrap();
    let named = |reason: &str| custody_certificate::LedgerBreak {
        at_ms: record.at,
        head_size: Some(record.seq.0),
        reason: reason.into(),
        seq: adopted[0],
    };
    assert_eq!(case.broken(|recovery| recovery.audit.breaks = vec![named("restored")]), [""; 0]);
    assert_eq!(
        case.broken(|recovery| recovery.audit.breaks = vec![named("nothing much")]),
        ["break: time, head or reason are others"]
    );
}

#[test]
fn of_another_log_nothing_can_be_told() {
    let case = Case::new();
    let other = Case::new();
    let verified = case.verified(&case.recovery);
    let recount = verify_claims(&other.scratch.store, &verified).unwrap();
    for (claim, found) in recount.claims {
        match (claim.name(), found) {
            ("log", ClaimResult::Fails(_)) | (_, ClaimResult::CannotTell(_)) => {}
            (name, found) => panic!("{name}: {found:?}"),
        }
    }
}

/// A certificate of a recovery whose probes were never run.
fn not_probed() -> Case {
    let case = Case::new();
    let Scratch { store, owner, owner_key, .. } = &case.scratch;
    let session = Session::open(store, owner, None).unwrap();
    session
        .observe(Observation::message(Channel::Web, "A second page, of another kind."))
        .wait()
        .unwrap();
    let incidents = Incidents::of(store);
    let sought = ["a second page".parse::<Indicator>().unwrap()];
    let found = incidents.find(&sought).unwrap().findings;
    let opened = incidents.open(owner, &sought, found).unwrap().taken().unwrap();
    let planned = opened.plan(Settings::default()).unwrap();
    let probed = planned.apply(owner).unwrap().taken().unwrap().skip_probes();
    let file = probed.certify(owner, owner_key, "custody 0.1.0").unwrap().taken().unwrap().file;
    let verified = incidents.verify_certificate(&file, Expectations::default()).unwrap();
    let recovery = verified.certificate().recovery.clone();
    Case { recovery, ..case }
}

/// (G28) The results of probes are those of their report on the record.
#[test]
fn g28_probes_that_the_recorded_report_does_not_have_are_named() {
    let case = Case::new();
    assert_eq!(case.broken(|_| {}), [""; 0]);
    assert_eq!(case.found(&case.recovery)[&("probes", None)], [ClaimResult::Holds]);
    let changed = case.broken(|recovery| {
        let probe = recovery.membership_probe.probes[0];
        recovery.membership_probe = MembershipProbe::run(None, vec![probe, probe]);
    });
    assert!(
        matches!(&changed[..], [named] if named.starts_with("probes: the report ")),
        "{changed:?}"
    );
    let dropped = case.broken(|recovery| {
        recovery.membership_probe = MembershipProbe::not_run("there was no time");
    });
    assert!(
        matches!(&dropped[..], [named] if named.starts_with("probes: the report ")),
        "{dropped:?}"
    );
    // A certificate that leaves out where the report is.
    let hidden = case.broken(|recovery| {
        recovery.membership_probe = MembershipProbe::not_run("there was no time");
        recovery.audit.records.retain(|record| record.step != LoggedStep::Probed);
    });
    assert!(
        matches!(&hidden[..], [named] if named.starts_with("probes: the report ")),
        "{hidden:?}"
    );
}

/// (G28) Without a report on the record, a certificate has no results.
#[test]
fn g28_probes_without_a_report_are_named() {
    let case = not_probed();
    assert_eq!(case.broken(|_| {}), [""; 0]);
    let page = case.recovery.runtime_recovery.closure.members[0];
    let invented = case.broken(|recovery| {
        let mut probe = Case::new().recovery.membership_probe.probes[0];
        probe.target = page;
        recovery.membership_probe = MembershipProbe::run(None, vec![probe]);
    });
    assert_eq!(invented, ["probes: the record has no report of them"]);
}

/// (G28) A record whose report was exchanged in the database is refused before anything is said of it.
#[test]
fn g28_a_report_that_was_exchanged_is_refused() {
    let case = Case::new();
    let verified = case.verified(&case.recovery);
    let change = "UPDATE contents SET bytes = CAST(replace(bytes, 'PASS', 'FAIL') AS BLOB)
        WHERE arrival = (SELECT max(arrival) FROM contents)";
    case.scratch.raw().execute(change, []).unwrap();
    assert!(verify_claims(&case.scratch.store, &verified).is_err());
}
