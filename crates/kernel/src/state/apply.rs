//! Committing and folding: what a record changes.

use custody_log::{EntryId, Seq, SessionId};

use super::items::Items;
use super::{Decided, Entry, Session, SignedPolicy, State, Watched};
use crate::key::Key;
use crate::label::{Label, Taint, Trust};
use crate::memory::item::{ContentRef, Mode, Version};
use crate::memory::review::Pending;
use crate::namespace::{Namespace, Scope, Tenant};
use crate::principal::{Authority, Who};
use crate::record::{Answer, By, ObservationKind, Record, Request};
use crate::state::{Actor, AskError, Asked};
use crate::tool::asked::Standing;

/// Why a record does not follow from those before it.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Not the next position.
    #[error("record {found} stands where record {expected} belongs")]
    Position {
        /// The position it names.
        found: Seq,
        /// The position it stands at.
        expected: Seq,
    },
    /// Time runs backwards.
    #[error("record {0} is older than the one before it")]
    Time(Seq),
    /// A parent that is not before it, or parents out of order.
    #[error("record {0} names parents that do not stand before it in ascending order")]
    Parent(Seq),
    /// An answer that nobody could have given to its request here.
    #[error("record {0} holds an answer that its request cannot have at this point")]
    Answer(Seq),
    /// A session that is not open.
    #[error("record {0} speaks in a session that is not open")]
    Session(Seq),
    /// The decision was made for another state of the store.
    #[error("the decision was made for position {decided}, the store is at {now}; decide again")]
    Stale {
        /// The position it was made for.
        decided: Seq,
        /// The position reached since.
        now: Seq,
    },
    /// Deciding again gives another answer than the record holds.
    #[error("record {0} is not what the rules decide")]
    Disagrees(Seq),
    /// What was asked speaks of something that does not exist.
    #[error("record {seq} asks what cannot be asked")]
    Asked {
        /// The record.
        seq: Seq,
        /// Why it cannot be asked.
        #[source]
        cause: AskError,
    },
}

impl State {
    /// Folds a decision in and returns its record.
    ///
    /// # Errors
    /// [`ApplyError::Stale`] when another record came in between.
    pub fn commit(
        &mut self,
        decided: Decided,
        id: EntryId,
        advice: Vec<String>,
    ) -> Result<Record, ApplyError> {
        if decided.seq().0 != self.len() {
            return Err(ApplyError::Stale { decided: decided.seq(), now: Seq(self.len()) });
        }
        let record = decided.into_record(id, advice);
        self.apply(&record)?;
        Ok(record)
    }

    /// Folds a record of the log in, trusting its answer.
    ///
    /// # Errors
    /// [`ApplyError`] when it does not follow from the records before it. The state is then
    /// unchanged.
    pub fn apply(&mut self, record: &Record) -> Result<(), ApplyError> {
        let seq = record.seq;
        if seq.0 != self.len() {
            return Err(ApplyError::Position { found: seq, expected: Seq(self.len()) });
        }
        if record.at < self.now {
            return Err(ApplyError::Time(seq));
        }
        let ascending = record.parents.is_sorted_by(|one, next| one < next);
        if !ascending || record.parents.last().is_some_and(|parent| *parent >= seq) {
            return Err(ApplyError::Parent(seq));
        }
        let weights = self.weights_of(&record.by, &record.request, &record.answer);
        if !self.can_have_been_answered(record) || record.weights != weights {
            return Err(ApplyError::Answer(seq));
        }
        let asker = match &record.by {
            By::Session(id) => &self.sessions.get(id).ok_or(ApplyError::Session(seq))?.who.tenant,
            By::Principal(who) => &who.tenant,
        };
        let tenant = self.whose(&record.request, asker);
        // Asked before the record is folded in: an approval ends the proposal that names the item.
        let held = self.is_holding().then(|| self.changed_item(&record.by, &record.request));
        match &record.by {
            By::Session(id) => self.apply_in_session(*id, record),
            By::Principal(who) => self.apply_by_principal(who, record),
        }
        self.now = record.at;
        self.entries.push(Entry { label: record.label, tenant });
        if let Some(changed) = held {
            self.hold(record, changed);
        }
        Ok(())
    }

    /// Whose entry a record is: what an owner brings to a tenant, or decides there, is that tenant's.
    fn whose(&self, request: &Request, asker: &Tenant) -> Tenant {
        if let Request::AdoptFile { tenant, .. } | Request::SetMode { tenant, .. } = request {
            return tenant.clone();
        }
        if let Request::Approve { proposal, .. } | Request::Deny { proposal } = request {
            let pending = self.pending.get(proposal).map(|pending| &pending.namespace.tenant);
            let asked = self.asked_calls.get(proposal).map(|asked| &asked.tenant);
            return pending.or(asked).unwrap_or(asker).clone();
        }
        asker.clone()
    }

    /// Decides a record of the log again and folds it in. For auditors: the log then proves not only
    /// that nothing was changed but that every answer is the one the rules give.
    ///
    /// # Errors
    /// [`ApplyError::Disagrees`] when the rules give another answer, label or parents.
    pub fn recount(&mut self, record: &Record) -> Result<(), ApplyError> {
        let by = match &record.by {
            By::Session(id) => Actor::Session(*id),
            By::Principal(who) => Actor::Principal(Authority::recorded(who.clone())),
        };
        let asked = Asked { by, at: record.at, request: record.request.clone() };
        let decided =
            self.decide(asked).map_err(|cause| ApplyError::Asked { seq: record.seq, cause })?;
        let again = decided.into_record(record.id, record.advice.clone());
        if again != *record {
            return Err(ApplyError::Disagrees(record.seq));
        }
        self.apply(record)
    }

    /// Whether the answer is of a kind that the request has, from this kind of asker, and speaks of
    /// something that is there. Whether it is the right one is for [`State::recount`] to say.
    fn can_have_been_answered(&self, record: &Record) -> bool {
        let in_session = matches!(record.by, By::Session(_));
        let done = record.answer == Answer::Done;
        let refused = matches!(record.answer, Answer::Refused(_));
        // A proposal is known by the id of its record: a second one would take the place of the first.
        let is_known =
            self.pending.contains_key(&record.id) || self.asked_calls.contains_key(&record.id);
        let pending = matches!(record.answer, Answer::Pending { .. }) && !is_known;
        match &record.request {
            Request::Found(_) => !in_session && done && self.is_empty(),
            _ if self.is_empty() => false,
            Request::OpenSession { session, .. } => {
                let is_new = !self.sessions.contains_key(session) && !self.closed.contains(session);
                !in_session && done && is_new
            }
            Request::CloseSession | Request::Observe { .. } | Request::Withhold { .. } => {
                in_session && done
            }
            Request::Read { .. } => {
                let read = matches!(record.answer, Answer::Found { .. } | Answer::Absent);
                in_session && (read || refused)
            }
            Request::Write { .. } | Request::Delete { .. } | Request::Call(_) => {
                in_session && (done || pending || refused)
            }
            Request::Route(_) | Request::Extract(_) => in_session && (done || refused),
            Request::Promote { from, key } => {
                let By::Session(id) = &record.by else { return false };
                let Some(session) = self.sessions.get(id) else { return false };
                let source = Namespace::session(session.who.tenant.clone(), *from);
                let is_there = self.item(&source, key).is_some_and(|item| item.current.is_some());
                refused || (is_there && (done || pending))
            }
            Request::Approve { proposal, .. } | Request::Deny { proposal } => {
                let is_waiting =
                    self.pending.contains_key(proposal) || self.asked_calls.contains_key(proposal);
                !in_session && (refused || (done && is_waiting))
            }
            Request::Adapt(adapt) => {
                !in_session && (refused || (done && self.changed(adapt).is_ok()))
            }
            Request::SetMode { .. }
            | Request::AdoptFile { .. }
            | Request::AddPrincipal(_)
            | Request::RevokePrincipal { .. }
            | Request::SetLimits(_)
            | Request::SetPolicy { .. }
            | Request::Recover(_)
            | Request::RotateLogKey(_)
            | Request::AdoptLedger { .. } => !in_session && (done || refused),
        }
    }

    fn apply_in_session(&mut self, id: SessionId, record: &Record) {
        let (entry, label) = (record.seq, record.label);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let tenant = session.who.tenant.clone();
        if let Some(content) = brought(record) {
            session.context.hold(content);
        }
        match (&record.request, &record.answer) {
            (Request::CloseSession, Answer::Done) => {
                self.recent.remove(&(session.who.principal, Namespace::session(tenant, id)));
                self.sessions.remove(&id);
                self.closed.insert(id);
            }
            (Request::Observe { kind, .. }, Answer::Done) => match kind {
                ObservationKind::Completion => {
                    session.context.read(entry, label);
                    session.context.produced(entry);
                }
                ObservationKind::Message
                | ObservationKind::ToolCall
                | ObservationKind::ToolOutput
                | ObservationKind::Retrieval
                | ObservationKind::FileChange => session.context.read(entry, label),
            },
            (Request::Read { .. }, Answer::Found { .. }) => session.context.read(entry, label),
            (Request::Write { scope, key, value, .. }, answer) => {
                let namespace = Namespace { tenant, scope: *scope };
                self.apply_change(record, namespace, key, Some(value.content(entry)), answer);
            }
            (Request::Delete { scope, key }, answer) => {
                let namespace = Namespace { tenant, scope: *scope };
                self.apply_change(record, namespace, key, None, answer);
            }
            (Request::Call(call), answer) => {
                self.apply_call(id, call, record, answer);
            }
            (Request::Withhold { call, .. }, Answer::Done) => {
                self.apply_withhold(id, *call, record);
            }
            (Request::Extract(extract), Answer::Done) => self.apply_extract(id, extract, record),
            (Request::Promote { from, key }, answer) => {
                let source = Namespace::session(tenant.clone(), *from);
                let content =
                    self.item(&source, key).and_then(|item| item.current).map(|v| v.content);
                self.apply_change(record, Namespace::shared(tenant), key, content, answer);
            }
            _ => {}
        }
    }

    fn apply_by_principal(&mut self, who: &Who, record: &Record) {
        if record.answer != Answer::Done {
            return;
        }
        let entry = record.seq;
        match &record.request {
            Request::Found(genesis) => {
                self.items = Items::seeded_by(genesis.store);
                self.store = Some(genesis.store);
                self.owner = Some(genesis.owner.id);
                self.log_key = Some(genesis.log_key.clone());
                self.limits = genesis.limits;
                self.principals.insert(genesis.owner.id, genesis.owner.clone());
            }
            Request::OpenSession { session, alias, host } => {
                let opened = Session::opened(who.clone(), alias.clone(), host.clone());
                self.sessions.insert(*session, opened);
                self.carry_into(*session);
            }
            Request::Approve { proposal, .. } => {
                self.answer_call(*proposal, Standing::Approved);
                self.release(*proposal, entry);
            }
            Request::Deny { proposal } => {
                self.answer_call(*proposal, Standing::TurnedDown);
                self.pending.remove(proposal);
            }
            Request::SetMode { tenant, scope, key, mode } => {
                let namespace = self.namespace(tenant, *scope);
                self.items.set_mode(&namespace, key, *mode);
            }
            Request::AdoptFile { tenant, key, path, value } => {
                self.adopt(tenant, key, path, value.content(entry), entry);
            }
            Request::AddPrincipal(principal) => {
                self.principals.insert(principal.id, (**principal).clone());
            }
            Request::RevokePrincipal { principal } => {
                self.principals.remove(principal);
                let theirs = |session: &Session| session.who.principal == Some(*principal);
                self.closed.extend(self.sessions.extract_if(|_, s| theirs(s)).map(|(id, _)| id));
                self.recent.retain(|(of, _), _| *of != Some(*principal));
            }
            Request::SetLimits(limits) => self.limits = *limits,
            Request::SetPolicy { version, text } => {
                self.policy = Some(SignedPolicy { version: *version, text: text.content(entry) });
            }
            Request::Adapt(adapt) => self.apply_adapt(adapt, record),
            Request::Recover(recover) => self.apply_recover(recover, record),
            Request::RotateLogKey(key) => self.log_key = Some(key.clone()),
            Request::AdoptLedger { .. } => self.breaks.push(entry),
            Request::CloseSession
            | Request::Observe { .. }
            | Request::Read { .. }
            | Request::Write { .. }
            | Request::Delete { .. }
            | Request::Promote { .. }
            | Request::Route(_)
            | Request::Call(_)
            | Request::Withhold { .. }
            | Request::Extract(_) => {}
        }
    }

    fn apply_change(
        &mut self,
        record: &Record,
        namespace: Namespace,
        key: &Key,
        value: Option<ContentRef>,
        answer: &Answer,
    ) {
        let By::Session(id) = record.by else { return };
        let Some(requester) = self.sessions.get(&id).map(|session| session.who.clone()) else {
            return;
        };
        match answer {
            Answer::Done => {
                let entry = record.seq;
                let made = value.map(|content| version(entry, content, record.label));
                self.items.change(&namespace, key, entry, made);
            }
            Answer::Pending { purpose, expires, .. } => {
                let pending = Pending {
                    proposal: record.id,
                    entry: record.seq,
                    purpose: *purpose,
                    namespace: namespace.clone(),
                    key: key.clone(),
                    value,
                    base: self.item(&namespace, key).and_then(|item| item.entry()),
                    dependencies: record.parents.clone(),
                    requester: requester.clone(),
                    expires: *expires,
                };
                self.pending.insert(record.id, pending);
            }
            Answer::Found { .. } | Answer::Absent | Answer::Refused(_) => return,
        }
        let window = self.recent.entry((requester.principal, namespace)).or_default();
        window.count(&self.limits, record.at);
    }

    /// A released proposal becomes a version with τ = 0, whatever its entry's label (docs/design.md §4.3,
    /// declassification).
    fn release(&mut self, proposal: EntryId, entry: Seq) {
        let Some(pending) = self.pending.remove(&proposal) else { return };
        let released =
            |content| Version { entry, content, provenance: Trust::Trusted, taint: Taint::Clean };
        let made = pending.value.map(released);
        self.items.change(&pending.namespace, &pending.key, entry, made);
    }

    fn adopt(&mut self, tenant: &Tenant, key: &Key, path: &str, content: ContentRef, entry: Seq) {
        let namespace = Namespace { tenant: tenant.clone(), scope: Scope::Shared };
        let is_new = self.item(&namespace, key).is_none_or(|item| item.current.is_none());
        let made = Version { entry, content, provenance: Trust::Trusted, taint: Taint::Clean };
        self.items.change(&namespace, key, entry, Some(made));
        if is_new {
            self.items.set_mode(&namespace, key, Mode::Immutable);
        }
        let watched =
            Watched { namespace: namespace.clone(), key: key.clone(), path: path.to_owned() };
        self.watched.insert((namespace, key.clone()), watched);
    }
}

/// The content that arrived in a session with `record`, or that it read.
fn brought(record: &Record) -> Option<ContentRef> {
    match (&record.request, &record.answer) {
        (Request::Observe { content, .. }, _) => Some((*content)?.content(record.seq)),
        (Request::Write { value, .. } | Request::Withhold { content: value, .. }, _) => {
            Some(value.content(record.seq))
        }
        (Request::Extract(extract), Answer::Done) => Some(extract.value?.content(record.seq)),
        (Request::Call(call), _) => Some(call.arguments.content(record.seq)),
        (Request::Read { .. }, Answer::Found { content, .. }) => Some(*content),
        _ => None,
    }
}

/// Rule 2 stores τ = 0 and π of the writer: an accepted change has a clean context, so its entry's
/// label says just that.
fn version(entry: Seq, content: ContentRef, label: Label) -> Version {
    Version { entry, content, provenance: label.trust(), taint: label.taint() }
}
