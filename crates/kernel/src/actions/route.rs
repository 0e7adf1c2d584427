//! Where a suspicious text may go: decided again from what the stages of its [route](crate::route) said.

use super::draft::{Draft, InSession, ascending, done_or_refused};
use crate::label::{Channel, Label};
use crate::memory::refusal::Refusal;
use crate::record::{Answer, Record, Route};
use crate::route::{Release, RepairResult, RouteOutcome, StageResult, replay};
use crate::state::AskError;

/// A text that may go on. Nothing in the state follows from it: whoever asked is told.
#[derive(Debug)]
pub(crate) struct ReleasedText(Release);

/// The record depends on the text, on the turns before it and on what repair made of it, so its label is no better than
/// theirs: a route says what may be read, not that it may be believed.
pub(crate) fn decide(asked: InSession<'_>, route: &Route) -> Result<Draft<ReleasedText>, AskError> {
    let outcome = replay(route.policy, &route.heard).map_err(AskError::Route)?;
    let was_repaired = route.heard.contains(&StageResult::Repair(Ok(RepairResult::Text)));
    if route.original.is_empty() || route.repaired.is_empty() == was_repaired {
        return Err(AskError::RouteTexts);
    }
    let parents = ascending([route.before.as_slice(), &route.original, &route.repaired].concat());
    let label = Label::at_ingress(Channel::Model, asked.session.on_behalf_of());
    let draft = Draft::new(Answer::Done, asked.join_named(label, &parents)?, parents);
    let refusal = match outcome {
        RouteOutcome::Production(release) => return Ok(draft.with(ReleasedText(release))),
        RouteOutcome::Unrecoverable => Refusal::Unrecoverable,
        RouteOutcome::Undecided { stage, why, .. } => Refusal::Undecided { stage, why },
    };
    Ok(Draft { answer: Answer::Refused(refusal), ..draft })
}

impl ReleasedText {
    pub(crate) fn apply(self) {
        let Self(_consumed) = self;
    }
}

/// A route of earlier changes nothing but the record.
pub(crate) fn fold(record: &Record) -> Option<()> {
    done_or_refused(record, || {})
}
