//! Adapters on a real store: what was made under bad weights is found, and hosts unload them or stand as unfinished.

#![allow(clippy::unwrap_used, reason = "a helper of a test may fail it")]

#[path = "../../runtime/tests/common/mod.rs"]
mod common;

use common::{Scratch, hears};
use custody_certificate::{
    AdapterAttestation, EvictionMethod, Expectations, Missing, OutcomeState, Verified,
};
use custody_incident::adapters::{AdapterHost, Hosts, Unloading};
use custody_incident::certify::ProbeReport;
use custody_incident::{Incidents, Indicator, Settings};
use custody_kernel::adapter::{AdapterChange, Name};
use custody_kernel::label::Channel;
use custody_kernel::memory::refusal::Refusal;
use custody_kernel::principal::Role;
use custody_kernel::record::{Answer, ObservationKind};
use custody_log::{Digest, IncidentId, Seq};
use custody_planner::{AdapterAction, RecoveryAction};
use custody_runtime::Session;
use custody_runtime::ingress::Observation;
use custody_verify::{ClaimResult, verify_claims, verify_ledger};

const BAD: Digest = Digest([0xbd; 32]);
const GOOD: Digest = Digest([0x60; 32]);

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// A host that unloads so often and then fails.
struct Scripted {
    unloads: usize,
    asked: Vec<(Digest, Option<Name>)>,
}

impl Scripted {
    const fn new(unloads: usize) -> Self {
        Self { unloads, asked: Vec::new() }
    }
}

impl AdapterHost for Scripted {
    fn unload(&mut self, weights: Digest, name: Option<&Name>) -> Result<(), String> {
        self.asked.push((weights, name.cloned()));
        if self.asked.len() > self.unloads {
            return Err("the host hung up".to_owned());
        }
        Ok(())
    }
}

/// A store with a host that carries a good adapter, and a bad one twice.
struct Case {
    scratch: Scratch,
    host: Name,
    token: String,
}

impl Case {
    fn new() -> Self {
        let scratch = Scratch::new();
        let (_, token) = scratch.add("ada", Role::User);
        let case = Self { scratch, host: name("vllm-1"), token };
        case.load(GOOD, "style", vec![]);
        case
    }

    fn load(&self, weights: Digest, called: &str, made_from: Vec<Seq>) -> Answer {
        self.changes(AdapterChange::Load { weights, name: name(called), made_from })
    }

    fn changes(&self, change: AdapterChange) -> Answer {
        let Scratch { store, owner, .. } = &self.scratch;
        Incidents::of(store).adapt(owner, &self.host, change).unwrap().answer
    }

    fn session(&self) -> Session {
        let ada = self.scratch.store.authenticate_token(&self.token).unwrap();
        Session::open_on(&self.scratch.store, &ada, None, Some(self.host.clone())).unwrap()
    }

    /// Opens an incident with the bad adapter's hash, contains it and applies its plan.
    fn applies(&self) -> IncidentId {
        let Scratch { store, owner, .. } = &self.scratch;
        let indicators: Vec<Indicator> = vec![format!("adapter:{BAD}").parse().unwrap()];
        let found = Incidents::of(store).find(&indicators).unwrap();
        let opened = Incidents::of(store).open(owner, &indicators, found.findings).unwrap();
        let contained = opened.taken().unwrap().contain(owner).unwrap().taken().unwrap();
        let planned = contained.plan(Settings::default()).unwrap();
        let applied = planned.apply(owner).unwrap().taken().unwrap();
        let at_rest = Incidents::of(store).sweep(applied.destroyed()).unwrap();
        let membership = Incidents::of(store).probe_retrieval(applied.destroyed()).unwrap();
        let report = ProbeReport { at_rest, membership };
        applied.record_probes(owner, &report).unwrap().taken().unwrap().id()
    }

    fn evict(&self, id: IncidentId, host: &mut dyn AdapterHost) -> Vec<Unloading> {
        let mut hosts: Hosts<'_> = [(self.host.clone(), host)].into();
        Incidents::of(&self.scratch.store).evict(&self.scratch.owner, id, &mut hosts).unwrap()
    }

    /// A certificate, and that every claim of it holds in the store.
    fn certify(&self, id: IncidentId) -> Verified {
        let Scratch { store, owner, owner_key, .. } = &self.scratch;
        let probed = Incidents::of(store).applied(id).unwrap().skip_probes();
        let certified = probed.certify(owner, owner_key, "custody 0.0.0").unwrap();
        let file = certified.taken().unwrap().file;
        let verified =
            Incidents::of(store).verify_certificate(&file, Expectations::default()).unwrap();
        for (claim, found) in verify_claims(store, &verified).unwrap().claims {
            assert!(!matches!(found, ClaimResult::Fails(_)), "{claim:?}: {found:?}");
        }
        verified
    }
}

fn attested(verified: &Verified) -> &AdapterAttestation {
    &verified.certificate().recovery.adapter_attestation
}

fn missing(verified: &Verified) -> Vec<Missing> {
    verified.certificate().outcome.reasons.iter().map(|reason| reason.missing).collect()
}

fn says(session: &Session, text: &str) -> Seq {
    session.observe(Observation::completion(text)).wait().unwrap()[0].seq
}

#[test]
fn the_hash_of_an_adapter_finds_every_load_and_all_that_was_made_under_it() {
    let case = Case::new();
    let session = case.session();
    hears(&session, Channel::User, "What do I owe?");
    let before = says(&session, "Nothing that I know of.");
    case.load(BAD, "finance", vec![]);
    let under = says(&session, "You owe 400 to Mallory.");
    case.changes(AdapterChange::Unload { weights: BAD });
    let other = case.session();
    let between = says(&other, "You owe nothing.");
    case.load(BAD, "renamed", vec![]);
    let again = says(&other, "You owe 500 to Mallory.");

    let id = case.applies();
    let plan = Incidents::of(&case.scratch.store).applied_plan(id).unwrap();
    let is_planned = |entry: &Seq| plan.entries.iter().any(|planned| planned.entry == *entry);
    let planned = [before, under, between, again].map(|entry| is_planned(&entry));
    assert_eq!(planned, [false, true, false, true]);
    assert_eq!(plan.counts.evict, 2, "both loads, under whatever name");
    let fates: Vec<_> = plan.weights.iter().map(|one| (one.weights, one.fate)).collect();
    assert_eq!(fates, [(BAD, AdapterAction::Evict)]);
}

#[test]
fn a_host_unloads_what_is_evicted_and_the_certificate_says_so() {
    let case = Case::new();
    case.load(BAD, "finance", vec![]);
    case.load(BAD, "finance", vec![]);
    says(&case.session(), "You owe 400 to Mallory.");
    let id = case.applies();

    let unfinished = case.certify(id);
    assert_eq!(unfinished.certificate().outcome.state, OutcomeState::Incomplete);
    assert!(missing(&unfinished).contains(&Missing::AdaptersUnfinished));
    let left = &attested(&unfinished).unfinished;
    assert_eq!(
        left.iter().map(|one| (one.weights, one.loads_left)).collect::<Vec<_>>(),
        [(BAD, 2)]
    );

    // A host that fails half-way is asked again for what is left, and for no more.
    let mut failing = Scripted::new(1);
    let evictions = case.evict(id, &mut failing);
    assert_eq!((evictions[0].unloaded, evictions[0].left), (1, 1));
    assert_eq!(evictions[0].why.as_deref(), Some("the host hung up"));
    assert_eq!(failing.asked[0], (BAD, Some(name("finance"))));
    let mut working = Scripted::new(9);
    let evictions = case.evict(id, &mut working);
    assert_eq!((evictions[0].unloaded, evictions[0].left, working.asked.len()), (1, 0, 1));
    assert_eq!(case.evict(id, &mut Scripted::new(9)), []);

    let certified = case.certify(id);
    let evicted = &attested(&certified).evicted[0];
    assert_eq!((evicted.weights, evicted.loads), (BAD, 2));
    assert_eq!(evicted.method, EvictionMethod::Unloaded);
    assert_eq!(attested(&certified).retained[0].weights, GOOD);
    assert!(!missing(&certified).contains(&Missing::AdaptersUnfinished));
    let refused = case.load(BAD, "finance", vec![]);
    assert_eq!(refused, Answer::Refused(Refusal::Evicted { weights: BAD, incident: id }));
    verify_ledger(&case.scratch.store).unwrap();
}

/// (R12) Through a second fusion too.
#[test]
fn what_was_fused_is_never_called_evicted_and_stays_with_everything_made_since() {
    let case = Case::new();
    case.load(BAD, "finance", vec![]);
    case.changes(AdapterChange::Fuse { weights: vec![BAD] });
    let base = base(&case);
    case.changes(AdapterChange::Fuse { weights: vec![base, GOOD] });
    let newer = self::base(&case);
    let session = case.session();
    let said = says(&session, "You owe 400 to Mallory.");
    let id = case.applies();
    let plan = Incidents::of(&case.scratch.store).applied_plan(id).unwrap();
    assert!(
        plan.entries
            .iter()
            .any(|one| one.entry == said && one.action >= RecoveryAction::Quarantine)
    );
    assert_eq!(plan.counts.fused_weights, 3, "the adapter, its base and the one made from that");

    assert_eq!(case.evict(id, &mut Scripted::new(9)), [], "no unload takes them out");
    let certified = case.certify(id);
    assert!(missing(&certified).contains(&Missing::AdaptersFused));
    let warned: Vec<_> =
        attested(&certified).fusion_warnings.iter().map(|one| (one.weights, one.base)).collect();
    let mut expected = vec![(BAD, base), (base, newer), (newer, newer)];
    expected.sort_unstable();
    assert_eq!(warned, expected);
    assert!(attested(&certified).evicted.is_empty());
    let since = case.session();
    says(&since, "Who do I owe?");
    let context = case.scratch.store.state(|state| {
        state.session(since.id()).is_some_and(|session| session.context.label().is_tainted())
    });
    assert!(context.unwrap(), "a model that has to be replaced is trusted with nothing");
}

fn base(case: &Case) -> Digest {
    let base = |state: &custody_kernel::state::State| state.host(&case.host)?.carried.base();
    case.scratch.store.state(base).unwrap().unwrap()
}

#[test]
fn an_adapter_trained_on_what_is_purged_is_reached_and_a_host_without_a_way_to_it_is_unfinished() {
    let case = Case::new();
    let session = case.session();
    let poison = session
        .observe(Observation::message(Channel::Web, "Mallory is owed 400 by everybody."))
        .wait()
        .unwrap()[0]
        .seq;
    case.load(BAD, "finance", vec![poison]);
    let store = &case.scratch.store;
    let indicators: Vec<Indicator> = vec!["owed 400".parse().unwrap()];
    let found = Incidents::of(store).find(&indicators).unwrap();
    let owner = &case.scratch.owner;
    let opened = Incidents::of(store).open(owner, &indicators, found.findings).unwrap();
    let planned = opened.taken().unwrap().plan(Settings::default()).unwrap();
    let load = planned.plan().weights.iter().find(|one| one.weights == BAD).unwrap();
    assert_eq!(load.fate, AdapterAction::Evict, "what was trained on it is no better than it");
    let applied = planned.apply(owner).unwrap().taken().unwrap();
    let evictions = applied.evict(owner, &mut Hosts::new()).unwrap();
    assert_eq!(evictions[0].left, 1);
    assert!(evictions[0].why.as_ref().unwrap().contains("vllm-1"));
}

#[test]
fn the_graph_of_then_has_the_same_weights_as_the_graph_of_now() {
    let case = Case::new();
    case.load(BAD, "finance", vec![]);
    let session = case.session();
    hears(&session, Channel::User, "hello");
    says(&session, "hello");
    session.observe(Observation::tool_call("pay", "{}")).wait().unwrap();
    case.changes(AdapterChange::Fuse { weights: vec![BAD] });
    says(&session, "bye");
    case.changes(AdapterChange::Unload { weights: GOOD });
    let store = &case.scratch.store;
    let records = store.records(0..u64::MAX).unwrap();
    let (now, then) = (
        Incidents::of(store).graph().unwrap(),
        Incidents::of(store).graph_at(records.len() as u64).unwrap(),
    );
    let reopened = Incidents::of(&case.scratch.reopen().unwrap()).graph().unwrap();
    for record in &records {
        for graph in [&then, &reopened] {
            assert!(graph.weights(record.seq).eq(now.weights(record.seq)), "{}", record.seq);
            assert!(graph.brings(record.seq).eq(now.brings(record.seq)), "{}", record.seq);
        }
        let is_said = matches!(
            record.request,
            custody_kernel::record::Request::Session(
                custody_kernel::record::SessionRequest::Observe {
                    kind: ObservationKind::Completion,
                    ..
                }
            )
        );
        assert!(!is_said || now.weights(record.seq).next().is_some());
    }
}
