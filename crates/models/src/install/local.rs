//! Local sources of model files: a folder, a single file, a Python wheel or zip.
//!
//! Entries of an archive are looked up by the wanted names and never written under the names in the archive, so no
//! entry can escape the folder. The size of an unpacked entry is limited as that of any other source.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use zip::ZipArchive;

use crate::pins::ModelFile;

/// The largest number of entries of an archive.
const MAX_ENTRIES: usize = 10_000;

/// One local source.
pub(super) enum LocalSource {
    Folder(PathBuf),
    File(PathBuf),
    Archive(PathBuf, Box<ZipArchive<File>>),
}

/// A local source that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LocalSourceError {
    /// The file cannot be read.
    #[error("could not read `{path}`")]
    Read {
        /// The source.
        path: PathBuf,
        /// The reason.
        #[source]
        cause: io::Error,
    },
    /// The file has the extension of a wheel or zip and is not a valid one.
    #[error("`{path}` is not a valid wheel or zip: {why}")]
    Archive {
        /// The source.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// Several entries have the wanted name.
    #[error("`{path}` contains several files named `{name}`; unpack it and import one folder")]
    Ambiguous {
        /// The source.
        path: PathBuf,
        /// The name of the file.
        name: String,
    },
}

impl LocalSource {
    /// Opens a folder, an archive (by its extension) or a single file.
    pub(super) fn open(path: &Path) -> Result<Self, LocalSourceError> {
        if std::fs::metadata(path).map_err(|cause| unreadable(path, cause))?.is_dir() {
            return Ok(Self::Folder(path.into()));
        }
        let extension = path.extension().map(|extension| extension.to_ascii_lowercase());
        if extension.is_some_and(|extension| extension == "whl" || extension == "zip") {
            let file = File::open(path).map_err(|cause| unreadable(path, cause))?;
            return Self::archive(path, file);
        }
        Ok(Self::File(path.into()))
    }

    /// Opens the archive in `file`; messages name it `path`.
    pub(super) fn archive(path: &Path, file: File) -> Result<Self, LocalSourceError> {
        let archive =
            ZipArchive::new(file).map_err(|error| invalid_archive(path, error.to_string()))?;
        if archive.len() > MAX_ENTRIES {
            let why = format!("it has {} entries; the limit is {MAX_ENTRIES}", archive.len());
            return Err(invalid_archive(path, why));
        }
        Ok(Self::Archive(path.into(), Box::new(archive)))
    }

    /// Passes the bytes of `wanted` to `take`; `None` if this source does not have it.
    pub(super) fn with<T>(
        &mut self,
        wanted: &ModelFile,
        take: impl FnOnce(&mut dyn Read) -> T,
    ) -> Result<Option<T>, LocalSourceError> {
        match self {
            Self::Folder(folder) => read_file(&folder.join(&wanted.name), take),
            Self::File(path) if path.file_name().is_some_and(|name| *name == *wanted.name) => {
                read_file(path, take)
            }
            Self::File(_) => Ok(None),
            Self::Archive(path, archive) => {
                let Some(position) = position(path, archive, wanted)? else { return Ok(None) };
                let mut entry = archive
                    .by_index(position)
                    .map_err(|error| invalid_archive(path, error.to_string()))?;
                Ok(Some(take(&mut entry)))
            }
        }
    }
}

fn unreadable(path: &Path, cause: io::Error) -> LocalSourceError {
    LocalSourceError::Read { path: path.into(), cause }
}

fn invalid_archive(path: &Path, why: String) -> LocalSourceError {
    LocalSourceError::Archive { path: path.into(), why }
}

/// Passes the bytes of a file to `take`; `None` if it does not exist.
fn read_file<T>(
    path: &Path,
    take: impl FnOnce(&mut dyn Read) -> T,
) -> Result<Option<T>, LocalSourceError> {
    match File::open(path) {
        Ok(mut file) => Ok(Some(take(&mut file))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(unreadable(path, cause)),
    }
}

/// The entry of `wanted`: at its known path in the wheel, otherwise the one of that name in the fewest folders.
fn position(
    path: &Path,
    archive: &ZipArchive<File>,
    wanted: &ModelFile,
) -> Result<Option<usize>, LocalSourceError> {
    let known = wanted.wheel.as_deref().and_then(|entry| archive.index_for_name(entry));
    if known.is_some() {
        return Ok(known);
    }
    let mut found: Vec<(usize, usize)> = Vec::new();
    for position in 0..archive.len() {
        let Some(Ok(name)) = archive.name_for_index(position) else { continue };
        if name.rsplit('/').next() == Some(wanted.name.as_str()) {
            found.push((name.matches('/').count(), position));
        }
    }
    found.sort_unstable();
    match found[..] {
        [] => Ok(None),
        [(depth, _), (other, _), ..] if depth == other => {
            Err(LocalSourceError::Ambiguous { path: path.into(), name: wanted.name.clone() })
        }
        [(_, position), ..] => Ok(Some(position)),
    }
}
