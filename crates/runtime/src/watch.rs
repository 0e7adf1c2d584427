//! Watched files, with what a reviewer should look at twice in them.

use std::path::Path;

use custody_kernel::key::Key;
use custody_kernel::principal::Authority;
use custody_store::{Receipt, Store, WatchError};

use crate::anomaly::anomalies;

pub use custody_store::watch::{FileReport, FileState};

/// Takes a file as it is on disk for the value of a shared item, and watches it from now on; see
/// [`Store::adopt_file`]. Anomalies in its text are stored as advice.
///
/// # Errors
/// As [`Store::adopt_file`].
pub fn adopt_file(
    store: &Store,
    owner: &Authority,
    key: Key,
    path: &Path,
) -> Result<Receipt, WatchError> {
    store.adopt_file(owner, key, path, anomalies)
}
