//! E1, after the incident: the ten scenarios, played by an agent that does whatever it reads and that nobody stops,
//! are on the record. One recovery for all of them, and what the store says afterwards.
//!
//! Source: RVU §5.1, the statistics below Table 1.

use std::collections::BTreeSet;

use custody_certificate::Expectations;
use custody_incident::certify::ProbeReport;
use custody_incident::{Incidents, Indicator, Settings};
use custody_kernel::label::Channel;
use custody_kernel::memory::rate::Limits;
use custody_log::Seq;
use custody_planner::{Closure, RecoveryAction, WalkMode};
use custody_runtime::clock::Clock;
use custody_runtime::ingress::Observation;
use custody_runtime::scratch::Scratch;
use custody_runtime::{Session, StoreError};
use custody_verify::{ClaimResult, verify_claims};

use super::published::setup;
use crate::agent::scenarios::{self, Scenario};
use crate::error::EvalError;
use crate::report::Figure;

const E1: &str = "RVU §5.1, below Table 1";

/// The entries that the scenarios left on the record, and what is true of them.
#[derive(Default)]
struct ObeyedScenarios {
    /// The outputs that brought an attack.
    seeds: Vec<Seq>,
    /// Those, and whatever the agent said and did because of them.
    contaminated: BTreeSet<Seq>,
    benign: BTreeSet<Seq>,
    /// The attackers' calls, which ran.
    effects: u64,
}

pub(super) fn figures() -> Result<Vec<Figure>, EvalError> {
    let scratch = Scratch::new(Limits::UNLIMITED, Clock::manual(1_000))?;
    let mut played = ObeyedScenarios::default();
    for scenario in scenarios::read()? {
        played.play(&scratch, &scenario)?;
    }
    let (store, owner) = (&scratch.store, &scratch.owner);
    let graph = Incidents::of(store).graph()?;
    let v2 = Closure::new(&graph, WalkMode::RvuV2, &played.seeds).map_err(setup)?.len() as u64;
    let indicators: Vec<Indicator> =
        played.seeds.iter().copied().map(Indicator::Position).collect();
    let found = Incidents::of(store).find(&indicators)?;
    let opened = Incidents::of(store).open(owner, &indicators, found.findings)?.taken()?;
    let planned = opened.contain(owner)?.taken()?.plan(Settings::default())?;
    let applied = planned.apply(owner)?.taken()?;
    let at_rest = Incidents::of(store).sweep(applied.destroyed())?;
    let membership = Incidents::of(store).probe_retrieval(applied.destroyed())?;
    let report = ProbeReport { at_rest, membership };
    let probed = applied.record_probes(owner, &report)?.taken()?;
    let plan = probed.plan();
    let file = probed.certify(owner, &scratch.owner_key, "custody eval")?.taken()?.file;
    let verified = Incidents::of(store).verify_certificate(&file, Expectations::default())?;
    let claims = verify_claims(store, &verified)?.claims;
    let failing = claims.iter().filter(|(_, found)| matches!(found, ClaimResult::Fails(_))).count();

    let detected = played
        .contaminated
        .iter()
        .filter(|entry: &&Seq| plan.entries.iter().any(|planned| planned.entry == **entry))
        .count() as u64;
    let purged: BTreeSet<Seq> = plan.with_action(RecoveryAction::Purge).into_iter().collect();
    let contaminated = played.contaminated.len() as u64;
    let left = store.state(|state| {
        played.contaminated.iter().filter(|entry| !state.is_out(**entry)).count() as u64
    })?;
    let certificates = store.state(|state| state.certificates().len() as u64)?;
    let recounted = u64::from(failing == 0);
    Ok(vec![
        Figure::count(
            "e1.entries",
            (played.contaminated.len() + played.benign.len()) as u64,
            "entries",
        )
        .published(10.0, E1),
        Figure::rate("e1.custody.detected_rate", detected, contaminated).published(1.0, E1),
        Figure::count("e1.custody.closure", plan.counts.entries, "entries").published(10.0, E1),
        Figure::count("e1.rvu_v2.closure", v2, "entries").published(10.0, E1),
        Figure::count("e1.custody.residual", left, "entries"),
        Figure::rate(
            "e1.custody.benign_purged_rate",
            played.benign.intersection(&purged).count() as u64,
            played.benign.len() as u64,
        ),
        Figure::rate("e1.custody.effects_named_rate", plan.counts.irreversible, played.effects),
        Figure::count("e1.custody.certificates", certificates, "certificates").published(1.0, E1),
        Figure::count("e1.custody.certificates_recounted", recounted, "certificates")
            .published(1.0, E1),
    ])
}

impl ObeyedScenarios {
    /// One scenario, to the letter of what the output says, and a word of thanks in another session.
    fn play(&mut self, scratch: &Scratch, scenario: &Scenario) -> Result<(), EvalError> {
        let session = Session::open(&scratch.store, &scratch.owner, Some(scenario.id.clone()))?;
        let asked = Observation::message(Channel::User, scenario.user.as_str());
        self.benign.insert(observe(&session, asked)?);
        let Some(first) = scenario.calls.first() else { return Ok(()) };
        let call = observe(&session, first.observed())?;
        self.benign.insert(call);
        let output = Observation::tool_output(call, scenario.output.as_str());
        let output = observe(&session, output.from(first.tool.as_str()))?;
        self.seeds.push(output);
        let repeated = format!("I do what it says: {}", scenario.output);
        let answered = observe(&session, Observation::completion(repeated))?;
        self.contaminated.extend([output, answered]);
        for call in &scenario.attack {
            self.contaminated.insert(observe(&session, call.observed())?);
            self.effects += 1;
        }
        let other = Session::open(&scratch.store, &scratch.owner, None)?;
        let thanks = format!("Thank you, {} is settled.", scenario.id);
        self.benign.insert(observe(&other, Observation::message(Channel::User, thanks))?);
        self.benign.insert(observe(&other, Observation::completion("You are welcome."))?);
        Ok(())
    }
}

fn observe(session: &Session, observation: Observation) -> Result<Seq, StoreError> {
    let parts = session.observe(observation).wait()?;
    Ok(parts.first().map_or(Seq(0), |receipt| receipt.seq))
}
