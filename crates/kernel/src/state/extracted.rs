//! Deciding and folding what a session takes out of outputs that it does not read.

use custody_log::{Seq, SessionId};

use super::decide::Verdict;
use super::{AskError, Session, State};
use crate::label::{Channel, Label};
use crate::record::{Answer, Record, Value};
use crate::tool::call::Call;
use crate::tool::extract::{Budget, Extract, decide_extract};

impl State {
    /// An output that the model is not shown is labelled like one that it reads.
    pub(super) fn withhold(
        &self,
        session: &Session,
        call: Seq,
        content: Value,
    ) -> Result<Verdict, AskError> {
        let mut parents = vec![call];
        parents.extend(self.arrival(session, Some(content))?);
        parents.sort_unstable();
        parents.dedup();
        let mut label = Label::at_ingress(Channel::Tool, session.on_behalf_of());
        for parent in &parents {
            let known = self.label_within(&session.who.tenant, *parent);
            label = label.join(known.ok_or(AskError::UnknownEntry(*parent))?);
        }
        Ok(Verdict::new(Answer::Done, label, parents))
    }

    /// The value that is taken out is ours, in our spelling, and clean; its parent is the output.
    pub(super) fn extract(
        &self,
        session: &Session,
        extract: &Extract,
    ) -> Result<Verdict, AskError> {
        let Extract { call, output, value, .. } = extract;
        for entry in [call, output] {
            let known = self.label_within(&session.who.tenant, *entry);
            known.ok_or(AskError::UnknownEntry(*entry))?;
        }
        self.arrival(session, *value)?;
        if self.is_out(*output) {
            return Err(AskError::UnknownContent(*output));
        }
        let fields = match session.withheld.get(output) {
            Some(withheld) if withheld == call => session.extractable.get(call),
            Some(_) | None => None,
        };
        let fields = fields.map_or(&[][..], Vec::as_slice);
        let used = session.extracted_bits;
        let budget = Budget { fields, used, limit: self.limits.extracted_bits };
        let label = Label::at_ingress(Channel::System, session.on_behalf_of());
        let answer = match decide_extract(extract, budget) {
            Ok(_) => Answer::Done,
            Err(refusal) => Answer::Refused(refusal),
        };
        Ok(Verdict::new(answer, label, vec![*output]))
    }

    /// A call was allowed: what the policy that the owner signed lets be taken out of its output may be.
    pub(super) fn remember_extractable(&mut self, id: SessionId, call: &Call, record: &Record) {
        let is_signed = self.policy.is_some_and(|policy| policy.version == call.policy.version);
        let fields = &call.policy.extracts;
        if is_signed
            && !fields.is_empty()
            && let Some(session) = self.sessions.get_mut(&id)
        {
            session.extractable.insert(record.seq, fields.clone());
        }
    }

    pub(super) fn apply_withhold(&mut self, id: SessionId, call: Seq, record: &Record) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.withheld.insert(record.seq, call);
        }
    }

    pub(super) fn apply_extract(&mut self, id: SessionId, extract: &Extract, record: &Record) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.context.read(record.seq, record.label);
        let bits = extract.shape.bits().unwrap_or(u32::MAX);
        session.extracted_bits = session.extracted_bits.saturating_add(bits);
    }
}
