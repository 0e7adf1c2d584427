//! Sessions: a context that grows, under one credential, and what may be asked in it.

mod opening;
pub mod reading;
pub mod search;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use custody_kernel::adapter::Name;
use custody_kernel::key::Key;
use custody_kernel::memory::item::ContentRef;
use custody_kernel::namespace::{Namespace, Scope};
use custody_kernel::principal::{Authority, PrincipalClaim};
use custody_kernel::record::{Answer, Author, DependencyRef, SessionRequest, Value};
use custody_kernel::state::{AskError, SubmittedRequest};
use custody_log::{EntryId, Seq, SessionId};
use custody_store::clock::random;
use custody_store::{
    Content, Receipt, Store, StoreError, Ticket, Transaction, WorkBatch, content_of,
};

use crate::advice::{self, Advice, Advisor};
use crate::alike;
use crate::anomaly::anomalies;
use crate::ingress::{Arrival, Entered, Observation, RecordedParts, observe_long, observe_parts};
use crate::traced::Traced;
use opening::Opening;
use search::VectorModel;

pub use reading::Reading;

/// The most texts that are compared before the first of them is recorded: each is compared again, in the writer's turn,
/// with those before it.
const MAX_TOGETHER: usize = 32;
/// The most bytes of them, but for the last.
const MAX_BYTES_TOGETHER: usize = 64 << 10;

/// An open session of this process.
///
/// Requests return tickets: waiting makes sure that the answer is durable, dropping the ticket of an
/// observation lets it become durable with the next group.
#[derive(Debug, Clone)]
pub struct Session {
    store: Store,
    id: SessionId,
    who: Arc<PrincipalClaim>,
    opening: Arc<Opening>,
    traced: Arc<Traced>,
    advisor: Option<Arc<dyn Advisor>>,
    vectors: Option<Arc<dyn VectorModel>>,
}

/// A value on its way into memory.
#[derive(Debug, Clone)]
pub enum NewValue {
    /// Text that arrives with the request.
    Text(String),
    /// The content of an entry of this session, which brings that entry's label.
    Entry(Seq),
}

/// A proposed write.
#[derive(Debug, Clone)]
pub struct Write {
    /// In which part of the session's tenant.
    pub scope: Scope,
    /// Under which key.
    pub key: Key,
    /// What.
    pub value: NewValue,
    /// Dependencies besides the whole context. They can only be added.
    pub depends_on: Vec<EntryId>,
    /// If rule 4 refuses it, wait for a reviewer.
    pub queue: bool,
}

impl Write {
    /// A write of `text` that is simply refused when a rule says so.
    pub fn new(scope: Scope, key: Key, text: impl Into<String>) -> Self {
        let value = NewValue::Text(text.into());
        Self { scope, key, value, depends_on: Vec::new(), queue: false }
    }
}

impl Session {
    /// Opens a session for whoever `authority` proves.
    ///
    /// # Errors
    /// [`StoreError`] when it could not be recorded.
    pub fn open(
        store: &Store,
        authority: &Authority,
        alias: Option<String>,
    ) -> Result<Self, StoreError> {
        Self::open_on(store, authority, alias, None)
    }

    /// The same, for a session whose model runs on `host`, where adapters may be loaded into it.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn open_on(
        store: &Store,
        authority: &Authority,
        alias: Option<String>,
        host: Option<Name>,
    ) -> Result<Self, StoreError> {
        let session = Self::opening(store, authority, alias, host);
        session.run_batch(WorkBatch::default());
        session.opened()?;
        Ok(session)
    }

    /// A session for whoever `authority` proves that is opened with the first thing that is asked in it, in the same
    /// turn of the writer. If it cannot be opened, everything that is asked in it fails.
    #[must_use]
    pub fn open_soon(store: &Store, authority: &Authority, alias: Option<String>) -> Self {
        Self::opening(store, authority, alias, None)
    }

    fn opening(
        store: &Store,
        authority: &Authority,
        alias: Option<String>,
        host: Option<Name>,
    ) -> Self {
        let id = SessionId::from_random(random());
        let opener = authority.clone();
        let mut work = WorkBatch::default();
        let ticket = work.add(move |step| step.open_session(opener, id, alias, host));
        Self {
            store: store.clone(),
            id,
            who: Arc::new(authority.who().clone()),
            opening: Arc::new(Opening::new(work, ticket)),
            traced: Arc::default(),
            advisor: None,
            vectors: None,
        }
    }

    /// Waits until the session is opened, if something was asked in it.
    ///
    /// # Errors
    /// Why it was not opened, the first time.
    pub fn opened(&self) -> Result<(), StoreError> {
        self.opening.wait()
    }

    /// Runs `work` as [`Store::run`] does, in this session.
    pub(crate) fn run<T, E, F>(&self, work: F) -> Ticket<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: FnOnce(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
    {
        let mut batch = WorkBatch::default();
        let ticket = batch.add(work);
        self.run_batch(batch);
        ticket
    }

    pub(crate) fn run_batch(&self, batch: WorkBatch) {
        self.opening.run_batch(&self.store, batch);
    }

    /// The same session, in which `advisor` looks at what enters.
    #[must_use]
    pub fn with_advisor(self, advisor: Arc<dyn Advisor>) -> Self {
        Self { advisor: Some(advisor), ..self }
    }

    /// The same session, whose memory is searched by meaning, with the vectors of `model`.
    #[must_use]
    pub fn with_vectors(self, model: Arc<dyn VectorModel>) -> Self {
        Self { vectors: Some(model), ..self }
    }

    pub(crate) fn vectors(&self) -> Option<&dyn VectorModel> {
        self.vectors.as_deref()
    }

    /// What the session's advisor says of a tool's output, if it has one.
    pub(crate) fn advice_on_output(
        &self,
        text: &str,
        structured: Option<&serde_json::Value>,
    ) -> Option<Advice> {
        advice::of_output(self.advisor.as_deref()?, text, structured)
    }

    /// `observation` with what the session's advisor says of it, if it has one.
    pub(crate) fn advised(&self, observation: Observation) -> Observation {
        match &self.advisor {
            Some(advisor) => observation.advised_by(advisor.as_ref()),
            None => observation,
        }
    }

    /// Its id.
    pub const fn id(&self) -> SessionId {
        self.id
    }

    /// The store it is open in.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn traced(&self) -> Arc<Traced> {
        Arc::clone(&self.traced)
    }

    /// Its own namespace.
    pub fn namespace(&self) -> Namespace {
        Namespace::session(self.who.tenant.clone(), self.id)
    }

    /// Records what entered, or what the model produced. One receipt per part it was split into.
    ///
    /// The text is compared with the store before this returns. A long one is recorded and in the index when this
    /// returns.
    pub fn observe(&self, observation: Observation) -> Ticket<Vec<Receipt>> {
        let arrival = self.prepare(observation);
        self.record(arrival)
    }

    /// Records several texts, in order and each as [`Session::observe`] does. Those that stand together are
    /// compared with the store before the first of them is recorded, so that they share a commit and do not wait for
    /// one another's; each is compared with those before it in the writer's turn.
    pub fn observe_all(&self, observations: Vec<Observation>) -> Vec<Ticket<Vec<Receipt>>> {
        let mut tickets = Vec::with_capacity(observations.len());
        let (mut together, mut bytes) = (Vec::new(), 0);
        for observation in observations {
            bytes += observation.text.len();
            together.push(observation);
            if together.len() >= MAX_TOGETHER || bytes >= MAX_BYTES_TOGETHER {
                tickets.extend(self.record_all(self.prepare_all(std::mem::take(&mut together))));
                bytes = 0;
            }
        }
        tickets.extend(self.record_all(self.prepare_all(together)));
        tickets
    }

    /// Compares a text with the store, outside the writer's turn.
    pub(crate) fn prepare(&self, observation: Observation) -> Result<Arrival, StoreError> {
        let prepared = self.prepare_all(vec![observation]).into_iter().next();
        prepared.unwrap_or(Err(AskError::UnknownSession(self.id).into()))
    }

    /// Compares texts with the store, outside the writer's turn.
    pub(crate) fn prepare_all(
        &self,
        observations: Vec<Observation>,
    ) -> Vec<Result<Arrival, StoreError>> {
        if observations.is_empty() {
            return Vec::new();
        }
        self.traced.index();
        let is_opening = self.opening.is_pending();
        let entered = Entered { session: self.id, who: &self.who, is_opening };
        let advised = observations.into_iter().map(|observation| self.advised(observation));
        Arrival::prepare_all(&self.store, entered, advised.collect())
    }

    fn record(&self, arrival: Result<Arrival, StoreError>) -> Ticket<Vec<Receipt>> {
        let mut batch = WorkBatch::default();
        let ticket = self.record_in(&mut batch, arrival, &Arc::default());
        self.run_batch(batch);
        ticket
    }

    /// Records texts in one turn of the writer, but for what a long one needs besides.
    fn record_all(&self, arrivals: Vec<Result<Arrival, StoreError>>) -> Vec<Ticket<Vec<Receipt>>> {
        if arrivals.is_empty() {
            return Vec::new();
        }
        let (mut batch, recorded) = (WorkBatch::default(), Arc::default());
        let arrivals = arrivals.into_iter();
        let tickets =
            arrivals.map(|arrival| self.record_in(&mut batch, arrival, &recorded)).collect();
        self.run_batch(batch);
        tickets
    }

    /// Adds the recording of a text to `batch`, to be done only if it `is_due` when its turn comes, and if the text
    /// is short. Whether it was recorded.
    pub(crate) fn record_if(
        &self,
        batch: &mut WorkBatch,
        arrival: Result<Arrival, StoreError>,
        is_due: Arc<AtomicBool>,
    ) -> Ticket<bool> {
        let traced = self.traced();
        batch.add(move |step| {
            let arrival = arrival?;
            if !is_due.load(Ordering::Relaxed) || arrival.is_long() {
                return Ok(false);
            }
            let text = arrival.text().to_owned();
            note(&traced, &text, observe_parts(step, arrival)?);
            Ok(true)
        })
    }

    /// Adds the recording of a text to `batch`, and counts it in `recorded` when it is done. Before a long one, what is
    /// in the batch goes to the writer.
    pub(crate) fn record_in(
        &self,
        batch: &mut WorkBatch,
        arrival: Result<Arrival, StoreError>,
        recorded: &Arc<AtomicUsize>,
    ) -> Ticket<Vec<Receipt>> {
        let (traced, recorded) = (self.traced(), Arc::clone(recorded));
        match arrival {
            Err(error) => batch.add(move |_| Err(error)),
            Ok(arrival) if arrival.is_long() => {
                self.run_batch(std::mem::take(batch));
                let receipts = observe_long(&self.store, arrival, move |text, parts| {
                    note(&traced, text, parts)
                });
                recorded.fetch_add(usize::from(receipts.is_ok()), Ordering::Relaxed);
                batch.add(move |_| receipts)
            }
            Ok(arrival) => batch.add(move |step| {
                let text = arrival.text().to_owned();
                let receipts = note(&traced, &text, observe_parts(step, arrival)?);
                recorded.fetch_add(1, Ordering::Relaxed);
                Ok(receipts)
            }),
        }
    }

    /// Proposes a write (rules 2–5). The same change of the same item is asked about once: while it waits, its
    /// proposal is named again.
    pub fn write(&self, write: Write) -> Ticket<Receipt> {
        let id = self.id;
        let Write { scope, key, value, depends_on: named, queue } = write;
        // Salting, hashing and looking for phrases need nothing of the store: done here, they do not hold
        // up other writers.
        let arriving = match value {
            NewValue::Text(text) => {
                let advice = anomalies(&text);
                Ok(Content::new(text).map(|content| (content, advice)))
            }
            NewValue::Entry(seq) => Err(seq),
        };
        self.run(move |step| {
            let (value, content, advice) = match arriving {
                Ok(content) => {
                    let (content, advice) = content?;
                    (Value::New(content.commitment()), Some(content), advice)
                }
                Err(seq) => {
                    let content = content_at(step, id, seq)?;
                    let text = step.content(content)?;
                    (Value::Of(content), None, anomalies(&String::from_utf8_lossy(&text)))
                }
            };
            let mut depends_on = Vec::with_capacity(named.len());
            for entry in named {
                depends_on.push(match step.position(entry) {
                    Ok(seq) => DependencyRef::Entry(seq),
                    Err(StoreError::UnknownEntry(_)) => DependencyRef::Missing(entry),
                    Err(error) => return Err(error),
                });
            }
            let before = match &content {
                Some(content) => alike::change(step, id, scope, &key, content.bytes())?,
                None => None,
            };
            let request = SessionRequest::Write { scope, key, value, depends_on, queue };
            if let Some(before) = before {
                let request = SubmittedRequest::Session(id, request.clone());
                if alike::is_question(&step.would_answer(request)?) {
                    return Ok(before);
                }
            }
            step.ask(id, request, content.as_ref(), advice)
        })
    }

    /// Proposes a delete: a write of nothing (rules 2–5).
    pub fn delete(&self, scope: Scope, key: Key) -> Ticket<Receipt> {
        self.ask(SessionRequest::Delete { scope, key })
    }

    /// Proposes to share an item of a session (rules 6 and 7).
    pub fn promote(&self, from: SessionId, key: Key) -> Ticket<Receipt> {
        self.ask(SessionRequest::Promote { from, key })
    }

    /// Closes the session. Its items stay.
    ///
    /// # Errors
    /// [`StoreError::Ask`] when it is closed already.
    pub fn close(self) -> Result<Receipt, StoreError> {
        self.ask(SessionRequest::CloseSession).wait()
    }

    /// Closes the session without waiting until that is durable. What is asked of it from here on is refused.
    pub fn close_soon(self) {
        // One that nothing was asked in is not recorded at all.
        if !self.opening.give_up() {
            // Nobody needs the receipt: one that is closed already stays so.
            drop(self.ask(SessionRequest::CloseSession));
        }
    }

    fn ask(&self, request: SessionRequest) -> Ticket<Receipt> {
        let id = self.id;
        self.run(move |step| step.ask(id, request, None, Vec::new()))
    }
}

/// Notes what was observed for the texts that arguments are traced in.
fn note(traced: &Traced, text: &str, parts: RecordedParts) -> Vec<Receipt> {
    let mut known = traced.known();
    for (range, receipt) in &parts {
        known.note_text(receipt, text, range);
    }
    parts.into_iter().map(|(_, receipt)| receipt).collect()
}

/// The content of an entry of `session` itself. What another session heard or wrote is not its to
/// repeat: rule 9 would else be got round by writing an entry of theirs under a key of one's own.
fn content_at(
    step: &Transaction<'_>,
    session: SessionId,
    seq: Seq,
) -> Result<ContentRef, StoreError> {
    let unknown = || StoreError::from(AskError::UnknownEntry(seq));
    if step.state().label(seq).is_none() {
        return Err(unknown());
    }
    let record = step.record(seq)?;
    if record.by != Author::Session(session) {
        return Err(unknown());
    }
    if matches!(record.answer, Answer::Refused(_)) {
        return Err(StoreError::NoContent(seq));
    }
    content_of(&record).ok_or(StoreError::NoContent(seq))
}
