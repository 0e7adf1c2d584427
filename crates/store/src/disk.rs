//! Files beside the database: read whole, replaced whole, and durable.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use crate::content::MAX_CONTENT_BYTES;
use crate::error::StoreError;

/// Reads a regular file, and nothing else: what stands behind a link can be exchanged unseen, a pipe
/// would never end. Reads just over the longest value, which is enough to differ from every item.
pub(crate) fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let not_a_file = || std::io::Error::other("it is not a regular file");
    if !std::fs::symlink_metadata(path)?.is_file() {
        return Err(not_a_file());
    }
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(not_a_file());
    }
    let mut bytes = Vec::new();
    file.take(MAX_CONTENT_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces a file whole or not at all, keeping its permissions; `None` removes it.
pub(crate) fn write_file(path: &Path, value: Option<&[u8]>) -> Result<(), StoreError> {
    let failed = |cause| StoreError::File { doing: "write", path: path.into(), cause };
    let Some(value) = value else {
        return match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(error)),
            _ => sync_folder(path),
        };
    };
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    file.write_all(value).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    if let Some(metadata) = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file)
    {
        file.as_file().set_permissions(metadata.permissions()).map_err(failed)?;
    }
    file.persist(path).map_err(|error| failed(error.error))?;
    sync_folder(path)
}

/// Makes the creation or renaming of `path` durable.
pub(crate) fn sync_folder(path: &Path) -> Result<(), StoreError> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    let sync = File::open(folder).and_then(|folder| folder.sync_all());
    sync.map_err(|cause| StoreError::File { doing: "sync", path: folder.into(), cause })
}
