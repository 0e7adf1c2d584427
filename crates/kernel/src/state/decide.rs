//! Deciding: what was asked meets what the store holds.
//!
//! This gathers the arguments and calls the pure functions of [`crate::memory`]; it holds no rule
//! of its own beyond who may ask what of whom. What a session asks is decided in `in_session`.

use custody_log::{Digest, EntryId, Seq, Timestamp};

use super::{Actor, AskError, Asked, State};
use crate::key::Key;
use crate::label::{Channel, Label, Trust};
use crate::memory::item::ContentRef;
use crate::memory::monitor::Surroundings;
use crate::memory::rate::Limits;
use crate::memory::refusal::Refusal;
use crate::memory::review::{
    Approval, Pending, Purpose, decide_declassify, decide_deny, decide_review, decide_unlock,
    needs_owner,
};
use crate::namespace::{Namespace, Scope};
use crate::principal::{Authority, Credential, Role, Who};
use crate::record::{Answer, By, FORMAT, Genesis, Record, Request, Value};
use crate::tool::asked::{AskedCall, decide_approve_call, decide_turn_down};
use crate::tool::call::AllowedCall;

/// The witness of a decision. Only [`State::decide`] makes one, and [`State::commit`] takes nothing
/// else.
#[derive(Debug)]
#[must_use = "a decision that is not committed did not happen"]
pub struct Decided {
    seq: Seq,
    at: Timestamp,
    by: By,
    request: Request,
    answer: Answer,
    label: Label,
    parents: Vec<Seq>,
    after: Option<Seq>,
    content: Option<ContentRef>,
    weights: Vec<Digest>,
    allowed: Option<AllowedCall>,
}

impl Decided {
    /// The answer.
    pub const fn answer(&self) -> &Answer {
        &self.answer
    }

    /// What was asked.
    pub const fn request(&self) -> &Request {
        &self.request
    }

    /// Who asked.
    pub const fn by(&self) -> &By {
        &self.by
    }

    /// The position at which it can be committed.
    pub const fn seq(&self) -> Seq {
        self.seq
    }

    /// The label of the entry it becomes.
    pub const fn label(&self) -> Label {
        self.label
    }

    /// The call that may run once this is committed, if it is one.
    pub fn take_allowed(&mut self) -> Option<AllowedCall> {
        self.allowed.take()
    }

    /// The record, under the id that the runtime made for it. `advice` is what MON's content check
    /// noticed; it arrives after the decision and so cannot have been an input of it.
    pub(super) fn into_record(self, id: EntryId, advice: Vec<String>) -> Record {
        Record {
            v: FORMAT,
            seq: self.seq,
            id,
            at: self.at,
            by: self.by,
            request: self.request,
            answer: self.answer,
            label: self.label,
            parents: self.parents,
            after: self.after,
            content: self.content,
            weights: self.weights,
            advice,
        }
    }
}

/// A verdict before it is put together with who asked and when.
pub(super) struct Verdict {
    pub(super) answer: Answer,
    label: Label,
    parents: Vec<Seq>,
    /// The last change of the item that is changed.
    after: Option<Seq>,
    /// The content that is put in force, where the request does not name it.
    content: Option<ContentRef>,
    /// The call that may run.
    allowed: Option<AllowedCall>,
}

impl Verdict {
    pub(super) fn new(answer: Answer, label: Label, parents: Vec<Seq>) -> Self {
        Self { answer, label, parents, after: None, content: None, allowed: None }
    }

    /// This verdict, on a change of the item that `around` is about.
    pub(super) fn changing(self, around: &Surroundings<'_>) -> Self {
        Self { after: around.target.and_then(|item| item.last_change), ..self }
    }

    /// This verdict, on a change that puts `content` in force without naming it.
    pub(super) fn releasing(self, content: Option<ContentRef>) -> Self {
        Self { content, ..self }
    }

    /// This verdict, on a call that may run.
    pub(super) fn allowing(self, allowed: AllowedCall) -> Self {
        Self { allowed: Some(allowed), ..self }
    }

    /// For acts on the store itself, which are no part of any context.
    pub(super) fn administrative(outcome: Result<(), Refusal>) -> Self {
        let label = Label::at_ingress(Channel::System, Trust::Trusted);
        Self::new(outcome.map_or_else(Answer::Refused, |()| Answer::Done), label, Vec::new())
    }
}

impl State {
    /// Decides one request. Changes nothing.
    ///
    /// # Errors
    /// [`AskError`] when the request speaks of something that does not exist. A refusal is not an
    /// error: it is an answer, and is committed like any other.
    pub fn decide(&self, asked: Asked) -> Result<Decided, AskError> {
        // A clock set back cannot reopen a rate window or an expired approval (M13).
        let at = asked.at.max(self.now);
        let verdict = match (&asked.by, &asked.request) {
            (by, Request::Found(genesis)) => self.found(by, genesis)?,
            _ if self.is_empty() => return Err(AskError::NotFounded),
            (Actor::Session(id), request) => {
                let session = self.session(*id).ok_or(AskError::UnknownSession(*id))?;
                self.in_session(*id, session, request, at)?
            }
            (Actor::Principal(authority), request) => self.by_principal(authority, request, at)?,
        };
        let by = match asked.by {
            Actor::Session(id) => By::Session(id),
            Actor::Principal(authority) => By::Principal(authority.who().clone()),
        };
        let Verdict { answer, label, parents, after, content, allowed } = verdict;
        let (seq, request) = (Seq(self.len()), asked.request);
        let weights = self.weights_of(&by, &request, &answer);
        let after = after.filter(|_| answer == Answer::Done);
        let content = content.filter(|_| matches!(answer, Answer::Done | Answer::Pending { .. }));
        Ok(Decided {
            seq,
            at,
            by,
            request,
            answer,
            label,
            parents,
            after,
            content,
            weights,
            allowed,
        })
    }

    /// The item that `request` changes when it is done.
    pub fn changed_item(&self, by: &By, request: &Request) -> Option<(Namespace, Key)> {
        match request {
            Request::Write { scope, key, .. } | Request::Delete { scope, key } => {
                let By::Session(id) = by else { return None };
                let tenant = &self.session(*id)?.who.tenant;
                Some((self.namespace(tenant, *scope), key.clone()))
            }
            Request::Promote { key, .. } => {
                let By::Session(id) = by else { return None };
                Some((Namespace::shared(self.session(*id)?.who.tenant.clone()), key.clone()))
            }
            Request::Approve { proposal, .. } => {
                let pending = self.pending.get(proposal)?;
                Some((pending.namespace.clone(), pending.key.clone()))
            }
            Request::AdoptFile { tenant, key, .. } => {
                Some((Namespace::shared(tenant.clone()), key.clone()))
            }
            Request::Found(_)
            | Request::OpenSession { .. }
            | Request::CloseSession
            | Request::Observe { .. }
            | Request::Read { .. }
            | Request::Route(_)
            | Request::Call(_)
            | Request::Withhold { .. }
            | Request::Extract(_)
            | Request::Deny { .. }
            | Request::SetMode { .. }
            | Request::AddPrincipal(_)
            | Request::RevokePrincipal { .. }
            | Request::SetLimits(_)
            | Request::SetPolicy { .. }
            | Request::Adapt(_)
            | Request::Recover(_)
            | Request::RotateLogKey(_)
            | Request::AdoptLedger { .. } => None,
        }
    }

    fn found(&self, by: &Actor, genesis: &Genesis) -> Result<Verdict, AskError> {
        if !self.is_empty() {
            return Err(AskError::Founded(self.len()));
        }
        let Actor::Principal(authority) = by else { return Err(AskError::NeedsPrincipal) };
        let who = authority.who();
        let is_founder = authority.is_owner()
            && genesis.owner.role == Role::Owner
            && who.principal == Some(genesis.owner.id)
            && who.tenant == genesis.owner.tenant;
        // No refusal: recorded, it would stand where the founding record belongs, for ever.
        if is_founder { Ok(Verdict::administrative(Ok(()))) } else { Err(AskError::NotFounded) }
    }

    /// Whether the store knows `who`. An authority outlives what it was proven from, and a record is
    /// anybody's claim, so both are held against the principals registered now.
    fn recognises(&self, who: &Who) -> bool {
        match who.principal.map(|id| self.principals.get(&id)) {
            // Everybody in a replayed trace is a claim, and can be a user of it at most.
            None => match who.role {
                Role::Agent => who.credential == Credential::None,
                Role::User => who.credential == Credential::None && who.tenant.is_replay(),
                Role::Owner | Role::Reviewer | Role::Service => false,
            },
            Some(None) => false,
            Some(Some(principal)) => {
                let at_home = who.tenant == principal.tenant;
                let abroad = who.role == Role::Owner && who.credential == Credential::Passphrase;
                who.role == principal.role
                    && who.credential != Credential::None
                    && (at_home || abroad)
            }
        }
    }

    fn by_principal(
        &self,
        authority: &Authority,
        request: &Request,
        at: Timestamp,
    ) -> Result<Verdict, AskError> {
        let who = authority.who();
        if !self.recognises(who) {
            return Err(AskError::Unproven(who.role, who.tenant.clone()));
        }
        match request {
            // Whoever opened a closed session again would see its items, under any credential.
            Request::OpenSession { session, .. }
                if self.sessions.contains_key(session) || self.closed.contains(session) =>
            {
                Err(AskError::DuplicateSession(*session))
            }
            Request::OpenSession { .. } => Ok(Verdict::administrative(Ok(()))),
            Request::Approve { proposal, shown } => {
                Ok(self.approve(authority, *proposal, *shown, at))
            }
            Request::Deny { proposal } => Ok(self.deny(authority, *proposal)),
            Request::SetMode { tenant, .. } => {
                Ok(Verdict::administrative(decide_unlock(authority, tenant)))
            }
            Request::AddPrincipal(principal)
                if self.principal(&principal.name).is_some()
                    || self.principals.contains_key(&principal.id) =>
            {
                Err(AskError::DuplicatePrincipal(principal.name.clone()))
            }
            Request::RevokePrincipal { principal } if self.owner == Some(*principal) => {
                Err(AskError::RevokeOwner)
            }
            Request::RevokePrincipal { principal } if !self.principals.contains_key(principal) => {
                Err(AskError::UnknownPrincipal(*principal))
            }
            Request::AdoptFile { tenant, key, value, .. } => {
                let verdict = self.adoption(authority, *value)?;
                let item = self.items.get(&Namespace::shared(tenant.clone()), key);
                Ok(Verdict { after: item.and_then(|item| item.last_change), ..verdict })
            }
            Request::Adapt(adapt) => self.adapt(authority, adapt),
            Request::Recover(recover) => self.recover(authority, recover),
            Request::AddPrincipal(_)
            | Request::RevokePrincipal { .. }
            | Request::SetLimits(_)
            | Request::SetPolicy { .. }
            | Request::RotateLogKey(_)
            | Request::AdoptLedger { .. } => Ok(Verdict::administrative(needs_owner(authority))),
            Request::Found(_)
            | Request::CloseSession
            | Request::Observe { .. }
            | Request::Read { .. }
            | Request::Write { .. }
            | Request::Delete { .. }
            | Request::Promote { .. }
            | Request::Route(_)
            | Request::Call(_)
            | Request::Withhold { .. }
            | Request::Extract(_) => Err(AskError::NeedsSession),
        }
    }

    /// An owner takes a file for the value of a watched item. What arrived earlier they may declare
    /// clean; the graph keeps where it came from.
    fn adoption(&self, authority: &Authority, value: Value) -> Result<Verdict, AskError> {
        let verdict = Verdict::administrative(needs_owner(authority));
        let Value::Of(content) = value else { return Ok(verdict) };
        let arrived = self.label(content.arrival).ok_or(AskError::UnknownEntry(content.arrival))?;
        let label = verdict.label.join(arrived);
        Ok(Verdict { label, parents: vec![content.arrival], ..verdict })
    }

    pub(super) fn surroundings<'a>(
        &'a self,
        namespace: &Namespace,
        key: &Key,
        who: &Who,
        now: Timestamp,
    ) -> Surroundings<'a> {
        let target = self.items.get(namespace, key);
        let shared = match namespace.scope {
            Scope::Shared => target,
            Scope::Session(_) => self.items.get(&Namespace::shared(namespace.tenant.clone()), key),
        };
        // A trace is read faster than it happened, so its times say nothing.
        let is_limited = !namespace.tenant.is_replay() && self.limits.changes.is_some();
        let limits = if is_limited { &self.limits } else { &Limits::UNLIMITED };
        let window = || self.recent.get(&(who.principal, namespace.clone()));
        let recent = if is_limited { window() } else { None };
        Surroundings {
            target,
            shared,
            look_alike: self.items.look_alike(&namespace.tenant, key),
            recent,
            limits,
            now,
        }
    }

    fn approve(
        &self,
        reviewer: &Authority,
        proposal: EntryId,
        shown: Option<Digest>,
        at: Timestamp,
    ) -> Verdict {
        if let Some(asked) = self.asked_calls.get(&proposal) {
            let outcome = if self.is_out(asked.entry) {
                Err(Refusal::InQuarantine { entry: asked.entry })
            } else {
                decide_approve_call(asked, reviewer, shown, at)
            };
            return self.about_call(asked, outcome);
        }
        let Some(pending) = self.pending.get(&proposal) else {
            return Verdict::administrative(Err(Refusal::NotPending { proposal }));
        };
        if let Some(entry) = self.held_back(pending) {
            let held = Verdict::administrative(Err(Refusal::InQuarantine { entry }));
            return self.following(pending, held);
        }
        let around = self.surroundings(&pending.namespace, &pending.key, reviewer.who(), at);
        let approval = Approval { reviewer, shown, around };
        let released = match pending.purpose {
            Purpose::Declassify => decide_declassify(pending, &approval),
            Purpose::Review => decide_review(pending, &approval),
            // Calls wait elsewhere.
            Purpose::Call => Err(Refusal::NotPending { proposal }),
        };
        let verdict = Verdict::administrative(released.map(|_| ())).changing(&around);
        self.following(pending, verdict.releasing(pending.value))
    }

    fn deny(&self, reviewer: &Authority, proposal: EntryId) -> Verdict {
        if let Some(asked) = self.asked_calls.get(&proposal) {
            return self.about_call(asked, decide_turn_down(asked, reviewer));
        }
        let Some(pending) = self.pending.get(&proposal) else {
            return Verdict::administrative(Err(Refusal::NotPending { proposal }));
        };
        let verdict = Verdict::administrative(decide_deny(pending, reviewer));
        self.following(pending, verdict)
    }

    /// A decision about a proposal stands in the graph below it: edges and origins stay, whatever
    /// taint the version is stored with.
    fn following(&self, pending: &Pending, verdict: Verdict) -> Verdict {
        self.below(pending.entry, verdict)
    }

    /// An answer about a call that a human was asked about.
    fn about_call(&self, asked: &AskedCall, outcome: Result<(), Refusal>) -> Verdict {
        self.below(asked.entry, Verdict::administrative(outcome))
    }

    fn below(&self, proposed: Seq, verdict: Verdict) -> Verdict {
        let label = self.label(proposed).unwrap_or_else(|| verdict.label.lowered());
        Verdict { label: verdict.label.join(label), parents: vec![proposed], ..verdict }
    }
}
