//! What can be wrong with data.

use std::io;
use std::path::{Path, PathBuf};

use custody_models::fetch::FetchError;
use custody_models::incoming::ReceiveError;

/// Data that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// It is not here.
    #[error(
        "`{path}` is not here; copy the data with `custody data import DIR`, or name its folder in `CUSTODY_DATA`"
    )]
    Absent {
        /// Which file or folder.
        path: PathBuf,
    },
    /// It cannot be read.
    #[error("could not read `{path}`")]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// A line is no row.
    #[error("`{path}` line {line}: {why}")]
    Line {
        /// The path of the file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
    /// The file as a whole is wrong.
    #[error("`{path}` {why}")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// It cannot be written.
    #[error("could not write to `{path}`; is the disk full, or the folder another's?")]
    Write {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// A copy is not what was pinned.
    #[error("`{path}` is not taken, and nothing was copied")]
    Wrong {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: ReceiveError,
    },
    /// The network failed.
    #[error("{here} of {of} original files are here; run this again to go on")]
    Fetch {
        /// How many arrived, this time or before.
        here: usize,
        /// How many there are.
        of: usize,
        /// Why the next one did not.
        #[source]
        cause: FetchError,
    },
    /// No such file.
    #[error("there is no data file `{0}`; `custody data list` shows all")]
    Unknown(String),
}

impl DataError {
    /// For `map_err` on something read from `path`.
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |cause| {
            let path = path.into();
            if cause.kind() == io::ErrorKind::NotFound {
                Self::Absent { path }
            } else {
                Self::Read { path, cause }
            }
        }
    }

    /// For `map_err` on something written to `path`.
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Write { path: path.into(), cause }
    }

    /// The file at `path` as a whole is wrong.
    pub(crate) fn file(path: &Path, why: impl Into<String>) -> Self {
        Self::File { path: path.into(), why: why.into() }
    }
}
