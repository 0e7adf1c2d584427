//! Why a model could not be installed.

use std::io;
use std::path::{Path, PathBuf};

use super::local::LocalSourceError;
use crate::fetch::FetchError;
use crate::incoming::ReceiveError;
use crate::registry::ModelStoreError;
use crate::sha256::Sha256;

/// A model that could not be installed or removed. The model folder is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The model or its folder cannot be used.
    #[error(transparent)]
    Store(#[from] ModelStoreError),
    /// A local source cannot be read.
    #[error(transparent)]
    Local(#[from] LocalSourceError),
    /// A download failed.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The model has no pinned hashes, so a download could not be verified.
    #[error(
        "the hashes of `{name}` are not pinned, so it is not fetched; get {files} from `{origin}`, then run `{command}`"
    )]
    NotPinned {
        /// The model.
        name: String,
        /// The names of its files.
        files: String,
        /// Where its files are published.
        origin: String,
        /// The command that imports it.
        command: String,
    },
    /// Every source failed.
    #[error("could not fetch `{name}`: {attempts}; nothing was kept. {todo}")]
    Sources {
        /// The model.
        name: String,
        /// The error of each source.
        attempts: String,
        /// What the user can do instead.
        todo: String,
    },
    /// A file of the model is in none of the local sources.
    #[error("`{file}` of `{name}` is in none of the given folders, wheels and files")]
    MissingFile {
        /// The model.
        name: String,
        /// The file.
        file: String,
    },
    /// The weights are only available as a pickle.
    #[error(
        "`{path}` is a pickle, which can run code when it is read; `model.safetensors` is needed"
    )]
    Pickle {
        /// The file.
        path: PathBuf,
    },
    /// A file is not the expected one, or could not be read or written.
    #[error("`{file}` was rejected")]
    Rejected {
        /// The file.
        file: String,
        /// The reason.
        #[source]
        cause: ReceiveError,
    },
    /// The file has no pinned hash, none was given, and trust on first use was not allowed.
    #[error(
        "the SHA-256 of `{file}` is not pinned; add `--sha256 {file}=HEX`, or `--trust-on-first-use` to trust this copy"
    )]
    NotTrusted {
        /// The file.
        file: String,
    },
    /// The file differs from the copy that an earlier import trusted.
    #[error(
        "`{file}` has the SHA-256 `{found}`, but `{trusted}` was trusted before; `custody models remove {name} --apply` forgets that"
    )]
    NotTheTrustedCopy {
        /// The model.
        name: String,
        /// The file.
        file: String,
        /// The trusted hash.
        trusted: Sha256,
        /// The hash found.
        found: Sha256,
    },
    /// A hash was given for a file that the model does not have or whose hash is pinned.
    #[error("`{name}` takes no hash for `{file}`: {why}")]
    UnusedHash {
        /// The model.
        name: String,
        /// The file named by the user.
        file: String,
        /// The reason.
        why: &'static str,
    },
    /// Another process holds the lock.
    #[error("another process is changing `{folder}`; try again when it is done")]
    Busy {
        /// The model folder.
        folder: PathBuf,
    },
    /// Writing failed.
    #[error("could not write to `{path}`; is the disk full?")]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        #[source]
        cause: io::Error,
    },
}

/// For `map_err` on something written to `path`.
pub(super) fn write_error(path: &Path) -> impl FnOnce(io::Error) -> InstallError {
    move |cause| InstallError::Write { path: path.into(), cause }
}
