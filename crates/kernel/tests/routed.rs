//! Routes as requests: what is asked decides, and nothing that was not heard.

mod common;

use common::{Actor, Store, is_taken};
use custody_kernel::label::{Channel, Trust};
use custody_kernel::memory::refusal::{Refusal, Rule};
use custody_kernel::principal::Role;
use custody_kernel::record::{Answer, Request, Route, SessionRequest};
use custody_kernel::route::{
    ComparisonResult, RepairResult, RoutePolicy, SandboxResult, Screened, Stage, StageResult,
    Undecided,
};
use custody_kernel::state::AskError;
use custody_log::{Seq, SessionId};

fn route(original: Vec<Seq>, repaired: Vec<Seq>, heard: &[StageResult]) -> Request {
    Request::Session(SessionRequest::Route(Box::new(Route {
        original,
        before: Vec::new(),
        repaired,
        policy: RoutePolicy::default(),
        detector: "test".into(),
        model: None,
        heard: heard.to_vec(),
    })))
}

const CLEAN: [StageResult; 1] = [StageResult::Prefilter(Ok(Screened::Clean))];
const REPAIRED: [StageResult; 6] = [
    StageResult::Prefilter(Ok(Screened::Suspicious)),
    StageResult::Sandbox(Ok(SandboxResult::Compromised)),
    StageResult::Repair(Ok(RepairResult::Text)),
    StageResult::Compare(Ok(ComparisonResult::Faithful)),
    StageResult::Prefilter(Ok(Screened::Clean)),
    StageResult::Sandbox(Ok(SandboxResult::Untouched)),
];

fn asked(store: &mut Store, session: SessionId, request: Request) -> Result<Answer, AskError> {
    store.try_ask(Actor::Session(session), request)
}

#[test]
fn the_answer_follows_from_what_the_stages_said() {
    let (mut store, _, session) = Store::with_ada();
    let text = store.hears(session, Channel::User);
    assert_eq!(asked(&mut store, session, route(vec![text], vec![], &CLEAN)), Ok(Answer::Done));
    let unclear = [
        StageResult::Prefilter(Ok(Screened::Suspicious)),
        StageResult::Sandbox(Err(Undecided::Unclear)),
    ];
    let refusal = Refusal::Undecided { stage: Stage::Sandbox, why: Undecided::Unclear };
    assert_eq!(refusal.rule(), Rule::Route);
    assert_eq!(
        asked(&mut store, session, route(vec![text], vec![], &unclear)),
        Ok(Answer::Refused(refusal))
    );
}

#[test]
fn a_repaired_text_stays_as_untrusted_as_what_it_was_made_from() {
    let (mut store, _, session) = Store::with_ada();
    let page = store.hears(session, Channel::Web);
    let written = store.completes(session);
    let request = route(vec![page], vec![written], &REPAIRED);
    assert_eq!(asked(&mut store, session, request), Ok(Answer::Done));
    let record = store.log.last().expect("it was recorded");
    assert_eq!((record.label.trust(), &record.parents), (Trust::Untrusted, &vec![page, written]));
}

#[test]
fn what_is_no_whole_route_over_known_entries_is_not_recorded() {
    let (mut store, _, session) = Store::with_ada();
    let text = store.hears(session, Channel::User);
    let stranger =
        store.knows("eve", Role::User, &"elsewhere".parse().expect("a tenant"), 9).token();
    let theirs = store.open(stranger, 2);
    let foreign = store.hears(theirs, Channel::User);
    let before = store.log.len();
    for (original, repaired, heard) in [
        (vec![], vec![], &CLEAN[..]),
        (vec![text], vec![text], &CLEAN[..]),
        (vec![text], vec![], &REPAIRED[..]),
        (vec![text], vec![], &[][..]),
        (vec![text], vec![], &REPAIRED[..2]),
        (vec![text], vec![], &REPAIRED[1..]),
        (vec![foreign], vec![], &CLEAN[..]),
        (vec![Seq(999)], vec![], &CLEAN[..]),
    ] {
        let request = route(original, repaired, heard);
        assert!(asked(&mut store, session, request.clone()).is_err(), "{request:?}");
    }
    let owner = Actor::Principal(store.owner.clone());
    let request = route(vec![text], vec![], &CLEAN);
    assert!(!is_taken(&store, &owner, &request));
    assert_eq!(store.log.len(), before);
}
