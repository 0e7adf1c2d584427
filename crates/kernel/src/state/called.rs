//! Deciding a tool call in a session, and what its answer changes.

use custody_log::{EntryId, SessionId, Timestamp};

use super::decide::Verdict;
use super::{AskError, Session, State};
use crate::label::{Channel, Label};
use crate::memory::refusal::Refusal;
use crate::memory::review::Purpose;
use crate::record::{Answer, Record};
use crate::tool::asked::{AskedCall, Standing, decide_use};
use crate::tool::call::{Around, Call, CallRefusal, decide_approved, decide_call, sources};

/// How many calls of one session may wait at once. More would be a denial of service on the reviewer.
const MAX_WAITING: usize = 64;

impl State {
    /// Whether a call may run. It depends on the whole context and on the texts its values came from.
    pub(super) fn call(
        &self,
        id: SessionId,
        session: &Session,
        call: &Call,
        at: Timestamp,
    ) -> Result<Verdict, AskError> {
        let context = &session.context;
        let mut parents = sources(&call.leaves);
        parents.extend(self.arrival(session, Some(call.arguments))?);
        let mut label = Label::at_ingress(Channel::Model, session.on_behalf_of());
        label = label.join(context.label());
        // Only what the call names has to be its tenant's: a context also holds the loads of its host's adapters, which
        // are the owner's.
        for parent in &parents {
            let known = self.label_within(&session.who.tenant, *parent);
            label = label.join(known.ok_or(AskError::UnknownEntry(*parent))?);
        }
        parents.extend_from_slice(context.parents());
        parents.sort_unstable();
        parents.dedup();
        let has_read = !context.parents().is_empty();
        let label = if has_read { label } else { label.lowered() };
        let around = Around {
            context: has_read.then(|| context.label()),
            signed_policy: self.policy.map(|policy| policy.version),
        };
        let outcome = match call.approval {
            None => decide_call(call, around),
            Some(proposal) => decide_approved(call, self.approved(proposal, id, call, at)),
        };
        Ok(match outcome {
            Ok(allowed) => Verdict::new(Answer::Done, label, parents).allowing(allowed),
            Err(CallRefusal::Denied(refusal)) => {
                Verdict::new(Answer::Refused(refusal), label, parents)
            }
            Err(CallRefusal::Asks(because)) => {
                Verdict::new(self.asks(id, because, at), label, parents)
            }
        })
    }

    fn approved(
        &self,
        proposal: EntryId,
        session: SessionId,
        call: &Call,
        at: Timestamp,
    ) -> Result<(), Refusal> {
        let asked = self.asked_calls.get(&proposal).ok_or(Refusal::NotPending { proposal })?;
        if self.is_out(asked.entry) {
            return Err(Refusal::InQuarantine { entry: asked.entry });
        }
        decide_use(asked, session, call, at)
    }

    fn asks(&self, session: SessionId, because: Refusal, at: Timestamp) -> Answer {
        let is_waiting =
            |asked: &&AskedCall| asked.standing == Standing::Waiting && at < asked.expires;
        let asked = self.asked_in.get(&session).into_iter().flatten();
        let asked = asked.filter_map(|proposal| self.asked_calls.get(proposal));
        if asked.filter(is_waiting).count() >= MAX_WAITING {
            return Answer::Refused(because);
        }
        let expires = at.plus_ms(self.limits.proposal_ttl_ms);
        Answer::Pending { purpose: Purpose::Call, expires, because: Some(because) }
    }

    pub(super) fn apply_call(
        &mut self,
        id: SessionId,
        call: &Call,
        record: &Record,
        answer: &Answer,
    ) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        // Refused or not, the model has said it.
        session.context.read(record.seq, record.label);
        let requester = session.who.clone();
        match answer {
            Answer::Done => {
                self.remember_extractable(id, call, record);
                if let Some(proposal) = call.approval {
                    self.answer_call(proposal, Standing::Used);
                }
            }
            Answer::Pending { expires, .. } => {
                let asked = AskedCall {
                    proposal: record.id,
                    entry: record.seq,
                    session: id,
                    tenant: requester.tenant.clone(),
                    tool: call.tool.clone(),
                    manifest: call.manifest,
                    arguments: call.arguments.content(record.seq),
                    policy: call.policy.version,
                    requester,
                    expires: *expires,
                    standing: Standing::Waiting,
                };
                self.asked_calls.insert(record.id, asked);
                self.asked_in.entry(id).or_default().push(record.id);
            }
            Answer::Found { .. } | Answer::Absent | Answer::Refused(_) => {}
        }
    }

    pub(super) fn answer_call(&mut self, proposal: EntryId, standing: Standing) {
        if let Some(asked) = self.asked_calls.get_mut(&proposal) {
            asked.standing = standing;
        }
    }
}
