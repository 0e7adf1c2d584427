//! The reference monitor: decide, commit, fold, recount.
//!
//! This is the dispatch to the [`actions`](crate::actions), with what holds for all of them: who is recognised, what
//! may follow in a log, and that nothing is committed but what a decision left a witness for.

use custody_log::{Digest, EntryId, Hash, Seq, SessionId, Timestamp};
use ed25519_dalek::SigningKey;

use crate::actions::adapter::{self, AcceptedAdapt};
use crate::actions::adopt::{self, AdoptedFile};
use crate::actions::basis::{self, RecordedBasis};
use crate::actions::call::{self, AllowedCall, DecidedCall};
use crate::actions::draft::{Draft, InSession};
use crate::actions::extract::{self, AcceptedExtract, Withheld};
use crate::actions::genesis::{self, AcceptedGenesis};
use crate::actions::incident::{self, AcceptedStep};
use crate::actions::intent::{self, DeclaredIntents};
use crate::actions::join_context::{self, JoinedContext};
use crate::actions::list::{self, ListedItems};
use crate::actions::migrate::{self, ClosedFormat};
use crate::actions::mode::{self, AcceptedMode};
use crate::actions::observe::{self, Observed};
use crate::actions::principals::{self, AddedPrincipal, RevokedPrincipal};
use crate::actions::promote::{self, DecidedPromotion};
use crate::actions::read::{self, ReadVersion};
use crate::actions::review::{self, Approved, Denied};
use crate::actions::route::{self, ReleasedText};
use crate::actions::session::{self, ClosedSession, OpenedSession};
use crate::actions::settings::{self, AcceptedSetting, Setting};
use crate::actions::write::{self, DecidedWrite};
use crate::advice::Advice;
use crate::key::Key;
use crate::label::Label;
use crate::memory::item::ContentRef;
use crate::namespace::{Namespace, Tenant};
use crate::principal::{Authority, Credential, PrincipalClaim, Role};
use crate::record::{AdminRequest, Answer, Author, FORMAT, Record, Request, SessionRequest};
use crate::signature::RecordSignature;
use crate::signed::UncheckedSignature;
use crate::state::{ApplyError, AskError, Entry, State, SubmittedRequest};
use crate::tool::call::Call;

/// The witness of a decision. Only [`State::decide`] makes one; [`State::commit`] takes nothing else, and uses it up.
///
/// It carries the witnesses of what it changes, so that nothing can be changed which was not decided.
#[derive(Debug)]
#[must_use = "a decision that is not committed did not happen"]
pub struct Decided {
    seq: Seq,
    at: Timestamp,
    by: Author,
    request: Request,
    answer: Answer,
    label: Label,
    parents: Vec<Seq>,
    after: Option<Seq>,
    content: Option<ContentRef>,
    weights: Vec<Digest>,
    /// Of the human who asked.
    signature: Option<RecordSignature>,
    effect: Option<Effect>,
}

/// What a decision changes: the witness of its action.
#[derive(Debug)]
enum Effect {
    Session(SessionId, SessionEffect),
    Admin(AdminEffect),
}

#[derive(Debug)]
enum SessionEffect {
    Close(ClosedSession),
    Observe(Observed),
    Read(ReadVersion),
    List(ListedItems),
    Write(DecidedWrite),
    Promote(DecidedPromotion),
    Route(ReleasedText),
    Call(DecidedCall),
    Withhold(Withheld),
    Extract(AcceptedExtract),
    Declare(DeclaredIntents),
    Join(JoinedContext),
    RecordBasis(RecordedBasis),
}

#[derive(Debug)]
enum AdminEffect {
    Genesis(AcceptedGenesis),
    OpenSession(OpenedSession),
    EndSession(ClosedSession),
    Approve(Approved),
    Deny(Denied),
    SetMode(AcceptedMode),
    AdoptFile(AdoptedFile),
    AddPrincipal(AddedPrincipal),
    RevokePrincipal(RevokedPrincipal),
    Set(AcceptedSetting),
    Adapt(AcceptedAdapt),
    Recover(AcceptedStep),
    CloseFormat(ClosedFormat),
}

/// A record that was just committed, and the call that may run because of it. Only [`State::commit`] makes one.
#[derive(Debug)]
#[must_use = "a record that is not stored is lost"]
pub struct Committed {
    record: Record,
    allowed: Option<AllowedCall>,
}

/// What is known of a record before it is folded in, and asked for afterwards.
struct Before {
    /// Whose entry it is.
    tenant: Tenant,
    /// The item that it changes, where incidents hold what is made from their members.
    held: Option<Option<(Namespace, Key)>>,
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
    pub const fn by(&self) -> &Author {
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

    /// The record, under the id that the runtime made for it, and what it changes. `advice` is what somebody
    /// noticed; it arrives after the decision and so cannot have been an input of it.
    fn into_parts(self, id: EntryId, advice: Vec<Advice>) -> (Record, Option<Effect>) {
        let record = Record {
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
            signature: self.signature,
        };
        (record, self.effect)
    }
}

impl Committed {
    /// The record.
    pub const fn record(&self) -> &Record {
        &self.record
    }

    /// The record, and the call that may run now, if it is about one.
    pub fn into_parts(self) -> (Record, Option<AllowedCall>) {
        (self.record, self.allowed)
    }
}

impl State {
    /// Decides one request, made at `at`. Changes nothing.
    ///
    /// # Errors
    /// [`AskError`] when the request speaks of something that does not exist. A refusal is not an
    /// error: it is an answer, and is committed like any other.
    pub fn decide(&self, submitted: SubmittedRequest, at: Timestamp) -> Result<Decided, AskError> {
        // A clock set back cannot reopen a rate window or an expired approval (M13).
        let at = at.max(self.now);
        let migrates =
            matches!(submitted, SubmittedRequest::Admin(_, AdminRequest::CloseUnsignedFormat(_)));
        if self.is_unsigned() && !migrates {
            return Err(AskError::Unsigned);
        }
        let (by, request, signature, draft) = match submitted {
            SubmittedRequest::Session(id, request) => {
                let draft = decide_in_session(self.in_session(id, at)?, &request)?;
                let draft = draft.map(|effect| Effect::Session(id, effect));
                (Author::Session(id), request.into(), None, draft)
            }
            SubmittedRequest::Call(id, proposed) => {
                let call = Box::new(Call::from(*proposed));
                let draft = call::decide(self.in_session(id, at)?, &call)?;
                let draft = draft.map(|call| Effect::Session(id, SessionEffect::Call(call)));
                (Author::Session(id), Request::Call(call), None, draft)
            }
            SubmittedRequest::Admin(authority, request) => {
                let draft = self.decide_by_principal(&authority, &request, at)?;
                let by = Author::Principal(authority.who().clone());
                let request = Request::from(request);
                let place = self.position(&request);
                let signature = place.and_then(|place| authority.sign(place, &request));
                (by, request, signature, draft.map(Effect::Admin))
            }
        };
        Ok(Decided { signature, ..self.decided(by, at, request, draft) })
    }

    fn decided(
        &self,
        by: Author,
        at: Timestamp,
        request: Request,
        draft: Draft<Effect>,
    ) -> Decided {
        let Draft { answer, label, parents, after, content, witness: effect } = draft;
        let seq = self.next_seq();
        let weights = adapter::weights_of(self, &by, &request, &answer);
        let signature = None;
        Decided {
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
            signature,
            effect,
        }
    }

    fn in_session(&self, id: SessionId, at: Timestamp) -> Result<InSession<'_>, AskError> {
        if self.is_empty() {
            return Err(AskError::NoStore);
        }
        let session = self.session(id).ok_or(AskError::UnknownSession(id))?;
        Ok(InSession { state: self, id, session, at })
    }

    fn decide_by_principal(
        &self,
        authority: &Authority,
        request: &AdminRequest,
        at: Timestamp,
    ) -> Result<Draft<AdminEffect>, AskError> {
        self.check_asker(authority.who(), request)?;
        Ok(match request {
            AdminRequest::OpenSession { session, alias, host, key } => {
                let (alias, host) = (alias.as_deref(), host.as_ref());
                session::decide_open(self, authority, *session, alias, host, *key)?
                    .map(AdminEffect::OpenSession)
            }
            AdminRequest::EndSession { session } => {
                session::decide_end(self, authority, *session)?.map(AdminEffect::EndSession)
            }
            AdminRequest::Approve { proposal, shown } => {
                review::decide_approve(self, authority, *proposal, *shown, at)
                    .map(AdminEffect::Approve)
            }
            AdminRequest::Deny { proposal } => {
                review::decide_denial(self, authority, *proposal).map(AdminEffect::Deny)
            }
            AdminRequest::SetMode { tenant, scope, key, mode } => {
                let namespace = Namespace { tenant: tenant.clone(), scope: *scope };
                mode::decide(authority, namespace, key, *mode).map(AdminEffect::SetMode)
            }
            AdminRequest::AdoptFile { tenant, key, path, value } => {
                adopt::decide(self, authority, tenant, key, path, *value)?
                    .map(AdminEffect::AdoptFile)
            }
            AdminRequest::AddPrincipal(principal) => {
                principals::decide_add(self, authority, principal)?.map(AdminEffect::AddPrincipal)
            }
            AdminRequest::RevokePrincipal { principal } => {
                principals::decide_revoke(self, authority, *principal)?
                    .map(AdminEffect::RevokePrincipal)
            }
            AdminRequest::SetLimits(limits) => {
                settings::decide(authority, Setting::Limits(*limits)).map(AdminEffect::Set)
            }
            AdminRequest::SetPolicy { version, text } => {
                settings::decide(authority, Setting::Policy(*version, *text)).map(AdminEffect::Set)
            }
            AdminRequest::RotateLogKey(key) => {
                settings::decide(authority, Setting::LogKey(key.clone())).map(AdminEffect::Set)
            }
            AdminRequest::AdoptLedger { .. } => {
                settings::decide(authority, Setting::Break).map(AdminEffect::Set)
            }
            AdminRequest::Adapt(adapt) => {
                adapter::decide(self, authority, adapt)?.map(AdminEffect::Adapt)
            }
            AdminRequest::Recover(recover) => {
                incident::decide(self, authority, recover)?.map(AdminEffect::Recover)
            }
            AdminRequest::CloseUnsignedFormat(kept) => {
                migrate::decide(self, authority, kept)?.map(AdminEffect::CloseFormat)
            }
            AdminRequest::CreateStore(genesis) => {
                genesis::decide(self, authority, genesis)?.map(AdminEffect::Genesis)
            }
        })
    }

    /// Whether `who` may ask this at all.
    fn check_asker(&self, who: &PrincipalClaim, request: &AdminRequest) -> Result<(), AskError> {
        // Whoever creates the store is the first that it knows.
        if matches!(request, AdminRequest::CreateStore(_)) {
            return Ok(());
        }
        if self.is_empty() {
            return Err(AskError::NoStore);
        }
        if self.recognises(who) {
            Ok(())
        } else {
            Err(AskError::Unproven(who.role, who.tenant.clone()))
        }
    }

    /// Whether the store knows `who`. An authority outlives what it was proven from, and a record is
    /// anybody's claim, so both are held against the principals registered now.
    fn recognises(&self, who: &PrincipalClaim) -> bool {
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

    /// Makes what was decided so, using the decision up, and returns its record. `session_key` signs what a session
    /// asked; it is not needed for what a principal asked.
    ///
    /// # Errors
    /// [`ApplyError::Stale`] when another record came in between; [`ApplyError::Signature`] when `session_key` is not
    /// that of the session.
    pub fn commit(
        &mut self,
        decided: Decided,
        id: EntryId,
        advice: Vec<Advice>,
        session_key: Option<&SigningKey>,
    ) -> Result<Committed, ApplyError> {
        if decided.seq() != self.next_seq() {
            return Err(ApplyError::Stale { decided: decided.seq(), now: self.next_seq() });
        }
        let (mut record, effect) = decided.into_parts(id, advice);
        if let Author::Session(session) = record.by {
            record.signature = Some(self.sign_as(session, &record, session_key)?);
        }
        if matches!(record.answer, Answer::Pending { .. }) && self.knows_proposal(id) {
            return Err(ApplyError::Answer(record.seq));
        }
        let before = self.before(&record)?;
        self.hold_content(&record);
        let allowed = effect.and_then(|effect| effect.apply(self, &record));
        self.after(&record, record.leaf(), before);
        Ok(Committed { record, allowed })
    }

    /// Folds a record of the log in: what it changed when it was committed, it changes again. No call runs because of
    /// it.
    ///
    /// What a session asked is signed by the process that decided it, and its answer is taken from there. What a
    /// principal asked is decided again: the log key alone changes nothing.
    ///
    /// # Errors
    /// [`ApplyError`] when it does not follow from the records before it. The state is then
    /// unchanged.
    pub fn fold(&mut self, record: &Record) -> Result<(), ApplyError> {
        self.check_place(record)?;
        self.signature_of(record)?.check()?;
        self.fold_stored(record, record.leaf()).map(drop)
    }

    /// Folds in a record whose bytes are stored under `leaf`. Only a record of format 1 may have other bytes than the
    /// program would write now.
    ///
    /// # Errors
    /// As [`State::fold`], but for the signature of a session, which is the caller's to check: what was folded in
    /// counts for nothing until it holds.
    pub fn fold_stored(
        &mut self,
        record: &Record,
        leaf: Hash,
    ) -> Result<UncheckedSignature, ApplyError> {
        match record.by {
            Author::Principal(_) if record.v == FORMAT => self.recount_stored(record, leaf),
            Author::Principal(_) | Author::Session(_) => {
                self.check_place(record)?;
                let signature = self.session_signature(record)?;
                self.fold_answer(record, leaf)?;
                Ok(signature)
            }
        }
    }

    /// Checks that `record` may stand next.
    fn check_place(&self, record: &Record) -> Result<(), ApplyError> {
        let seq = record.seq;
        if seq != self.next_seq() {
            return Err(ApplyError::Position { found: seq, expected: self.next_seq() });
        }
        if record.at < self.now {
            return Err(ApplyError::Time(seq));
        }
        let ascending = record.parents.is_sorted_by(|one, next| one < next);
        if !ascending || record.parents.last().is_some_and(|parent| *parent >= seq) {
            return Err(ApplyError::Parent(seq));
        }
        Ok(())
    }

    /// Folds a record in with the answer that it has. Its place and its signature were checked.
    fn fold_answer(&mut self, record: &Record, leaf: Hash) -> Result<(), ApplyError> {
        let seq = record.seq;
        let weights = adapter::weights_of(self, &record.by, &record.request, &record.answer);
        if record.weights != weights {
            return Err(ApplyError::Answer(seq));
        }
        if self.is_empty()
            && !matches!(record.request, Request::Admin(AdminRequest::CreateStore(_)))
        {
            return Err(ApplyError::Answer(seq));
        }
        let before = self.before(record)?;
        let folded = match (&record.by, &record.request) {
            (Author::Session(id), Request::Session(request)) => {
                self.fold_in_session(*id, record, request)
            }
            (Author::Session(id), Request::Call(call)) => call::fold(self, *id, record, call),
            (Author::Principal(who), Request::Admin(request)) => {
                self.fold_by_principal(who, record, request)
            }
            (Author::Session(_), Request::Admin(_))
            | (Author::Principal(_), Request::Session(_) | Request::Call(_)) => None,
        };
        folded.ok_or(ApplyError::Answer(seq))?;
        migrate::note(self, record);
        self.hold_content(record);
        self.after(record, leaf, before);
        Ok(())
    }

    /// Decides a record of the log again and folds it in. For auditors: the log then proves not only
    /// that nothing was changed but that every answer is the one the rules give. Records of format 1 are folded in as
    /// they are: they were decided by other rules.
    ///
    /// # Errors
    /// [`ApplyError::Disagrees`] when the rules give another answer, label or parents;
    /// [`ApplyError::Signature`] when it is not signed by whom it names.
    pub fn recount(&mut self, record: &Record) -> Result<(), ApplyError> {
        self.check_place(record)?;
        self.signature_of(record)?.check()?;
        self.recount_stored(record, record.leaf()).map(drop)
    }

    /// Decides again a record whose bytes are stored under `leaf`, and folds it in, as [`State::recount`] does.
    ///
    /// # Errors
    /// As [`State::recount`], but for the signature of a session, which is the caller's to check: what was folded in
    /// counts for nothing until it holds.
    pub fn recount_stored(
        &mut self,
        record: &Record,
        leaf: Hash,
    ) -> Result<UncheckedSignature, ApplyError> {
        self.check_place(record)?;
        let signature = self.session_signature(record)?;
        if record.v != FORMAT {
            self.fold_answer(record, leaf)?;
            return Ok(signature);
        }
        let decided = self
            .decide_again(record)?
            .map_err(|cause| ApplyError::Asked { seq: record.seq, cause })?;
        let (again, _) = decided.into_parts(record.id, record.advice.clone());
        if (Record { signature: record.signature, ..again }) != *record {
            return Err(ApplyError::Disagrees(record.seq));
        }
        self.fold_answer(record, leaf)?;
        Ok(signature)
    }

    /// Decides a record of the log again. Where the arguments of a call came from is taken from the record: only its
    /// texts, traced again, could say otherwise.
    fn decide_again(&self, record: &Record) -> Result<Result<Decided, AskError>, ApplyError> {
        let at = record.at.max(self.now);
        let draft = match (&record.by, &record.request) {
            (Author::Session(id), Request::Session(request)) => self
                .in_session(*id, at)
                .and_then(|asked| decide_in_session(asked, request))
                .map(|draft| draft.map(|effect| Effect::Session(*id, effect))),
            (Author::Session(id), Request::Call(call)) => self
                .in_session(*id, at)
                .and_then(|asked| call::decide(asked, call))
                .map(|draft| draft.map(|call| Effect::Session(*id, SessionEffect::Call(call)))),
            (Author::Principal(who), Request::Admin(request)) => {
                let authority = Authority::recorded(who.clone());
                self.decide_by_principal(&authority, request, at)
                    .map(|draft| draft.map(Effect::Admin))
            }
            (Author::Session(_), Request::Admin(_))
            | (Author::Principal(_), Request::Session(_) | Request::Call(_)) => {
                return Err(ApplyError::Asker(record.seq));
            }
        };
        let (by, request) = (record.by.clone(), record.request.clone());
        Ok(draft.map(|draft| self.decided(by, at, request, draft)))
    }

    fn before(&self, record: &Record) -> Result<Before, ApplyError> {
        let asker = match &record.by {
            Author::Session(id) => {
                &self.session(*id).ok_or(ApplyError::Session(record.seq))?.who.tenant
            }
            Author::Principal(who) => &who.tenant,
        };
        let tenant = self.whose(&record.request, asker);
        // Asked before the record is folded in: an approval ends the proposal that names the item.
        let held = self.is_holding().then(|| self.changed_item(&record.by, &record.request));
        Ok(Before { tenant, held })
    }

    fn after(&mut self, record: &Record, leaf: Hash, before: Before) {
        let Before { tenant, held } = before;
        self.now = record.at;
        self.log_end.push(record.v, leaf);
        if let Author::Session(id) = record.by
            && let Some(session) = self.sessions.get_mut(&id)
        {
            session.active_at = record.at;
        }
        self.entries.push(Entry { label: record.label, tenant });
        if let Some(changed) = held {
            incident::hold(self, record, changed);
        }
    }

    /// Lets a session name the content that arrived in it with `record`, or that it read.
    fn hold_content(&mut self, record: &Record) {
        let Author::Session(id) = record.by else { return };
        if let Some(content) = brought(record)
            && let Some(session) = self.sessions.get_mut(&id)
        {
            session.context.hold(content);
        }
    }

    /// Whose entry a record is: what an owner brings to a tenant, or decides there, is that tenant's.
    fn whose(&self, request: &Request, asker: &Tenant) -> Tenant {
        let Request::Admin(request) = request else { return asker.clone() };
        let whose = match request {
            AdminRequest::AdoptFile { tenant, .. } | AdminRequest::SetMode { tenant, .. } => tenant,
            AdminRequest::Approve { proposal, .. } | AdminRequest::Deny { proposal } => {
                let pending = self.pending.get(proposal).map(|pending| &pending.namespace.tenant);
                let asked = self.asked_calls.get(proposal).map(|asked| &asked.tenant);
                pending.or(asked).unwrap_or(asker)
            }
            AdminRequest::CreateStore(_)
            | AdminRequest::OpenSession { .. }
            | AdminRequest::EndSession { .. }
            | AdminRequest::AddPrincipal(_)
            | AdminRequest::RevokePrincipal { .. }
            | AdminRequest::SetLimits(_)
            | AdminRequest::SetPolicy { .. }
            | AdminRequest::Adapt(_)
            | AdminRequest::Recover(_)
            | AdminRequest::RotateLogKey(_)
            | AdminRequest::CloseUnsignedFormat(_)
            | AdminRequest::AdoptLedger { .. } => asker,
        };
        whose.clone()
    }

    /// The item that `request` changes when it is done.
    pub fn changed_item(&self, by: &Author, request: &Request) -> Option<(Namespace, Key)> {
        match (by, request) {
            (Author::Session(id), Request::Session(request)) => {
                let tenant = &self.session(*id)?.who.tenant;
                changed_in_session(tenant, request)
            }
            (Author::Principal(_), Request::Admin(request)) => self.changed_by_principal(request),
            (Author::Session(_), Request::Call(_) | Request::Admin(_))
            | (Author::Principal(_), Request::Session(_) | Request::Call(_)) => None,
        }
    }

    fn changed_by_principal(&self, request: &AdminRequest) -> Option<(Namespace, Key)> {
        match request {
            AdminRequest::Approve { proposal, .. } => {
                let pending = self.pending.get(proposal)?;
                Some((pending.namespace.clone(), pending.key.clone()))
            }
            AdminRequest::AdoptFile { tenant, key, .. } => {
                Some((Namespace::shared(tenant.clone()), key.clone()))
            }
            AdminRequest::CreateStore(_)
            | AdminRequest::OpenSession { .. }
            | AdminRequest::EndSession { .. }
            | AdminRequest::Deny { .. }
            | AdminRequest::SetMode { .. }
            | AdminRequest::AddPrincipal(_)
            | AdminRequest::RevokePrincipal { .. }
            | AdminRequest::SetLimits(_)
            | AdminRequest::SetPolicy { .. }
            | AdminRequest::Adapt(_)
            | AdminRequest::Recover(_)
            | AdminRequest::RotateLogKey(_)
            | AdminRequest::CloseUnsignedFormat(_)
            | AdminRequest::AdoptLedger { .. } => None,
        }
    }

    fn fold_in_session(
        &mut self,
        id: SessionId,
        record: &Record,
        request: &SessionRequest,
    ) -> Option<()> {
        match request {
            SessionRequest::CloseSession => session::fold_close(self, record, id),
            SessionRequest::Observe { kind, .. } => observe::fold(self, id, record, *kind),
            SessionRequest::Read { .. } => read::fold(self, id, record),
            SessionRequest::List { .. } => list::fold(self, id, record),
            SessionRequest::Write { scope, key, value, .. } => {
                write::fold(self, id, record, *scope, key, Some(*value))
            }
            SessionRequest::Delete { scope, key } => {
                write::fold(self, id, record, *scope, key, None)
            }
            SessionRequest::Promote { from, key } => promote::fold(self, id, record, *from, key),
            SessionRequest::Route(_) => route::fold(record),
            SessionRequest::Withhold { call, .. } => {
                extract::fold_withhold(self, id, record, *call)
            }
            SessionRequest::Extract(extract) => extract::fold(self, id, record, extract),
            SessionRequest::DeclareIntents(intents) => intent::fold(self, id, record, intents),
            SessionRequest::JoinContext => join_context::fold(self, id, record),
            SessionRequest::RecordBasis(basis) => basis::fold(self, record, basis),
        }
    }

    fn fold_by_principal(
        &mut self,
        who: &PrincipalClaim,
        record: &Record,
        request: &AdminRequest,
    ) -> Option<()> {
        match request {
            AdminRequest::CreateStore(genesis) => genesis::fold(self, record, genesis),
            AdminRequest::OpenSession { session, alias, host, key } => {
                let (alias, host) = (alias.as_deref(), host.as_ref());
                session::fold_open(self, record, who, *session, alias, host, *key)
            }
            AdminRequest::EndSession { session } => session::fold_end(self, record, *session),
            AdminRequest::Approve { proposal, .. } => review::fold_approve(self, record, *proposal),
            AdminRequest::Deny { proposal } => review::fold_denial(self, record, *proposal),
            AdminRequest::SetMode { tenant, scope, key, mode } => {
                let namespace = Namespace { tenant: tenant.clone(), scope: *scope };
                mode::fold(self, record, &namespace, key, *mode)
            }
            AdminRequest::AdoptFile { tenant, key, path, value } => {
                adopt::fold(self, record, tenant, key, path, *value)
            }
            AdminRequest::AddPrincipal(principal) => principals::fold_add(self, record, principal),
            AdminRequest::RevokePrincipal { principal } => {
                principals::fold_revoke(self, record, *principal)
            }
            AdminRequest::SetLimits(limits) => {
                settings::fold(self, record, Setting::Limits(*limits))
            }
            AdminRequest::SetPolicy { version, text } => {
                settings::fold(self, record, Setting::Policy(*version, *text))
            }
            AdminRequest::RotateLogKey(key) => {
                settings::fold(self, record, Setting::LogKey(key.clone()))
            }
            AdminRequest::AdoptLedger { .. } => settings::fold(self, record, Setting::Break),
            AdminRequest::Adapt(adapt) => adapter::fold(self, record, adapt),
            AdminRequest::Recover(recover) => incident::fold(self, record, recover),
            AdminRequest::CloseUnsignedFormat(kept) => migrate::fold(self, record, kept),
        }
    }
}

/// The item that a session of `tenant` changes.
fn changed_in_session(tenant: &Tenant, request: &SessionRequest) -> Option<(Namespace, Key)> {
    match request {
        SessionRequest::Write { scope, key, .. } | SessionRequest::Delete { scope, key } => {
            Some((Namespace { tenant: tenant.clone(), scope: *scope }, key.clone()))
        }
        SessionRequest::Promote { key, .. } => {
            Some((Namespace::shared(tenant.clone()), key.clone()))
        }
        SessionRequest::CloseSession
        | SessionRequest::Observe { .. }
        | SessionRequest::Read { .. }
        | SessionRequest::List { .. }
        | SessionRequest::Route(_)
        | SessionRequest::Withhold { .. }
        | SessionRequest::Extract(_)
        | SessionRequest::DeclareIntents(_)
        | SessionRequest::JoinContext
        | SessionRequest::RecordBasis(_) => None,
    }
}

fn decide_in_session(
    asked: InSession<'_>,
    request: &SessionRequest,
) -> Result<Draft<SessionEffect>, AskError> {
    Ok(match request {
        SessionRequest::CloseSession => session::decide_close(asked).map(SessionEffect::Close),
        SessionRequest::Observe {
            kind, channel, lowered, content, parents, discounted, ..
        } => {
            observe::check_discounted(&asked, discounted)?;
            observe::decide(asked, *kind, *channel, *lowered, *content, parents)?
                .map(SessionEffect::Observe)
        }
        SessionRequest::Read { scope, key } => {
            read::decide(asked, *scope, key).map(SessionEffect::Read)
        }
        SessionRequest::List { shared, after } => {
            list::decide(asked, *shared, after.as_ref()).map(SessionEffect::List)
        }
        SessionRequest::Write { scope, key, value, depends_on, queue } => {
            write::decide(asked, *scope, key, *value, depends_on, *queue)?.map(SessionEffect::Write)
        }
        SessionRequest::Delete { scope, key } => {
            write::decide_removal(asked, *scope, key)?.map(SessionEffect::Write)
        }
        SessionRequest::Promote { from, key } => {
            promote::decide(asked, *from, key)?.map(SessionEffect::Promote)
        }
        SessionRequest::Route(route) => route::decide(asked, route)?.map(SessionEffect::Route),
        SessionRequest::Withhold { call, content } => {
            extract::decide_withhold(asked, *call, *content)?.map(SessionEffect::Withhold)
        }
        SessionRequest::Extract(extract) => {
            extract::decide(asked, extract)?.map(SessionEffect::Extract)
        }
        SessionRequest::DeclareIntents(intents) => {
            intent::decide(asked, intents)?.map(SessionEffect::Declare)
        }
        SessionRequest::JoinContext => join_context::decide(asked)?.map(SessionEffect::Join),
        SessionRequest::RecordBasis(basis) => {
            basis::decide(asked, basis)?.map(SessionEffect::RecordBasis)
        }
    })
}

impl Effect {
    /// Changes the state by what was decided. Returns the call that may run, if it is one.
    fn apply(self, state: &mut State, record: &Record) -> Option<AllowedCall> {
        match self {
            Self::Session(id, SessionEffect::Call(call)) => return call.apply(state, id, record),
            Self::Session(_, SessionEffect::Close(closed)) => closed.apply(state),
            Self::Session(id, SessionEffect::Observe(observed)) => {
                observed.apply(state, id, record);
            }
            Self::Session(id, SessionEffect::Read(read)) => read.apply(state, id, record),
            Self::Session(id, SessionEffect::List(listed)) => listed.apply(state, id, record),
            Self::Session(id, SessionEffect::Write(write)) => write.apply(state, id, record),
            Self::Session(id, SessionEffect::Promote(write)) => write.apply(state, id, record),
            Self::Session(_, SessionEffect::Route(released)) => released.apply(),
            Self::Session(id, SessionEffect::Withhold(withheld)) => {
                withheld.apply(state, id, record);
            }
            Self::Session(id, SessionEffect::Extract(extract)) => extract.apply(state, id, record),
            Self::Session(id, SessionEffect::Declare(intents)) => {
                intents.apply(state, id, record);
            }
            Self::Session(id, SessionEffect::Join(joined)) => joined.apply(state, id, record),
            Self::Session(_, SessionEffect::RecordBasis(basis)) => basis.apply(state, record),
            Self::Admin(AdminEffect::Genesis(genesis)) => genesis.apply(state),
            Self::Admin(AdminEffect::OpenSession(opened)) => opened.apply(state, record),
            Self::Admin(AdminEffect::EndSession(closed)) => closed.apply(state),
            Self::Admin(AdminEffect::Approve(approved)) => approved.apply(state, record),
            Self::Admin(AdminEffect::Deny(denied)) => denied.apply(state),
            Self::Admin(AdminEffect::SetMode(mode)) => mode.apply(state),
            Self::Admin(AdminEffect::AdoptFile(adopted)) => adopted.apply(state, record),
            Self::Admin(AdminEffect::AddPrincipal(added)) => added.apply(state),
            Self::Admin(AdminEffect::RevokePrincipal(revoked)) => revoked.apply(state),
            Self::Admin(AdminEffect::Set(setting)) => setting.apply(state, record),
            Self::Admin(AdminEffect::Adapt(adapt)) => adapt.apply(state, record),
            Self::Admin(AdminEffect::Recover(step)) => step.apply(state, record),
            Self::Admin(AdminEffect::CloseFormat(closed)) => closed.apply(state),
        }
        None
    }
}

/// The content that arrived in a session with `record`, or that it read.
fn brought(record: &Record) -> Option<ContentRef> {
    let value = match &record.request {
        Request::Session(request) => match request {
            SessionRequest::Read { .. } => return read_content(&record.answer),
            SessionRequest::Observe { content, .. } => *content,
            SessionRequest::Write { value, .. }
            | SessionRequest::Withhold { content: value, .. } => Some(*value),
            SessionRequest::Extract(extract) => extract.value.filter(|_| record.answer.is_done()),
            // A session cannot repeat what its model did not read.
            SessionRequest::RecordBasis(_)
            | SessionRequest::DeclareIntents(_)
            | SessionRequest::JoinContext
            | SessionRequest::CloseSession
            | SessionRequest::List { .. }
            | SessionRequest::Delete { .. }
            | SessionRequest::Promote { .. }
            | SessionRequest::Route(_) => None,
        },
        Request::Call(call) => Some(call.arguments),
        Request::Admin(_) => None,
    };
    value.map(|value| value.content(record.seq))
}

const fn read_content(answer: &Answer) -> Option<ContentRef> {
    match answer {
        Answer::Value { content, .. } => Some(*content),
        Answer::Done | Answer::NotFound | Answer::Pending { .. } | Answer::Refused(_) => None,
    }
}
