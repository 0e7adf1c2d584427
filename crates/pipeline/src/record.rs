//! A route in the record: the text and what came before it, what repair made of it, and what every stage said.

use custody_kernel::principal::Authority;
use custody_kernel::record::{Route, SessionRequest};
use custody_log::Seq;
use custody_runtime::Session;
use custody_runtime::ingress::{Observation, observe};
use custody_runtime::store::{Receipt, Store, StoreError};

use crate::advice::DetectorAdvice;
use crate::router::{Passed, Routed};

/// The name of the sessions that routes are recorded in.
const ALIAS: &str = "route";

/// Records that the text of `arrived` took the route `routed`, after the turns `before`, oldest first. The
/// receipt holds the decision, made once more by the kernel from what the stages said.
///
/// It stands in a session of its own, so that no agent's context depends on a text that may never reach it. Contents
/// are kept by commitment; what a stage's answer rested on is not recorded, for it may quote them.
///
/// # Errors
/// [`StoreError`] when it could not be recorded.
pub fn record(
    store: &Store,
    authority: &Authority,
    before: Vec<Observation>,
    arrived: Observation,
    routed: &Routed,
) -> Result<Receipt, StoreError> {
    let session = Session::open(store, authority, Some(ALIAS.to_owned()))?;
    let id = session.id();
    let screened = |said: Observation| said.advised_by(&DetectorAdvice);
    let before: Vec<Observation> = before.into_iter().map(screened).collect();
    let arrived = screened(arrived);
    let repaired = routed.repaired.clone().map(|repaired| Observation::completion(repaired.text));
    let costs = routed.passed.iter().map(cost).collect();
    let routed = Route {
        original: Vec::new(),
        before: Vec::new(),
        repaired: Vec::new(),
        policy: routed.policy,
        detector: routed.detector.clone(),
        model: routed.model.clone(),
        heard: routed.answers(),
    };
    let receipt = store
        .run(move |step| {
            let entries = |receipts: Vec<Receipt>| -> Vec<Seq> {
                receipts.into_iter().map(|receipt| receipt.seq).collect()
            };
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

/// What a stage cost, for the reader of the record.
fn cost(passed: &Passed) -> String {
    format!(
        "{}: {} µs, {} tokens read, {} written",
        passed.heard.stage().name(),
        passed.took.as_micros(),
        passed.usage.prompt_tokens,
        passed.usage.completion_tokens
    )
}
