//! Watched files follow their items.

use std::path::Path;

use custody_kernel::key::Key;
use custody_kernel::namespace::Namespace;

use crate::disk::write_file;
use crate::error::StoreError;
use crate::view::View;

/// Brings the file of an item up to its present value, after a change was committed.
pub(crate) fn follow(view: View<'_>, namespace: &Namespace, key: &Key) -> Result<(), StoreError> {
    let Some(watched) = view.state().watched_item(namespace, key) else { return Ok(()) };
    let version = view.state().item(namespace, key).and_then(|item| item.current);
    let value = version.map(|version| view.content(version.content)).transpose()?;
    write_file(Path::new(&watched.path), value.as_deref())
}
