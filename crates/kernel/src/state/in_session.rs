//! Deciding what a session asks: observe, read, write, delete, promote.
//!
//! Gathers what the store holds and calls the pure functions of [`crate::memory::monitor`].

use custody_log::{Seq, SessionId, Timestamp};

use super::decide::Verdict;
use super::{AskError, Session, State};
use crate::context::Added;
use crate::key::Key;
use crate::label::{Channel, Label, Trust};
use crate::memory::item::{ContentRef, Mode};
use crate::memory::monitor::{
    AcceptedWrite, Surroundings, WriteProposal, decide_delete, decide_promote, decide_read,
    decide_write, visible,
};
use crate::memory::refusal::{Culprit, Refusal};
use crate::memory::review::Purpose;
use crate::namespace::{Namespace, Scope};
use crate::principal::Authority;
use crate::record::{Answer, Named, ObservationKind, Request, Value};

impl State {
    pub(super) fn in_session(
        &self,
        id: SessionId,
        session: &Session,
        request: &Request,
        at: Timestamp,
    ) -> Result<Verdict, AskError> {
        let own = Namespace::session(session.who.tenant.clone(), id);
        match request {
            Request::CloseSession => Ok(Verdict::administrative(Ok(()))),
            Request::Observe { kind, channel, lowered, content, parents, .. } => {
                let unknown = |entry: &&Seq| self.label_within(&own.tenant, **entry).is_none();
                if let Some(entry) = parents.iter().find(unknown) {
                    return Err(AskError::UnknownEntry(*entry));
                }
                let parents =
                    [parents.as_slice(), self.arrival(session, *content)?.as_slice()].concat();
                self.observe(session, *kind, *channel, *lowered, parents)
            }
            Request::Read { scope, key } => Ok(self.read(&own, *scope, key)),
            Request::Write { scope, key, value, depends_on, queue } => {
                let change = Change {
                    session,
                    own: &own,
                    scope: *scope,
                    key,
                    value: Some(value.content(Seq(self.len()))),
                    added: self.added(session, depends_on, self.arrival(session, Some(*value))?),
                    at,
                };
                Ok(self.change(&change, *queue, decide_write))
            }
            Request::Delete { scope, key } => {
                let namespace = self.namespace(&own.tenant, *scope);
                let item = self.item(&namespace, key).and_then(|item| item.current.as_ref());
                let added = Added::default();
                let change =
                    Change { session, own: &own, scope: *scope, key, value: None, added, at };
                let verdict = self.change(&change, false, decide_delete);
                // What is protected stays so where nothing is known of its value, as in a replay.
                let protected = matches!(
                    verdict.answer.refusal(),
                    Some(Refusal::Immutable { .. } | Refusal::NotVisible { .. })
                );
                if item.is_none() && !protected {
                    return Err(AskError::NoSuchItem { namespace, key: key.clone() });
                }
                Ok(verdict)
            }
            Request::Promote { from, key } => self.promote(session, &own, *from, key, at),
            Request::Route(route) => self.route(session, route),
            Request::Call(call) => self.call(id, session, call, at),
            Request::Withhold { call, content } => self.withhold(session, *call, *content),
            Request::Extract(extract) => self.extract(session, extract),
            Request::Found(_)
            | Request::OpenSession { .. }
            | Request::Approve { .. }
            | Request::Deny { .. }
            | Request::SetMode { .. }
            | Request::AdoptFile { .. }
            | Request::AddPrincipal(_)
            | Request::RevokePrincipal { .. }
            | Request::SetLimits(_)
            | Request::SetPolicy { .. }
            | Request::Adapt(_)
            | Request::Recover(_)
            | Request::RotateLogKey(_)
            | Request::AdoptLedger { .. } => Err(AskError::NeedsPrincipal),
        }
    }

    /// Labels what enters: by its channel, by whom the session runs for, and by what it was made from
    /// (MON §3.4, source labelling and propagation).
    fn observe(
        &self,
        session: &Session,
        kind: ObservationKind,
        channel: Channel,
        lowered: bool,
        mut parents: Vec<Seq>,
    ) -> Result<Verdict, AskError> {
        // What a model produced is known by its kind; nobody may claim `memory`, reads make that.
        if kind.is_produced() != (channel == Channel::Model) || channel == Channel::Memory {
            return Err(AskError::Channel { kind, channel });
        }
        let mut label = Label::at_ingress(channel, session.on_behalf_of());
        if kind.is_produced() {
            label = label.join(session.context.label());
            parents.extend_from_slice(session.context.parents());
        }
        parents.sort_unstable();
        parents.dedup();
        for parent in &parents {
            label = label.join(self.label(*parent).ok_or(AskError::UnknownEntry(*parent))?);
        }
        // What a model said out of nothing came from somewhere, and nobody knows where.
        let of_no_origin = kind.is_produced() && parents.is_empty();
        let label = if lowered || of_no_origin { label.lowered() } else { label };
        Ok(Verdict::new(Answer::Done, label, parents))
    }

    fn read(&self, own: &Namespace, scope: Scope, key: &Key) -> Verdict {
        let asked = self.namespace(&own.tenant, scope);
        let label = Label::at_ingress(Channel::Memory, Trust::Trusted);
        // A session's own item never hides an immutable shared one.
        let item = match self.visible_item(own, key) {
            Some((namespace, item)) if asked == *own && namespace.scope == Scope::Shared => {
                (item.mode == Mode::Immutable).then_some(item)
            }
            Some(_) | None => self.item(&asked, key),
        };
        match decide_read(own, &asked, key, item) {
            Err(refusal) => Verdict::new(Answer::Refused(refusal), label, Vec::new()),
            Ok(None) => Verdict::new(Answer::Absent, label, Vec::new()),
            Ok(Some(version)) => Verdict::new(
                Answer::Found { version: version.entry, content: version.content },
                Label::of_version(version.provenance, version.taint),
                vec![version.entry],
            ),
        }
    }

    /// Where `value` arrived, if that was earlier: it brings the label it arrived with. What is out is not known any
    /// more.
    pub(super) fn arrival(
        &self,
        session: &Session,
        value: Option<Value>,
    ) -> Result<Option<Seq>, AskError> {
        let Some(Value::Of(content)) = value else { return Ok(None) };
        if !session.context.holds(content) || self.is_out(content.arrival) {
            return Err(AskError::UnknownContent(content.arrival));
        }
        Ok(Some(content.arrival))
    }

    fn added(&self, session: &Session, depends_on: &[Named], arrival: Option<Seq>) -> Added {
        let mut added = Added::default();
        for named in depends_on {
            match *named {
                Named::Missing(id) => added.spoilt_by(Culprit::Missing(id)),
                Named::Entry(seq) => match self.label_within(&session.who.tenant, seq) {
                    // A position that is not there yet is as unknown as an id that is not there.
                    None => added.spoilt_by(Culprit::NoOrigin),
                    Some(_) if self.is_out(seq) => {
                        added.spoilt_by(Culprit::Entry(seq));
                        added.parents.push(seq);
                    }
                    Some(label) => added.entry(seq, label),
                },
            }
        }
        if let Some((seq, label)) = arrival.and_then(|seq| Some((seq, self.label(seq)?))) {
            added.entry(seq, label);
        }
        added
    }

    fn change(
        &self,
        change: &Change<'_>,
        queue: bool,
        decide: fn(&Surroundings<'_>, WriteProposal) -> Result<AcceptedWrite, Refusal>,
    ) -> Verdict {
        let (proposal, label) = change.proposal();
        let parents = proposal.dependencies.parents().to_vec();
        if !visible(change.own, &proposal.namespace) {
            let refusal = Refusal::NotVisible { key: proposal.key };
            return Verdict::new(Answer::Refused(refusal), label, parents);
        }
        let around =
            self.surroundings(&proposal.namespace, change.key, &change.session.who, change.at);
        let answer = self.answer(&around, decide(&around, proposal), queue);
        Verdict::new(answer, label, parents).changing(&around)
    }

    fn answer(
        &self,
        around: &Surroundings<'_>,
        outcome: Result<AcceptedWrite, Refusal>,
        queue: bool,
    ) -> Answer {
        let expires = around.now.plus_ms(self.limits.proposal_ttl_ms);
        match outcome {
            Ok(accepted) if accepted.needs_review() => {
                Answer::Pending { purpose: Purpose::Review, expires, because: None }
            }
            Ok(_) => Answer::Done,
            Err(refusal @ Refusal::Tainted { .. }) if queue => {
                match around.wait_until() {
                    // A full queue is a denial of service on the reviewer.
                    Some(_) => Answer::Refused(refusal),
                    None => {
                        let because = Some(refusal);
                        Answer::Pending { purpose: Purpose::Declassify, expires, because }
                    }
                }
            }
            Err(refusal) => Answer::Refused(refusal),
        }
    }

    fn promote(
        &self,
        session: &Session,
        own: &Namespace,
        from: SessionId,
        key: &Key,
        at: Timestamp,
    ) -> Result<Verdict, AskError> {
        let source = Namespace::session(own.tenant.clone(), from);
        // A human may share what any session of their tenant holds; an agent only its own.
        let may_see = source == *own || Authority::recorded(session.who.clone()).is_human();
        let version = self.item(&source, key).and_then(|item| item.current).filter(|_| may_see);
        let Some(version) = version else {
            return Err(AskError::NoSuchItem { namespace: source, key: key.clone() });
        };
        let added = Added { parents: vec![version.entry], culprit: None };
        let value = Some(version.content);
        let change = Change { session, own, scope: Scope::Shared, key, value, added, at };
        let (proposal, label) = change.proposal();
        let label = label.join(Label::of_version(version.provenance, version.taint));
        let parents = proposal.dependencies.parents().to_vec();
        let around = self.surroundings(&proposal.namespace, key, &session.who, at);
        let outcome = decide_promote(&around, &version, proposal);
        let verdict = Verdict::new(self.answer(&around, outcome, false), label, parents);
        Ok(verdict.changing(&around).releasing(Some(version.content)))
    }
}

/// A change that a session asks for.
struct Change<'a> {
    session: &'a Session,
    own: &'a Namespace,
    scope: Scope,
    key: &'a Key,
    value: Option<ContentRef>,
    added: Added,
    at: Timestamp,
}

impl Change<'_> {
    /// The proposal, and the label its entry will have: the join of the whole context and of what the
    /// caller added (assumption A3).
    fn proposal(&self) -> (WriteProposal, Label) {
        let context = &self.session.context;
        let added =
            Added { parents: self.added.parents.clone(), culprit: self.added.culprit.clone() };
        let dependencies = context.dependencies(added);
        let mut label = Label::at_ingress(Channel::Model, self.session.on_behalf_of());
        label = label.join(context.label());
        if dependencies.culprit().is_some() {
            label = label.lowered();
        }
        let proposal = WriteProposal {
            namespace: Namespace { tenant: self.own.tenant.clone(), scope: self.scope },
            key: self.key.clone(),
            value: self.value,
            dependencies,
            on_behalf_of: self.session.on_behalf_of(),
        };
        (proposal, label)
    }
}
