//! Why a key cannot be used.

use std::path::PathBuf;

/// A failure with a key or its folder. No message holds any part of a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// There are no keys, so nothing can be signed.
    #[error("there are no keys in `{0}`")]
    NoKeys(PathBuf),
    /// A key could not be read or unlocked.
    #[error("could not use the key `{path}`: {why}")]
    Key {
        /// The file.
        path: PathBuf,
        /// Why, without any of its content.
        why: String,
    },
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
}
