//! A store that is open: created, opened, adopted, and asked.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, OnceLock};

use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::Tenant;
use custody_kernel::principal::{Authority, Principal, Role};
use custody_kernel::record::{AdminRequest, Genesis};
use custody_keys::{HumanKey, KeyFolder, fresh_key};
use custody_log::{PrincipalId, StoreId};
use ed25519_dalek::SigningKey;
use parking_lot::RwLock;
use rusqlite::{Connection, OpenFlags};

use crate::clock::{Clock, random};
use crate::connection::{Place, connect};
use crate::credentials::{checked_name, prove};
use crate::error::{OpenError, StoreError, Tampering};
use crate::frozen::Frozen;
use crate::head::{Head, Slots};
use crate::ledger::{Held, Ledger};
use crate::open;
use crate::readers::Readers;
use crate::session_keys::SessionKeys;
use crate::transaction::{Receipt, Transaction};
use crate::writer::{Job, Shared, Ticket, WorkBatch, Writer};

/// Where a store and its keys are.
#[derive(Debug, Clone)]
pub struct Paths {
    /// The database file.
    pub store: PathBuf,
    /// The folder of the signed head and the keys; never inside the store's own folder by default.
    pub keys: PathBuf,
}

/// An open store. Clones share it; it closes when the last one is dropped.
#[derive(Clone)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
    writer: Arc<WriterThread>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({})", self.shared.place.path.display())
    }
}

/// Ends the writer when the last handle goes.
struct WriterThread {
    jobs: Option<Sender<Vec<Box<dyn Job>>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        drop(self.jobs.take());
        // The last handle may have been part of the writer's own work, which cannot wait for itself.
        let itself = std::thread::current().id();
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != itself) {
            // A panic of the writer has already reached whoever waited for it.
            let _ = thread.join();
        }
    }
}

/// What opening or founding a store puts together.
struct Parts {
    connection: Connection,
    head: Head,
    ledger: Ledger,
    signer: SigningKey,
    store: StoreId,
    unacknowledged: u64,
    adopting: bool,
}

impl Store {
    /// Founds a store: makes its log key, registers its owner, and signs the first head. A founding
    /// that was interrupted can be begun again.
    ///
    /// # Errors
    /// [`OpenError::KeysExist`] when the folder holds the keys of a store already.
    pub fn create(
        paths: &Paths,
        owner: &str,
        owner_key: &HumanKey,
        limits: Limits,
        clock: Clock,
    ) -> Result<Self, OpenError> {
        let keys = KeyFolder::new(&paths.keys);
        let name = checked_name(owner)?;
        let _alone = keys.lock()?;
        if let Some(head) = Head::find(&keys.head())?
            && !head.slots()?.is_blank()
        {
            return Err(OpenError::KeysExist(paths.keys.clone()));
        }
        let connection = connect(&paths.store, OpenFlags::SQLITE_OPEN_CREATE)?;
        if !open::load(&connection)?.state().is_empty() {
            return Err(StoreError::NoHead(paths.keys.clone()).into());
        }
        let store = StoreId::from_random(random());
        let signer = fresh_key();
        keys.replace_log_key(&signer)?;
        let owner = Principal {
            id: PrincipalId::from_random(random()),
            name,
            role: Role::Owner,
            tenant: Tenant::main(),
            public_key: Some(owner_key.public_key()),
            token_hash: None,
        };
        let authority = prove(owner_key, &owner)?;
        let log_key = owner_key.certify(store, &signer);
        let genesis =
            AdminRequest::CreateStore(Box::new(Genesis { store, owner, log_key, limits }));
        let parts = Parts {
            connection,
            head: Head::create(&keys.head())?,
            ledger: Ledger::default(),
            signer,
            store,
            unacknowledged: 0,
            adopting: false,
        };
        let this = Self::start(paths, parts, clock)?;
        this.ask(&authority, genesis)?;
        Ok(this)
    }

    /// Opens a store and verifies all of it against its signed head.
    ///
    /// # Errors
    /// [`StoreError::Tampered`] when the two disagree; [`OpenError::NoKeys`] when there is no store.
    pub fn open(paths: &Paths, clock: Clock) -> Result<Self, OpenError> {
        let keys = KeyFolder::new(&paths.keys);
        let mut head = find_head(paths, &keys)?;
        // The head is read before the log: a log that grows in between can only be ahead of it.
        let slots = head.slots()?;
        let connection = match connect(&paths.store, OpenFlags::empty()) {
            Err(_) if !paths.store.exists() => return Err(vanished(paths, &slots)),
            connection => connection?,
        };
        let snapshot = open::snapshot(&connection)?;
        let ledger = open::load(&snapshot)?;
        if ledger.state().is_empty() && slots.is_blank() {
            return Err(OpenError::NoKeys(paths.keys.clone()));
        }
        let unacknowledged = open::verify_head(&snapshot, &ledger, &slots)?;
        if slots.is_blank()
            && let Some(note) = open::last_note(&snapshot, &ledger)?
        {
            // The founding was interrupted before its head was written.
            head.advance(&note, &ledger)?;
        }
        drop(snapshot);
        let store = ledger.state().store().ok_or(Tampering::MissingRecord(0))?;
        let signer = signer_of(&keys, &ledger)?;
        let parts =
            Parts { connection, head, ledger, signer, store, unacknowledged, adopting: false };
        Self::start(paths, parts, clock)
    }

    /// Opens a store that cannot or must not be written, and verifies all of it against its signed head:
    /// nothing is changed or made in its folder or in that of its keys, and the log key is not needed. What is
    /// asked of it to write fails with [`StoreError::ReadOnly`]. What another process writes meanwhile may make
    /// reading fail.
    ///
    /// # Errors
    /// As [`Store::open`], and [`StoreError::Older`] when the database has an older schema.
    pub fn open_read_only(paths: &Paths, clock: Clock) -> Result<Self, OpenError> {
        let keys = KeyFolder::new(&paths.keys);
        let head = find_head(paths, &keys)?;
        let slots = head.slots()?;
        if !paths.store.exists() {
            return Err(vanished(paths, &slots));
        }
        let frozen = Frozen::of(&paths.store)?;
        let connection = frozen.connect()?;
        let snapshot = open::snapshot(&connection)?;
        let ledger = open::load(&snapshot)?;
        if ledger.state().is_empty() && slots.is_blank() {
            return Err(OpenError::NoKeys(paths.keys.clone()));
        }
        let unacknowledged = open::verify_head(&snapshot, &ledger, &slots)?;
        drop(snapshot);
        let shared = Arc::new(Shared {
            clock,
            keys,
            place: Place::of(&paths.store),
            ledger: RwLock::new(Held::Ledger(Box::new(ledger))),
            session_keys: SessionKeys::default(),
            readers: Readers::one((connection, head)),
            fingerprint_key: OnceLock::new(),
            unacknowledged,
            is_failing: AtomicBool::new(false),
            frozen: Some(frozen),
        });
        Ok(Self { shared, writer: Arc::new(WriterThread { jobs: None, thread: None }) })
    }

    /// Whether it was opened for reading only.
    pub fn is_read_only(&self) -> bool {
        self.shared.frozen.is_some()
    }

    /// Goes on from a store whose head was lost, or which was deliberately restored from a copy. The
    /// break stands in the log, and is shown, from then on.
    ///
    /// # Errors
    /// When the log is not signed to its own end, or `owner_key` is not its owner's.
    pub fn adopt(
        paths: &Paths,
        owner_key: &HumanKey,
        reason: &str,
        clock: Clock,
    ) -> Result<(Self, Receipt), OpenError> {
        let keys = KeyFolder::new(&paths.keys);
        let connection = connect(&paths.store, OpenFlags::empty())?;
        let _alone = keys.lock()?;
        let snapshot = open::snapshot(&connection)?;
        let ledger = open::load(&snapshot)?;
        open::verify_tail(&snapshot, &ledger, 0)?;
        drop(snapshot);
        let state = ledger.state();
        let store = state.store().ok_or(Tampering::MissingRecord(0))?;
        let owner = state.owner().ok_or(Tampering::MissingRecord(0))?;
        let authority = prove(owner_key, owner)?;
        let head = match Head::find(&keys.head())? {
            Some(head) => head,
            None => Head::create(&keys.head())?,
        };
        let head_size = head.slots()?.claimed_size();
        let (signer, rotation) = match signer_of(&keys, &ledger) {
            Ok(signer) => (signer, None),
            Err(_) => {
                let signer = fresh_key();
                let certified = owner_key.certify(store, &signer);
                keys.replace_log_key(&signer)?;
                (signer, Some(AdminRequest::RotateLogKey(certified)))
            }
        };
        let parts =
            Parts { connection, head, ledger, signer, store, unacknowledged: 0, adopting: true };
        let this = Self::start(paths, parts, clock)?;
        let adoption = AdminRequest::AdoptLedger { reason: reason.to_owned(), head_size };
        let ticket = this.run(move |transaction| {
            if let Some(rotation) = rotation {
                transaction.administer(authority.clone(), rotation, None, Vec::new())?;
            }
            transaction.administer(authority, adoption, None, Vec::new())
        });
        let receipt = ticket.wait()?;
        Ok((this, receipt))
    }

    fn start(paths: &Paths, parts: Parts, clock: Clock) -> Result<Self, OpenError> {
        let keys = KeyFolder::new(&paths.keys);
        let reader = connect(&paths.store, OpenFlags::empty())?;
        let (head, place) = (keys.head(), Place::of(&paths.store));
        let readers = Readers::new((reader, Head::at(&head)), place.clone(), head);
        let shared = Arc::new(Shared {
            clock,
            keys,
            place,
            ledger: RwLock::new(Held::Ledger(Box::new(parts.ledger))),
            readers,
            fingerprint_key: OnceLock::new(),
            session_keys: SessionKeys::default(),
            unacknowledged: parts.unacknowledged,
            is_failing: AtomicBool::new(false),
            frozen: None,
        });
        let writer = Writer {
            shared: Arc::clone(&shared),
            connection: parts.connection,
            head: parts.head,
            signer: parts.signer,
            store: parts.store,
            adopting: parts.adopting,
        };
        let (jobs, waiting) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("custody-writer".into())
            .spawn(move || writer.serve(&waiting))
            .map_err(|cause| StoreError::File {
                doing: "serve",
                path: paths.store.clone(),
                cause,
            })?;
        let writer = Arc::new(WriterThread { jobs: Some(jobs), thread: Some(thread) });
        Ok(Self { shared, writer })
    }

    /// Runs `work` as one atomic step, in the order of submission. What it returns reaches the ticket
    /// once it is durable.
    ///
    /// An error that `work` returns after it wrote something undoes it, and the group it shared a
    /// commit with; an error before that concerns nobody else.
    pub fn run<T, E, F>(&self, work: F) -> Ticket<T, E>
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

    /// Runs several pieces of work, each as [`Store::run`] does, in one turn of the writer. Their tickets say what came
    /// of each.
    pub fn run_batch(&self, batch: WorkBatch) {
        match &self.writer.jobs {
            // If the writer is gone the jobs are dropped, and their tickets say so.
            Some(jobs) => drop(jobs.send(batch.into_jobs())),
            None => {
                let failed = Arc::new(StoreError::ReadOnly);
                batch.into_jobs().into_iter().for_each(|job| job.finish(Err(Arc::clone(&failed))));
            }
        }
    }

    /// The key that fingerprints of this store are made with, as [`View::fingerprint_key`] reads it. It never changes.
    ///
    /// # Errors
    /// As [`Store::state`].
    ///
    /// [`View::fingerprint_key`]: crate::View::fingerprint_key
    pub fn fingerprint_key(&self) -> Result<[u8; 16], StoreError> {
        if let Some(known) = self.shared.fingerprint_key.get() {
            return Ok(*known);
        }
        let key = self.look(|view| view.fingerprint_key())?;
        Ok(*self.shared.fingerprint_key.get_or_init(|| key))
    }

    /// Asks for something as a principal, and waits until the answer is durable.
    ///
    /// # Errors
    /// As [`Transaction::ask`]. A refusal is not an error.
    pub fn ask(&self, by: &Authority, request: AdminRequest) -> Result<Receipt, StoreError> {
        let authority = by.clone();
        self.run(move |step| step.administer(authority, request, None, Vec::new())).wait()
    }

    /// Where the database is.
    pub fn path(&self) -> &Path {
        &self.shared.place.path
    }

    /// Where the keys and the head are.
    pub fn keys(&self) -> &KeyFolder {
        &self.shared.keys
    }

    /// The clock that decisions are stamped with.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// How many records stood behind the head when the store was opened: written and signed, but never
    /// acknowledged to anybody.
    pub fn unacknowledged(&self) -> u64 {
        self.shared.unacknowledged
    }

    /// Whether the last records that this handle's process was to write could not be made durable, or it writes none.
    /// Whatever is asked until the next success may be refused for the same reason.
    pub fn is_failing(&self) -> bool {
        self.is_read_only() || self.shared.is_failing.load(Ordering::Relaxed)
    }
}

fn find_head(paths: &Paths, keys: &KeyFolder) -> Result<Head, OpenError> {
    if let Some(head) = Head::find(&keys.head())? {
        return Ok(head);
    }
    let path = paths.keys.clone();
    let never = !paths.store.exists();
    Err(if never { OpenError::NoKeys(path) } else { StoreError::NoHead(path).into() })
}

/// Why there is no database where its head is.
fn vanished(paths: &Paths, slots: &Slots) -> OpenError {
    if slots.is_blank() {
        OpenError::NoKeys(paths.keys.clone())
    } else {
        OpenError::Vanished(paths.store.clone(), paths.keys.clone())
    }
}

/// The log key that signs now. Finishes a rotation that was committed but not finished.
fn signer_of(keys: &KeyFolder, ledger: &Ledger) -> Result<SigningKey, OpenError> {
    let signs = |signer: &SigningKey| ledger.is_signed_by(signer);
    let signer = keys.signer(signs)?.ok_or_else(|| StoreError::ForeignKeys(keys.path().into()))?;
    // Whoever holds the lock is about to finish it.
    if !signs(&keys.log_key()?)
        && let Some(_alone) = keys.try_lock()?
    {
        keys.finish_rotation(signs)?;
    }
    Ok(signer)
}
