//! Opening a session together with the first thing that is asked in it, so that both share a commit.

use std::sync::{Mutex, MutexGuard, PoisonError};

use custody_store::{Receipt, Store, StoreError, Ticket, WorkBatch};

/// How far a session is opened.
#[derive(Debug)]
pub(super) struct Opening(Mutex<Progress>);

#[derive(Debug)]
enum Progress {
    /// Nothing was asked in it yet.
    Waiting(WorkBatch, Ticket<Receipt>),
    /// The writer has it.
    Asked(Ticket<Receipt>),
    /// It was opened, or failed to be.
    Over,
}

impl Opening {
    pub(super) fn new(work: WorkBatch, ticket: Ticket<Receipt>) -> Self {
        Self(Mutex::new(Progress::Waiting(work, ticket)))
    }

    /// Gives `batch` to the writer, after the opening if that has not been asked for.
    pub(super) fn run_batch(&self, store: &Store, batch: WorkBatch) {
        // Locked until it is sent, so that nothing else of the session comes before.
        let mut progress = self.lock();
        match std::mem::replace(&mut *progress, Progress::Over) {
            Progress::Waiting(mut work, ticket) => {
                work.append(batch);
                store.run_batch(work);
                *progress = Progress::Asked(ticket);
            }
            before @ (Progress::Asked(_) | Progress::Over) => {
                *progress = before;
                store.run_batch(batch);
            }
        }
    }

    /// Waits until the session is opened, if that was asked for.
    ///
    /// # Errors
    /// Why it was not opened, once.
    pub(super) fn wait(&self) -> Result<(), StoreError> {
        let mut progress = self.lock();
        match std::mem::replace(&mut *progress, Progress::Over) {
            Progress::Asked(ticket) => {
                drop(progress);
                ticket.wait().map(drop)
            }
            before @ (Progress::Waiting(..) | Progress::Over) => {
                *progress = before;
                Ok(())
            }
        }
    }

    /// Whether the session may not be recorded yet.
    pub(super) fn is_pending(&self) -> bool {
        !matches!(*self.lock(), Progress::Over)
    }

    /// Gives up a session that nothing was asked in. Whether it was one.
    pub(super) fn give_up(&self) -> bool {
        let mut progress = self.lock();
        let is_new = matches!(*progress, Progress::Waiting(..));
        if is_new {
            *progress = Progress::Over;
        }
        is_new
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
