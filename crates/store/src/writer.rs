//! The one thread that writes: it gathers what is waiting into a group, decides each request in turn,
//! and makes the group durable at once.
//!
//! Order: commit, sync, head, sync, acknowledge. A kill between any two of these loses nothing that
//! was acknowledged.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use custody_kernel::key::Key;
use custody_kernel::namespace::Namespace;
use custody_keys::KeyFolder;
use custody_log::{Seq, StoreId, key_name};
use ed25519_dalek::SigningKey;
use parking_lot::RwLock;
use rusqlite::Connection;

use crate::clock::{Clock, moment};
use crate::connection::Place;
use crate::error::StoreError;
use crate::frozen::Frozen;
use crate::head::Head;
use crate::ledger::{Held, Ledger};
use crate::readers::Readers;
use crate::schema::{self, sql};
use crate::session_keys::SessionKeys;
use crate::transaction::Transaction;
use crate::view::View;
use crate::{follow, open};

/// The most requests in one group, but for those that came together.
const MAX_GROUP: usize = 1024;

/// How long to wait for the writers of the last group to come back with their next request, as a
/// share of what a lone commit costs anyway.
const GATHER: Duration = Duration::from_micros(60);

/// What the handles of a store and its writer share.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) keys: KeyFolder,
    pub(crate) place: Place,
    /// `parking_lot`'s locks are fair. With the standard library's, a reader that locks again and again kept the writer
    /// waiting for seconds.
    pub(crate) ledger: RwLock<Held>,
    pub(crate) readers: Readers,
    pub(crate) fingerprint_key: OnceLock<[u8; 16]>,
    pub(crate) session_keys: SessionKeys,
    pub(crate) unacknowledged: u64,
    /// Whether the last group that was to be written was not.
    pub(crate) is_failing: AtomicBool,
    /// Set when nothing is written: what has to stay while the database is read.
    pub(crate) frozen: Option<Frozen>,
}

/// Work for the writer: runs inside the group's transaction, then hears how the group ended.
pub(crate) trait Job: Send {
    /// Runs the work. Returns an error only when the group must be undone.
    fn run(&mut self, transaction: &mut Transaction<'_>) -> Result<(), ()>;
    /// Tells whoever waits.
    fn finish(self: Box<Self>, outcome: Result<(), Arc<StoreError>>);
}

/// Work that reaches the writer at once: it shares a commit, is done in order, and nothing that others ask comes in
/// between. Each piece succeeds or fails by itself, as if it had been given alone.
#[derive(Default)]
pub struct WorkBatch {
    jobs: Vec<Box<dyn Job>>,
}

impl WorkBatch {
    /// Adds work after what is there.
    pub fn add<T, E, F>(&mut self, work: F) -> Ticket<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: FnOnce(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
    {
        let (job, ticket) = Work::new(work);
        self.jobs.push(Box::new(job));
        ticket
    }

    /// Adds the work of another batch after what is there.
    pub fn append(&mut self, mut other: Self) {
        self.jobs.append(&mut other.jobs);
    }

    pub(crate) fn into_jobs(self) -> Vec<Box<dyn Job>> {
        self.jobs
    }
}

impl std::fmt::Debug for WorkBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WorkBatch({})", self.jobs.len())
    }
}

/// The answer of one piece of work, once it is durable.
#[derive(Debug)]
pub struct Ticket<T, E = StoreError> {
    receiver: Receiver<Finished<T, E>>,
}

/// What work ended with, and how long it ran in its turn of the writer.
type Finished<T, E> = (Result<T, E>, Duration);

thread_local! {
    static COMMIT_WAIT: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// How long this thread has waited for commits since it began: in [`Ticket::wait`], for turns of the writer and for the
/// disk, without the time that the work itself ran; and before reading, for the group that is being committed. For logs
/// and measurements; no decision depends on it.
pub fn commit_wait() -> Duration {
    COMMIT_WAIT.get()
}

/// Counts a wait for a commit.
pub(crate) fn add_commit_wait(waited: Duration) {
    COMMIT_WAIT.set(COMMIT_WAIT.get() + waited);
}

impl<T, E: From<StoreError>> Ticket<T, E> {
    /// Waits until the work is durable, or is known to have changed nothing.
    ///
    /// # Errors
    /// Why it changed nothing.
    pub fn wait(self) -> Result<T, E> {
        let asked = moment();
        let finished = self.receiver.recv();
        let ran = finished.as_ref().map_or(Duration::ZERO, |(_, ran)| *ran);
        add_commit_wait(asked.elapsed().saturating_sub(ran));
        finished.map_err(|_| StoreError::Closed)?.0
    }
}

struct Work<T, E, F> {
    work: Option<F>,
    result: Option<Result<T, E>>,
    ran: Duration,
    sender: SyncSender<Finished<T, E>>,
}

impl<T, E, F> Work<T, E, F> {
    fn new(work: F) -> (Self, Ticket<T, E>) {
        let (sender, receiver) = sync_channel(1);
        (Self { work: Some(work), result: None, ran: Duration::ZERO, sender }, Ticket { receiver })
    }
}

impl<T, E, F> Job for Work<T, E, F>
where
    T: Send,
    E: From<StoreError> + Send,
    F: FnOnce(&mut Transaction<'_>) -> Result<T, E> + Send,
{
    fn run(&mut self, transaction: &mut Transaction<'_>) -> Result<(), ()> {
        let Some(work) = self.work.take() else { return Ok(()) };
        let (before, begun) = (transaction.ledger.len(), moment());
        // A panic ends this work, not the writer that others wait for.
        let worked = catch_unwind(AssertUnwindSafe(|| work(transaction)));
        self.ran = begun.elapsed();
        let Ok(result) = worked else { return Err(()) };
        // An error before anything was written concerns nobody else.
        let undo = result.is_err() && transaction.ledger.len() != before;
        self.result = Some(result);
        if undo { Err(()) } else { Ok(()) }
    }

    fn finish(self: Box<Self>, outcome: Result<(), Arc<StoreError>>) {
        let result = match (outcome, self.result) {
            (_, Some(Err(own))) => Err(own),
            (Ok(()), Some(result)) => result,
            (Err(cause), _) => Err(StoreError::of_group(&cause).into()),
            (Ok(()), None) => Err(StoreError::HalfWay.into()),
        };
        // Nobody waits for an observation; that is no failure.
        let _ = self.sender.send((result, self.ran));
    }
}

/// What a group that did not fail has written.
#[derive(Debug, Clone, Copy)]
enum Written {
    Records,
    /// No record, so that nothing is known of whether one could be.
    Nothing,
}

pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) connection: Connection,
    pub(crate) head: Head,
    pub(crate) signer: SigningKey,
    pub(crate) store: StoreId,
    /// Set while an owner adopts a store whose head was lost: the next head replaces whatever is there.
    pub(crate) adopting: bool,
}

impl Writer {
    /// Serves until every handle of the store is gone.
    pub(crate) fn serve(mut self, jobs: &Receiver<Vec<Box<dyn Job>>>) {
        let mut expected = 1;
        while let Some(group) = gather(jobs, expected) {
            expected = group.len();
            self.commit(group);
        }
    }

    fn commit(&mut self, mut group: Vec<Box<dyn Job>>) {
        let shared = Arc::clone(&self.shared);
        // Held until the group is durable, so that nobody sees what may still be undone.
        let mut held = shared.ledger.write();
        let seen = held.seen();
        let outcome = self.try_commit(&mut held, &mut group).map_err(|error| {
            tracing::warn!(%error, "a group of requests failed");
            if matches!(error, StoreError::HalfWay) {
                *held = Held::Lost(seen);
            } else if !matches!(error, StoreError::Unacknowledged(_)) {
                // Else all of it is in the database; just its head is missing.
                held.forget_since(seen);
            }
            Arc::new(error)
        });
        drop(held);
        match &outcome {
            Ok(Written::Records) => shared.is_failing.store(false, Ordering::Relaxed),
            Ok(Written::Nothing) => {}
            Err(_) => shared.is_failing.store(true, Ordering::Relaxed),
        }
        for job in group {
            job.finish(outcome.as_ref().map(|_| ()).map_err(Arc::clone));
        }
    }

    fn try_commit(
        &mut self,
        held: &mut Held,
        group: &mut [Box<dyn Job>],
    ) -> Result<Written, StoreError> {
        let slots = if self.adopting { None } else { Some(self.head.slots()?) };
        let transaction = rusqlite::Transaction::new_unchecked(
            &self.connection,
            rusqlite::TransactionBehavior::Immediate,
        )?;
        self.shared.place.check()?;
        schema::check_tables(&transaction)?;
        let ledger = open::bring_up(&transaction, slots.as_ref(), held)?;
        let before = ledger.len();
        let mut touched = Vec::new();
        let mut next_signer = None;
        let mut indexed = false;
        for job in group.iter_mut() {
            let mut step = Transaction {
                ledger,
                connection: &transaction,
                clock: &self.shared.clock,
                session_keys: &self.shared.session_keys,
                touched: &mut touched,
                indexed: &mut indexed,
                next_signer: &mut next_signer,
            };
            job.run(&mut step).map_err(|()| StoreError::HalfWay)?;
        }
        if ledger.len() == before {
            if indexed {
                transaction.commit()?;
            }
            return Ok(Written::Nothing);
        }
        if let Some(signer) = next_signer {
            self.signer = signer;
        } else if !ledger.is_signed_by(&self.signer) {
            // Another process rotated the log key, and may not have put the new one in force yet.
            let signer = self.shared.keys.signer(|key| ledger.is_signed_by(key))?;
            self.signer =
                signer.ok_or_else(|| StoreError::ForeignKeys(self.shared.keys.path().into()))?;
        }
        let note = ledger.checkpoint(self.store).sign(&self.signer, &key_name());
        transaction
            .prepare_cached("INSERT OR REPLACE INTO checkpoints (size, note) VALUES (?1, ?2)")?
            .execute((sql(Seq(ledger.len())), &note))?;
        // Only what stands between the head and the end is needed to accept a tail.
        transaction
            .prepare_cached("DELETE FROM checkpoints WHERE size < ?1")?
            .execute([sql(Seq(before))])?;
        transaction.commit()?;
        let written =
            if self.adopting { self.head.replace(&note) } else { self.head.advance(&note, ledger) };
        written.map_err(|cause| StoreError::Unacknowledged(Arc::new(cause)))?;
        self.adopting = false;
        self.follow_files(ledger, &touched);
        Ok(Written::Records)
    }

    /// Brings watched files up to the items that changed. A file that cannot be written is reported by
    /// whoever checks it next; the record is what counts.
    fn follow_files(&self, ledger: &Ledger, touched: &[(Namespace, Key)]) {
        for (namespace, key) in touched {
            let followed = follow::follow(View::new(&self.connection, ledger), namespace, key);
            if let Err(error) = followed {
                tracing::warn!(%namespace, %key, %error, "a watched file could not follow its item");
            }
        }
    }
}

/// Waits for work, then takes what else is waiting. When the last group had many writers, gives them
/// a moment to come back: a commit costs the same for one as for all of them.
fn gather(jobs: &Receiver<Vec<Box<dyn Job>>>, expected: usize) -> Option<Vec<Box<dyn Job>>> {
    let mut group = jobs.recv().ok()?;
    while group.len() < MAX_GROUP {
        match jobs.try_recv() {
            Ok(more) => group.extend(more),
            Err(_) if group.len() >= expected => break,
            Err(_) => match jobs.recv_timeout(GATHER) {
                Ok(more) => group.extend(more),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            },
        }
    }
    Some(group)
}
