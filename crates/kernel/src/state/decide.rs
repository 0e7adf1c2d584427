//! Deciding: what was asked meets what the store holds.
//!
//! This gathers the arguments and calls the pure functions of [`crate::memory`]; it holds no rule
//! of its own beyond who may ask what of whom.

use super::{Session, State};
use crate::context::Added;
use crate::digest::Digest;
use crate::id::{EntryId, PrincipalId, Seq, SessionId, Timestamp};
use crate::key::Key;
use crate::label::{Channel, Label, Trust};
use crate::memory::item::{ContentRef, Mode};
use crate::memory::monitor::{
    AcceptedWrite, Surroundings, WriteProposal, decide_delete, decide_promote, decide_read,
    decide_write, visible,
};
use crate::memory::rate::Limits;
use crate::memory::refusal::{Culprit, Refusal};
use crate::memory::review::{
    Approval, Pending, Purpose, decide_declassify, decide_deny, decide_review, decide_unlock,
    needs_owner,
};
use crate::namespace::{Namespace, Scope, Tenant};
use crate::principal::{Authority, Credential, Role, Who};
use crate::record::{Answer, By, EntryKind, FORMAT, Genesis, Named, Record, Request, Value};

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    /// A session that this process opened under a credential it has seen.
    Session(SessionId),
    /// A principal directly.
    Principal(Authority),
}

/// One request, with who makes it and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Who.
    pub by: Actor,
    /// When.
    pub at: Timestamp,
    /// What.
    pub request: Request,
}

/// A request that cannot be decided, because it speaks of something that does not exist. Nothing
/// is recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The first record must found the store, and only the first.
    #[error("the store has {0} records and can be founded only while it has none")]
    Founded(u64),
    /// Nothing can be asked of a store without an owner, and only that owner can found it.
    #[error("the store is not founded yet; its first record is made by the owner that it names")]
    NotFounded,
    /// Not open, or never was.
    #[error("there is no open session `{0}`; open one first")]
    UnknownSession(SessionId),
    /// The request needs a session.
    #[error("this can only be asked in a session; open one first")]
    NeedsSession,
    /// The request needs a principal.
    #[error("this is asked by a principal, not in a session")]
    NeedsPrincipal,
    /// A session of that id is open, or was.
    #[error("a session `{0}` exists already, open or closed; draw another id")]
    DuplicateSession(SessionId),
    /// The channel and the kind of entry contradict each other.
    #[error("a {kind:?} cannot arrive on channel `{channel}`")]
    Channel {
        /// The kind named.
        kind: EntryKind,
        /// The channel named.
        channel: Channel,
    },
    /// An entry that is not in the record yet.
    #[error("entry {0} is not in the record; name only entries that were recorded before")]
    UnknownEntry(Seq),
    /// A content that neither arrived in this session nor was read in it.
    #[error(
        "the content of entry {0} is not known in this session; read the item, or send the text"
    )]
    UnknownContent(Seq),
    /// Nothing to promote or delete.
    #[error("there is no `{key}` in `{namespace}`")]
    NoSuchItem {
        /// Where it was looked for.
        namespace: Namespace,
        /// Under which key.
        key: Key,
    },
    /// A principal of that name exists.
    #[error("a principal `{0}` exists already; choose another name or revoke it first")]
    DuplicatePrincipal(String),
    /// No such principal.
    #[error("there is no principal `{0}`; see `custody principal list`")]
    UnknownPrincipal(PrincipalId),
    /// Acts as a principal that is not registered, or no longer, or in another role or tenant.
    #[error("nobody registered proved to be {0} of tenant `{1}`; see `custody principal list`")]
    Unproven(Role, Tenant),
    /// The owner cannot be revoked.
    #[error("the owner cannot be revoked; rotate the owner's key instead")]
    RevokeOwner,
}

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
            advice,
        }
    }
}

/// A verdict before it is put together with who asked and when.
struct Verdict {
    answer: Answer,
    label: Label,
    parents: Vec<Seq>,
    /// The last change of the item that is changed.
    after: Option<Seq>,
    /// The content that is put in force, where the request does not name it.
    content: Option<ContentRef>,
}

impl Verdict {
    fn new(answer: Answer, label: Label, parents: Vec<Seq>) -> Self {
        Self { answer, label, parents, after: None, content: None }
    }

    /// This verdict, on a change of the item that `around` is about.
    fn changing(self, around: &Surroundings<'_>) -> Self {
        Self { after: around.target.and_then(|item| item.last_change), ..self }
    }

    /// For acts on the store itself, which are no part of any context.
    fn administrative(outcome: Result<(), Refusal>) -> Self {
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
        // A clock set back cannot reopen a rate window or an expired approval (PRIOR-ART M13).
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
        let Verdict { answer, label, parents, after, content } = verdict;
        let (seq, request) = (Seq(self.len()), asked.request);
        let after = after.filter(|_| answer == Answer::Done);
        let content = content.filter(|_| matches!(answer, Answer::Done | Answer::Pending { .. }));
        Ok(Decided { seq, at, by, request, answer, label, parents, after, content })
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
            | Request::Deny { .. }
            | Request::SetMode { .. }
            | Request::AddPrincipal(_)
            | Request::RevokePrincipal { .. }
            | Request::SetLimits(_)
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

    fn in_session(
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
                let parents = [parents.as_slice(), arrival(session, *content)?.as_slice()].concat();
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
                    added: self.added(session, depends_on, arrival(session, Some(*value))?),
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
                if item.is_none() && verdict.answer.refusal().is_none() {
                    return Err(AskError::NoSuchItem { namespace, key: key.clone() });
                }
                Ok(verdict)
            }
            Request::Promote { from, key } => self.promote(session, &own, *from, key, at),
            Request::Found(_)
            | Request::OpenSession { .. }
            | Request::Approve { .. }
            | Request::Deny { .. }
            | Request::SetMode { .. }
            | Request::AdoptFile { .. }
            | Request::AddPrincipal(_)
            | Request::RevokePrincipal { .. }
            | Request::SetLimits(_)
            | Request::RotateLogKey(_)
            | Request::AdoptLedger { .. } => Err(AskError::NeedsPrincipal),
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
            Request::AddPrincipal(_)
            | Request::RevokePrincipal { .. }
            | Request::SetLimits(_)
            | Request::RotateLogKey(_)
            | Request::AdoptLedger { .. } => Ok(Verdict::administrative(needs_owner(authority))),
            Request::Found(_)
            | Request::CloseSession
            | Request::Observe { .. }
            | Request::Read { .. }
            | Request::Write { .. }
            | Request::Delete { .. }
            | Request::Promote { .. } => Err(AskError::NeedsSession),
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

    /// Labels what enters: by its channel, by whom the session runs for, and by what it was made from
    /// (MON §3.4, source labelling and propagation).
    fn observe(
        &self,
        session: &Session,
        kind: EntryKind,
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

    fn added(&self, session: &Session, depends_on: &[Named], arrival: Option<Seq>) -> Added {
        let mut added = Added::default();
        for named in depends_on {
            match *named {
                Named::Missing(id) => added.spoilt_by(Culprit::Missing(id)),
                Named::Entry(seq) => match self.label_within(&session.who.tenant, seq) {
                    // A position that is not there yet is as unknown as an id that is not there.
                    None => added.spoilt_by(Culprit::NoOrigin),
                    Some(label) => added.entry(seq, label),
                },
            }
        }
        if let Some((seq, label)) = arrival.and_then(|seq| Some((seq, self.label(seq)?))) {
            added.entry(seq, label);
        }
        added
    }

    fn surroundings<'a>(
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
        Ok(Verdict { content: Some(version.content), ..verdict.changing(&around) })
    }

    fn approve(
        &self,
        reviewer: &Authority,
        proposal: EntryId,
        shown: Option<Digest>,
        at: Timestamp,
    ) -> Verdict {
        let Some(pending) = self.pending.get(&proposal) else {
            return Verdict::administrative(Err(Refusal::NotPending { proposal }));
        };
        let around = self.surroundings(&pending.namespace, &pending.key, reviewer.who(), at);
        let approval = Approval { reviewer, shown, around };
        let released = match pending.purpose {
            Purpose::Declassify => decide_declassify(pending, &approval),
            Purpose::Review => decide_review(pending, &approval),
        };
        let verdict = Verdict::administrative(released.map(|_| ())).changing(&around);
        self.following(pending, Verdict { content: pending.value, ..verdict })
    }

    fn deny(&self, reviewer: &Authority, proposal: EntryId) -> Verdict {
        let Some(pending) = self.pending.get(&proposal) else {
            return Verdict::administrative(Err(Refusal::NotPending { proposal }));
        };
        let verdict = Verdict::administrative(decide_deny(pending, reviewer));
        self.following(pending, verdict)
    }

    /// A decision about a proposal stands in the graph below it: edges and origins stay, whatever
    /// taint the version is stored with.
    fn following(&self, pending: &Pending, verdict: Verdict) -> Verdict {
        let proposed = self.label(pending.entry).unwrap_or_else(|| verdict.label.lowered());
        Verdict { label: verdict.label.join(proposed), parents: vec![pending.entry], ..verdict }
    }
}

/// Where `value` arrived, if that was earlier: it brings the label it arrived with.
fn arrival(session: &Session, value: Option<Value>) -> Result<Option<Seq>, AskError> {
    match value {
        None | Some(Value::New(_)) => Ok(None),
        Some(Value::Of(content)) if session.context.holds(content) => Ok(Some(content.arrival)),
        Some(Value::Of(content)) => Err(AskError::UnknownContent(content.arrival)),
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
