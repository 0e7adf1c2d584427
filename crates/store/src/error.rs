//! What can go wrong with a store: one error per family of operations.

use std::path::PathBuf;
use std::sync::Arc;

use custody_kernel::namespace::Namespace;
use custody_kernel::principal::CredentialError;
use custody_kernel::record::RecordError;
use custody_kernel::state::{ApplyError, AskError};
use custody_keys::KeyError;
use custody_log::{CheckpointError, EntryId, Seq, SessionId};

use crate::index_gap::IndexGap;

/// Why a store could not be read, or a request not decided and committed. A refusal is an answer, and no error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// What was asked speaks of something that does not exist.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The session has a key that this process does not hold.
    #[error("session `{0}` was opened by another process, and only that one can record in it")]
    OtherProcess(SessionId),
    /// The record was altered behind our back.
    #[error("the store was tampered with: {0}; restore a backup, or see `custody ledger adopt`")]
    Tampered(Tampering),
    /// The signed head is missing.
    #[error("no signed head for this store in `{0}`; restore it, or run `custody ledger adopt`")]
    NoHead(PathBuf),
    /// The keys belong to another store.
    #[error("the keys in `{0}` are not those of this store; pass the right folder with `--keys`")]
    ForeignKeys(PathBuf),
    /// The database is not ours.
    #[error("this database belongs to another program; choose another path with `--store`")]
    Foreign,
    /// The database comes from a newer program.
    #[error("the store has schema {found}, this program knows {known}; update the program")]
    Newer {
        /// The version found.
        found: usize,
        /// The newest version known.
        known: usize,
    },
    /// The database comes from an older program, and cannot be brought up to date where it is.
    #[error(
        "the store has schema {found}, this program reads {known}; open it once where it can be written"
    )]
    Older {
        /// The version found.
        found: usize,
        /// The version that is read.
        known: usize,
    },
    /// The store was opened for reading only.
    #[error("the store is open for reading only; nothing was stored")]
    ReadOnly,
    /// A key could not be used.
    #[error(transparent)]
    Keys(KeyError),
    /// A file could not be used.
    #[error("could not {doing} `{path}`")]
    File {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why it failed.
        #[source]
        cause: std::io::Error,
    },
    /// The database failed. Nothing of the group it happened in was stored.
    #[error("the database failed; nothing was stored")]
    Database(#[source] rusqlite::Error),
    /// The group that this request was part of failed. Nothing of it was stored.
    #[error("the commit failed; nothing was stored")]
    Undone(#[source] Arc<StoreError>),
    /// A request failed half-way, so its group was undone.
    #[error("a request of the same group failed half-way; ask again")]
    HalfWay,
    /// Whoever asked gave up half-way. Nothing of it was stored.
    #[error("nothing was stored")]
    Rejected(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The data is durable, its head is not.
    #[error("stored, but its signed head could not be written; it shows as an unacknowledged tail")]
    Unacknowledged(#[source] Arc<StoreError>),
    /// The store is closing.
    #[error("the store is closed")]
    Closed,
    /// No such entry.
    #[error("there is no entry `{0}`; see `custody ledger show`")]
    UnknownEntry(String),
    /// The content was not kept, because what it was proposed for was refused, or was destroyed.
    #[error("the content of entry {0} is not kept; only its commitment is")]
    NoContent(Seq),
    /// The content was destroyed by recovery.
    #[error("the content of entry {0} was purged; only its commitment is kept")]
    Purged(Seq),
    /// The content is in quarantine.
    #[error("entry {0} is in quarantine; see `custody incident list`")]
    Quarantined(Seq),
    /// Text that is too long to store.
    #[error("the text has {bytes} bytes, the limit is {limit}; store it in parts")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
}

/// Why a store could not be created, opened or adopted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There are no keys, so nothing can be signed.
    #[error("there are no keys in `{0}`; run `custody keys init` on a terminal")]
    NoKeys(PathBuf),
    /// There are keys already.
    #[error("`{0}` holds keys already; use `custody keys rotate`, or another folder")]
    KeysExist(PathBuf),
    /// The head speaks of a store, but there is none.
    #[error("`{0}` is empty although its head speaks of a store; restore it, or remove `{1}`")]
    Vanished(PathBuf, PathBuf),
    /// The owner's name is none.
    #[error(transparent)]
    Name(#[from] PrincipalNameError),
    /// The key is not the owner's.
    #[error(transparent)]
    Proof(#[from] CredentialError),
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What principals and their credentials were asked for cannot be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrincipalError {
    /// No such principal.
    #[error("there is no principal `{0}`; see `custody principal list`")]
    Unknown(String),
    /// Not a name for a principal.
    #[error(transparent)]
    Name(#[from] PrincipalNameError),
    /// The proof does not prove it.
    #[error(transparent)]
    Proof(#[from] CredentialError),
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Not a name for a principal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a name for a principal; use 1 to 64 of a-z, 0-9 and `-`")]
pub struct PrincipalNameError(pub String);

/// Why a watched file could not be compared, restored or adopted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The file is not watched.
    #[error("`{key}` in `{namespace}` is not a watched file; see `custody memory adopt --help`")]
    NotWatched {
        /// Where it was looked for.
        namespace: Namespace,
        /// Under which key.
        key: String,
    },
    /// The file could not be used.
    #[error("could not {doing} `{path}`")]
    File {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why it failed.
        #[source]
        cause: std::io::Error,
    },
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for WatchError {
    fn from(error: StoreError) -> Self {
        if let StoreError::File { doing, path, cause } = error {
            return Self::File { doing, path, cause };
        }
        Self::Store(error)
    }
}

/// How a store shows that it was tampered with.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Tampering {
    /// An older copy was put in place.
    #[error("it holds {found} records, its signed head speaks of {head}")]
    BehindHead {
        /// Records found.
        found: u64,
        /// Records signed.
        head: u64,
    },
    /// The records are not those that were signed.
    #[error("records 0 to {0} are not the ones that were signed")]
    OtherRecords(u64),
    /// Records were added that nobody signed.
    #[error("records from {from} on were never signed")]
    UnsignedTail {
        /// The first of them.
        from: u64,
    },
    /// A row is gone or out of place.
    #[error("record {0} is missing")]
    MissingRecord(u64),
    /// A row does not hold what was signed.
    #[error("record {0} is not the one that was signed")]
    OtherRecord(u64),
    /// A record cannot be read.
    #[error("record {0} cannot be read")]
    Unreadable(u64, #[source] Arc<RecordError>),
    /// A record does not follow from those before it.
    #[error("record {0} does not follow from those before it")]
    Inconsistent(u64, #[source] Arc<ApplyError>),
    /// A containment does not list what its findings reach.
    #[error("containment {0} does not list the entries that its findings reach")]
    Members(u64),
    /// A content does not match its commitment.
    #[error("the content of record {0} is not the one that was recorded")]
    OtherContent(u64),
    /// A content is gone.
    #[error("the content of record {0} is missing")]
    MissingContent(u64),
    /// A row holds something that we never store.
    #[error("a row holds what was never stored: {0}")]
    Row(String),
    /// The tables are not those that we made, or their pages cannot be read.
    #[error("its tables are not as they were made: {0}")]
    Tables(String),
    /// Another file stands where the database was.
    #[error("another file was put in place of its database while it was open")]
    Replaced,
    /// An observed text does not say which untrusted entry it repeats.
    #[error("record {0} repeats an untrusted entry and does not say so")]
    Echo(u64),
    /// What a record keeps of a tool call, or a value taken from an output, is not what its texts give.
    #[error("record {seq} claims {what} that the recorded texts do not give")]
    Call {
        /// Which record.
        seq: u64,
        /// What it claims: `argument origins`, `a policy answer` …
        what: &'static str,
    },
    /// A part of an observed text is out of place.
    #[error("record {0} is a part of a text whose other parts are not beside it")]
    Part(u64),
    /// An index does not agree with the records.
    #[error("the {index} index of record {seq} does not agree with the log")]
    Index {
        /// Which index.
        index: &'static str,
        /// Of which record.
        seq: u64,
    },
    /// Rows of an index were removed or added.
    #[error("the index of {} lacks {} of {} rows and has {} that no record has, the first of record {}",
        .0.index, .0.missing, .0.expected, .0.unexpected, .0.first.0)]
    IndexRows(IndexGap),
    /// The index does not find an entry that is there.
    #[error("its index does not find entry `{0}`")]
    EntryIndex(EntryId),
    /// The head itself is not signed by the log key.
    #[error("its signed head does not verify")]
    Head(#[source] CheckpointError),
    /// The head was emptied.
    #[error("its signed head is blank")]
    BlankHead,
    /// The head is another store's.
    #[error("its signed head is another store's")]
    ForeignHead,
    /// The log key is not certified by the owner.
    #[error("its log key is not certified by its owner")]
    LogKey,
}

impl StoreError {
    /// The error of a group, for each of those who waited for it.
    pub(crate) fn of_group(cause: &Arc<Self>) -> Self {
        if let Self::Tampered(tampering) = &**cause {
            Self::Tampered(tampering.clone())
        } else if let Self::Unacknowledged(cause) = &**cause {
            Self::Unacknowledged(Arc::clone(cause))
        } else if let Self::NoHead(folder) = &**cause {
            Self::NoHead(folder.clone())
        } else if let Self::ReadOnly = &**cause {
            Self::ReadOnly
        } else {
            Self::Undone(Arc::clone(cause))
        }
    }
}

/// Values of the wrong type, pages that cannot be read and tables that are not there are not failures
/// of the database: somebody changed them.
impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::{Error, ErrorCode};
        let altered_row = matches!(
            error,
            Error::FromSqlConversionFailure(..)
                | Error::IntegralValueOutOfRange(..)
                | Error::InvalidColumnType(..)
                | Error::Utf8Error(..)
        );
        // `Unknown` is SQLITE_ERROR: our own statements no longer fit the tables. A short read finds the
        // file ending before what its index says it holds.
        let cause = if let Error::SqliteFailure(cause, _)
        | Error::SqlInputError { error: cause, .. } = &error
        {
            Some(*cause)
        } else {
            None
        };
        let code = cause.map(|cause| cause.code);
        let altered_tables = matches!(
            code,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::TooBig | ErrorCode::Unknown)
        ) || cause.map(|cause| cause.extended_code)
            == Some(rusqlite::ffi::SQLITE_IOERR_SHORT_READ);
        if altered_row {
            Tampering::Row(error.to_string()).into()
        } else if altered_tables {
            Tampering::Tables(error.to_string()).into()
        } else if code == Some(ErrorCode::NotADatabase) {
            Self::Foreign
        } else {
            Self::Database(error)
        }
    }
}

/// A key that cannot be used is a store that cannot be used; a file of the keys' folder is a file.
impl From<KeyError> for StoreError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::File { doing, path, cause } => Self::File { doing, path, cause },
            KeyError::NoKeys(_) | KeyError::Key { .. } => Self::Keys(error),
        }
    }
}

impl From<KeyError> for OpenError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::NoKeys(folder) => Self::NoKeys(folder),
            KeyError::Key { .. } | KeyError::File { .. } => Self::Store(error.into()),
        }
    }
}

impl From<KeyError> for PrincipalError {
    fn from(error: KeyError) -> Self {
        Self::Store(error.into())
    }
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

impl From<Tampering> for OpenError {
    fn from(tampering: Tampering) -> Self {
        Self::Store(tampering.into())
    }
}

impl From<Tampering> for StoreError {
    fn from(tampering: Tampering) -> Self {
        Self::Tampered(tampering)
    }
}
