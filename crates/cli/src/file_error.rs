//! One line for a file that could not be used. The operating system's reason follows as the cause.

use std::path::Path;

/// For `with_context` on reading a file or folder.
pub(crate) fn unreadable(path: &Path) -> String {
    format!("could not read `{}`", path.display())
}

/// For `with_context` on creating, writing or renaming a file.
pub(crate) fn unwritable(path: &Path) -> String {
    format!("could not write `{}`", path.display())
}
