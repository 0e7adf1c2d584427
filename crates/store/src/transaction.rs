//! One atomic step: load, decide, commit, audit.
//!
//! Everything that changes a store passes through [`Transaction::ask`] or [`Transaction::administer`]. Part of the
//! trusted base.

use custody_kernel::actions::call::AllowedCall;
use custody_kernel::adapter::Name;
use custody_kernel::advice::Advice;
use custody_kernel::key::Key;
use custody_kernel::label::Label;
use custody_kernel::memory::item::{ContentRef, Version};
use custody_kernel::monitor::{Committed, Decided};
use custody_kernel::namespace::Namespace;
use custody_kernel::principal::Authority;
use custody_kernel::record::{AdminRequest, Answer, Author, Record, Request, SessionRequest};
use custody_kernel::state::{State, SubmittedRequest, Watched};
use custody_kernel::tool::call::ProposedCall;
use custody_log::{Digest, EntryId, Seq, SessionId, Timestamp};
use ed25519_dalek::SigningKey;
use rusqlite::Connection;

use crate::clock::{Clock, random};
use crate::content::{Content, is_kept};
use crate::error::StoreError;
use crate::ledger::Ledger;
use crate::schema::sql;
use crate::session_keys::SessionKeys;
use crate::view::View;
use crate::{index, read};

/// What came of a request, once it is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The entry it became; also the decision id.
    pub id: EntryId,
    /// Where that entry stands.
    pub seq: Seq,
    /// When it was decided.
    pub at: Timestamp,
    /// The answer.
    pub answer: Answer,
    /// What is known of the entry.
    pub label: Label,
}

/// A step in progress. Sees everything decided before it, and nothing half-done.
pub struct Transaction<'a> {
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) connection: &'a Connection,
    pub(crate) clock: &'a Clock,
    pub(crate) session_keys: &'a SessionKeys,
    /// Watched items that changed and whose files must follow.
    pub(crate) touched: &'a mut Vec<(Namespace, Key)>,
    /// Set when an index was written although no record was.
    pub(crate) indexed: &'a mut bool,
    /// The key that signs from here on, when a request rotates it.
    pub(crate) next_signer: &'a mut Option<SigningKey>,
}

impl Transaction<'_> {
    /// The state that requests are decided against.
    pub fn state(&self) -> &State {
        self.ledger.state()
    }

    /// Decides what `session` asks and writes the outcome, whatever it is: accepted, pending or refused.
    ///
    /// `content` is kept unless the request is refused; the arguments of a refused call are. `advice` is stored
    /// beside the decision and read by none.
    ///
    /// # Errors
    /// [`StoreError::Ask`] when the request speaks of something that does not exist; nothing is
    /// written then. Any other error undoes the whole group.
    pub fn ask(
        &mut self,
        session: SessionId,
        request: SessionRequest,
        content: Option<&Content>,
        advice: Vec<Advice>,
    ) -> Result<Receipt, StoreError> {
        if depends_on_context(&request) {
            self.join_context(session, self.clock.now())?;
        }
        let decided = self.decide(SubmittedRequest::Session(session, request))?;
        Ok(self.commit(decided, content, advice)?.0)
    }

    /// Records one entry that stands for the context of `session`, where what is produced now would name too many.
    fn join_context(&mut self, session: SessionId, at: Timestamp) -> Result<(), StoreError> {
        if self.state().session(session).is_some_and(|open| open.context.is_wide()) {
            let join = SubmittedRequest::Session(session, SessionRequest::JoinContext);
            let decided = self.ledger.state().decide(join, at)?;
            self.commit(decided, None, Vec::new())?;
        }
        Ok(())
    }

    /// Decides what a principal asks and writes the outcome, as [`Transaction::ask`] does.
    ///
    /// # Errors
    /// As [`Transaction::ask`].
    pub fn administer(
        &mut self,
        authority: Authority,
        request: AdminRequest,
        content: Option<&Content>,
        advice: Vec<Advice>,
    ) -> Result<Receipt, StoreError> {
        let decided = self.decide(SubmittedRequest::Admin(authority, request))?;
        Ok(self.commit(decided, content, advice)?.0)
    }

    /// Opens a session for `authority`, under a key that this process makes for it. Only this process can then record
    /// anything in it.
    ///
    /// # Errors
    /// As [`Transaction::ask`].
    pub fn open_session(
        &mut self,
        authority: Authority,
        session: SessionId,
        alias: Option<String>,
        host: Option<Name>,
    ) -> Result<Receipt, StoreError> {
        let key = Some(self.session_keys.make(session));
        let request = AdminRequest::OpenSession { session, alias, host, key };
        self.administer(authority, request, None, Vec::new())
    }

    /// Decides one tool call, which was judged at `at`, and writes the outcome, as [`Transaction::ask`] does. Returns
    /// the witness beside it, if the call may run.
    ///
    /// # Errors
    /// As [`Transaction::ask`].
    pub fn ask_call(
        &mut self,
        session: SessionId,
        call: ProposedCall,
        at: Timestamp,
        content: Option<&Content>,
    ) -> Result<(Receipt, Option<AllowedCall>), StoreError> {
        self.join_context(session, at)?;
        let call = SubmittedRequest::Call(session, Box::new(call));
        let decided = self.ledger.state().decide(call, at)?;
        self.commit(decided, content, Vec::new())
    }

    /// How a request would be answered now. Writes nothing.
    ///
    /// # Errors
    /// As [`Transaction::ask`].
    pub fn would_answer(&self, request: SubmittedRequest) -> Result<Answer, StoreError> {
        Ok(self.decide(request)?.answer().clone())
    }

    fn decide(&self, request: SubmittedRequest) -> Result<Decided, StoreError> {
        Ok(self.ledger.state().decide(request, self.clock.now())?)
    }

    /// The time that a request made now is decided at.
    pub fn now(&self) -> Timestamp {
        self.clock.now().max(self.state().now())
    }

    fn commit(
        &mut self,
        decided: Decided,
        content: Option<&Content>,
        advice: Vec<Advice>,
    ) -> Result<(Receipt, Option<AllowedCall>), StoreError> {
        self.note_watched(decided.by(), decided.request(), decided.answer());
        let before = self.note_recovered(decided.request());
        let id = EntryId::from_random(random());
        let session_key = self.session_key(decided.by())?;
        let (committed, bytes) = self.ledger.commit(decided, id, advice, session_key.as_ref())?;
        self.insert(&committed, &bytes, content)?;
        self.follow_recovery(before);
        let (record, allowed) = committed.into_parts();
        if let (Author::Session(session), Request::Session(SessionRequest::CloseSession)) =
            (&record.by, &record.request)
        {
            self.session_keys.forget(*session);
        }
        let Record { seq, at, answer, label, .. } = record;
        Ok((Receipt { id, seq, at, answer, label }, allowed))
    }

    /// The key that signs what `by` asks, if that is a session.
    fn session_key(&self, by: &Author) -> Result<Option<SigningKey>, StoreError> {
        let Author::Session(session) = by else { return Ok(None) };
        let key = self.session_keys.get(*session);
        key.map(Some).ok_or(StoreError::OtherProcess(*session))
    }

    /// A record, checked against the signed log.
    ///
    /// # Errors
    /// [`StoreError::Tampered`] when it is not the one that was signed.
    pub fn record(&self, seq: Seq) -> Result<Record, StoreError> {
        read::record(self.connection, self.ledger, seq)
    }

    /// A content, checked against its commitment.
    ///
    /// # Errors
    /// [`StoreError::Tampered`] when it is not the one that was recorded.
    pub fn content(&self, content: ContentRef) -> Result<Vec<u8>, StoreError> {
        read::content(self.connection, self.ledger.state(), content)
    }

    /// The same, whether it is in quarantine or not.
    ///
    /// # Errors
    /// [`StoreError::Purged`] when it was destroyed, or as [`Transaction::content`].
    pub fn any_content(&self, content: ContentRef) -> Result<Vec<u8>, StoreError> {
        read::any_content(self.connection, self.ledger.state(), content)
    }

    /// The position of an entry.
    ///
    /// # Errors
    /// [`StoreError::UnknownEntry`] when the store does not hold it.
    pub fn position(&self, id: EntryId) -> Result<Seq, StoreError> {
        read::position(self.connection, self.ledger, id)
    }

    /// Brings the indexes of texts up to the record, one step. Returns whether more is left to do.
    pub fn index_texts(&mut self) -> Result<bool, StoreError> {
        *self.indexed = true;
        index::go_on(self.connection, self.ledger.state())
    }

    /// Keeps vectors that `model` made. Those of texts that were destroyed meanwhile are dropped.
    pub fn keep_vectors(
        &mut self,
        model: Digest,
        rows: &[(Seq, Vec<u8>)],
    ) -> Result<(), StoreError> {
        *self.indexed = true;
        let mut insert = self.connection.prepare_cached(
            "INSERT OR IGNORE INTO vectors (model, arrival, vector) VALUES (?1, ?2, ?3)",
        )?;
        let kept = rows.iter().filter(|(entry, _)| !self.state().is_purged(*entry));
        for (entry, vector) in kept {
            insert.execute((model.0, sql(*entry), vector))?;
        }
        Ok(())
    }

    /// The store as it is within this step.
    pub const fn view(&self) -> View<'_> {
        View::new(self.connection, self.ledger)
    }

    /// Deletes the text that arrived with `entry`, and every row that was made from it.
    pub fn destroy(&self, entry: Seq, text: &[u8]) -> Result<(), StoreError> {
        // Recovery's own texts are in no index, and taking out what was never put in would damage it.
        if !self.state().is_of_recovery(entry) {
            index::forget(self.connection, entry, text)?;
        }
        self.connection
            .prepare_cached("DELETE FROM contents WHERE arrival = ?1")?
            .execute([sql(entry)])?;
        Ok(())
    }

    /// Signs the checkpoint of this group, and all after it, with `signer`.
    pub(crate) fn sign_with(&mut self, signer: SigningKey) {
        *self.next_signer = Some(signer);
    }

    fn note_watched(&mut self, by: &Author, request: &Request, answer: &Answer) {
        let state = self.ledger.state();
        if *answer != Answer::Done || state.watched().next().is_none() {
            return;
        }
        let changed = state.changed_item(by, request);
        // An adopted file is on disk already.
        let adopted = matches!(request, Request::Admin(AdminRequest::AdoptFile { .. }));
        if let Some((namespace, key)) = changed.filter(|_| !adopted)
            && state.watched_item(&namespace, &key).is_some()
        {
            self.touched.push((namespace, key));
        }
    }

    /// What watched items hold before a step of an incident, which may change any of them.
    fn note_recovered(&self, request: &Request) -> Vec<(Namespace, Key, Option<Version>)> {
        let state = self.ledger.state();
        if !matches!(request, Request::Admin(AdminRequest::Recover(_))) {
            return Vec::new();
        }
        let current = |namespace: &Namespace, key: &Key| state.item(namespace, key)?.current;
        let noted = |watched: &Watched| {
            let Watched { namespace, key, .. } = watched.clone();
            let version = current(&namespace, &key);
            (namespace, key, version)
        };
        state.watched().map(noted).collect()
    }

    fn follow_recovery(&mut self, before: Vec<(Namespace, Key, Option<Version>)>) {
        let state = self.ledger.state();
        for (namespace, key, version) in before {
            if state.item(&namespace, &key).and_then(|item| item.current) != version {
                self.touched.push((namespace, key));
            }
        }
    }

    fn insert(
        &self,
        committed: &Committed,
        bytes: &[u8],
        content: Option<&Content>,
    ) -> Result<(), StoreError> {
        let record = committed.record();
        let seq = sql(record.seq);
        let mut log = self
            .connection
            .prepare_cached("INSERT INTO log (seq, id, record) VALUES (?1, ?2, ?3)")?;
        log.execute((seq, record.id.as_bytes(), bytes))?;
        let mut edge =
            self.connection.prepare_cached("INSERT INTO edges (parent, child) VALUES (?1, ?2)")?;
        for parent in &record.parents {
            edge.execute((sql(*parent), seq))?;
        }
        if let Some(content) = content.filter(|_| is_kept(record)) {
            let mut insert = self.connection.prepare_cached(
                "INSERT INTO contents (arrival, salt, bytes) VALUES (?1, ?2, ?3)",
            )?;
            insert.execute((seq, content.salt, &content.bytes))?;
        }
        Ok(())
    }
}

/// Whether what is asked is produced out of the whole context. The later parts of a text are not: they stand beside the
/// first.
const fn depends_on_context(request: &SessionRequest) -> bool {
    match request {
        SessionRequest::Observe { kind, part, .. } => {
            let is_later_part = matches!(part, Some(part) if part.start > 0);
            kind.is_produced() && !is_later_part
        }
        SessionRequest::Write { .. }
        | SessionRequest::Delete { .. }
        | SessionRequest::Promote { .. }
        | SessionRequest::DeclareIntents(_) => true,
        SessionRequest::CloseSession
        | SessionRequest::Read { .. }
        | SessionRequest::List { .. }
        | SessionRequest::Route(_)
        | SessionRequest::Withhold { .. }
        | SessionRequest::Extract(_)
        | SessionRequest::JoinContext
        | SessionRequest::RecordBasis(_) => false,
    }
}
