//! Writes a route to the store: the text, the turns before it, the repaired text, and the result of every stage.

use custody_kernel::advice::{Advice, StageCost, Version1};
use custody_kernel::principal::Authority;
use custody_kernel::record::{Route, SessionRequest};
use custody_log::Seq;
use custody_runtime::Session;
use custody_runtime::ingress::{Observation, observe};
use custody_runtime::store::{Receipt, Store, StoreError};

use crate::advice::DetectorAdvice;
use crate::router::{RouteResult, StageRun};

/// The name of the sessions that routes are recorded in.
const ALIAS: &str = "route";

/// Records that the text of `arrived` took the route `routed`, after the turns `before`, oldest first. The receipt
/// holds the decision that the kernel derives from the stages' results.
///
/// The route has a session of its own, so that no agent's context depends on a text that may never reach it. Contents
/// are stored by commitment. Explanations of stages are not recorded, because they may quote contents.
///
/// # Errors
/// [`StoreError`] if the route could not be recorded.
pub fn record(
    store: &Store,
    authority: &Authority,
    before: Vec<Observation>,
    arrived: Observation,
    routed: &RouteResult,
) -> Result<Receipt, StoreError> {
    let session = Session::open(store, authority, Some(ALIAS.to_owned()))?;
    let id = session.id();
    let before: Vec<Observation> =
        before.into_iter().map(|turn| turn.advised_by(&DetectorAdvice)).collect();
    let arrived = arrived.advised_by(&DetectorAdvice);
    let repaired = routed.repaired.clone().map(|repaired| Observation::completion(repaired.text));
    let costs = routed.stages.iter().map(cost).collect();
    let routed = Route {
        original: Vec::new(),
        before: Vec::new(),
        repaired: Vec::new(),
        policy: routed.policy,
        detector: routed.detector.clone(),
        model: routed.model.clone(),
        heard: routed.stage_results(),
    };
    let receipt = store
        .run(move |step| {
            let mut turns = Vec::new();
            for turn in &before {
                turns.extend(entries(observe(step, id, turn)?));
            }
            let original = entries(observe(step, id, &arrived)?);
            let repaired = match &repaired {
                Some(repaired) => entries(observe(step, id, repaired)?),
                None => Vec::new(),
            };
            let route = Route { original, before: turns, repaired, ..routed };
            step.ask(id, SessionRequest::Route(Box::new(route)), None, costs)
        })
        .wait()?;
    session.close()?;
    Ok(receipt)
}

fn entries(receipts: Vec<Receipt>) -> Vec<Seq> {
    receipts.into_iter().map(|receipt| receipt.seq).collect()
}

/// The cost of a stage, for readers of the record.
fn cost(stage: &StageRun) -> Advice {
    Advice::StageCost(StageCost {
        v: Version1,
        stage: stage.result.stage(),
        micros: u64::try_from(stage.duration.as_micros()).unwrap_or(u64::MAX),
        tokens_read: stage.usage.prompt_tokens,
        tokens_written: stage.usage.completion_tokens,
    })
}
