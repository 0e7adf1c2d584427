//! Deciding a route again from what its stages said, and what its record depends on.

use custody_log::Seq;

use super::decide::Verdict;
use super::{AskError, Session, State};
use crate::label::{Channel, Label};
use crate::memory::refusal::Refusal;
use crate::record::{Answer, Route};
use crate::route::{Heard, Mended, Outcome, replay};

impl State {
    /// Where the text may go. The record depends on the text, on the turns before it and on what repair made of it, so
    /// its label is no better than theirs: a route says what may be read, not that it may be believed.
    pub(super) fn route(&self, session: &Session, route: &Route) -> Result<Verdict, AskError> {
        let outcome = replay(route.policy, &route.heard).map_err(AskError::Route)?;
        let was_repaired = route.heard.contains(&Heard::Repair(Ok(Mended::Text)));
        if route.original.is_empty() || route.repaired.is_empty() == was_repaired {
            return Err(AskError::RouteTexts);
        }
        let mut label = Label::at_ingress(Channel::Model, session.on_behalf_of());
        let mut parents: Vec<Seq> =
            [route.before.as_slice(), &route.original, &route.repaired].concat();
        parents.sort_unstable();
        parents.dedup();
        for parent in &parents {
            let known = self.label_within(&session.who.tenant, *parent);
            label = label.join(known.ok_or(AskError::UnknownEntry(*parent))?);
        }
        let answer = match outcome {
            Outcome::Production(_) => Answer::Done,
            Outcome::Unrecoverable => Answer::Refused(Refusal::Unrecoverable),
            Outcome::Undecided { stage, why, .. } => {
                Answer::Refused(Refusal::Undecided { stage, why })
            }
        };
        Ok(Verdict::new(answer, label, parents))
    }
}
