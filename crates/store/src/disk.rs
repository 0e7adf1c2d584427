//! Files beside the database: read whole, replaced whole, and durable.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use crate::content::MAX_CONTENT_BYTES;
use crate::error::StoreError;

/// Reads a regular file. The target of a link can be exchanged unnoticed and a pipe never ends, so both are refused.
/// Reads one byte more than the longest value, which is enough to differ from every item.
pub(crate) fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
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

fn not_a_file() -> std::io::Error {
    std::io::Error::other("it is not a regular file")
}

/// Replaces a file whole or not at all, keeping its permissions; `None` removes it.
pub(crate) fn write_file(path: &Path, value: Option<&[u8]>) -> Result<(), StoreError> {
    let written = match value {
        Some(value) => replace(path, value),
        None => match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        },
    };
    written.map_err(|cause| StoreError::File { doing: "write", path: path.into(), cause })?;
    sync_folder(path)
}

fn replace(path: &Path, value: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(value)?;
    file.as_file().sync_all()?;
    if let Some(metadata) = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file)
    {
        file.as_file().set_permissions(metadata.permissions())?;
    }
    file.persist(path)?;
    Ok(())
}

/// Makes the creation or renaming of `path` durable.
pub(crate) fn sync_folder(path: &Path) -> Result<(), StoreError> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    let sync = File::open(folder).and_then(|folder| folder.sync_all());
    sync.map_err(|cause| StoreError::File { doing: "sync", path: folder.into(), cause })
}
