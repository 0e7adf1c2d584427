//! The texts of each session, indexed on another core while the log is followed. A call that is judged again waits
//! until all that its session read before is indexed.

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{JoinHandle, spawn};

use custody_log::SessionId;
use custody_runtime::SessionTexts;

/// How many changes may wait, so that few texts are in memory.
const WAITING: usize = 64;

type Change = Box<dyn FnOnce(&mut SessionTexts) + Send>;

enum Work {
    Change(SessionId, Change),
    Lend(SessionId, Sender<Box<SessionTexts>>),
    GiveBack(SessionId, Box<SessionTexts>),
    Forget(SessionId),
}

/// The texts of all open sessions.
pub(crate) struct IndexedTexts {
    work: Option<SyncSender<Work>>,
    thread: Option<JoinHandle<()>>,
}

impl IndexedTexts {
    pub(crate) fn new() -> Self {
        let (work, waiting) = sync_channel(WAITING);
        Self { work: Some(work), thread: Some(spawn(move || index(&waiting))) }
    }

    /// Changes the texts of a session, after what was asked for before and before what is asked for next.
    pub(crate) fn change(
        &mut self,
        session: SessionId,
        change: impl FnOnce(&mut SessionTexts) + Send + 'static,
    ) {
        self.send(Work::Change(session, Box::new(change)));
    }

    /// Looks at the texts of a session with all changes.
    pub(crate) fn look<R>(
        &mut self,
        session: SessionId,
        look: impl FnOnce(&SessionTexts) -> R,
    ) -> R {
        let (lend, lent) = channel();
        self.send(Work::Lend(session, lend));
        let Ok(texts) = lent.recv() else { self.fail() };
        let found = look(&texts);
        self.send(Work::GiveBack(session, texts));
        found
    }

    /// Forgets a session that is closed.
    pub(crate) fn forget(&mut self, session: SessionId) {
        self.send(Work::Forget(session));
    }

    fn send(&mut self, work: Work) {
        let is_sent = self.work.as_ref().is_some_and(|to| to.send(work).is_ok());
        if !is_sent {
            self.fail();
        }
    }

    /// Goes on with the panic that ended the thread: nothing else ends it.
    fn fail(&mut self) -> ! {
        let ended = self.thread.take().map(JoinHandle::join);
        resume_unwind(ended.and_then(Result::err).unwrap_or_else(|| Box::new("the thread ended")))
    }
}

impl Drop for IndexedTexts {
    /// Waits for the thread, so that nothing runs on after a verification.
    fn drop(&mut self) {
        self.work.take();
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn index(waiting: &Receiver<Work>) {
    let mut sessions: HashMap<SessionId, Box<SessionTexts>> = HashMap::new();
    for work in waiting {
        match work {
            Work::Change(session, change) => change(sessions.entry(session).or_default()),
            Work::Lend(session, to) => {
                // The receiver is gone only if its thread panicked.
                drop(to.send(sessions.remove(&session).unwrap_or_default()));
            }
            Work::GiveBack(session, texts) => drop(sessions.insert(session, texts)),
            Work::Forget(session) => drop(sessions.remove(&session)),
        }
    }
}
