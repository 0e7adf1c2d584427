//! The model folder: which models are installed, and whether each is intact.
//!
//! One folder per model, with files named as in [`pins`](crate::pins). The presence of a file proves nothing:
//! [`ModelStore::verified`] hashes every byte.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::incoming::hash_of;
use crate::pins::{ListedModel, ModelList};
use crate::sha256::Sha256;

/// The folder with the installed models.
#[derive(Debug, Clone)]
pub struct ModelStore {
    folder: PathBuf,
    known: ModelList,
}

/// The files of an installed model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFiles {
    /// Their folder.
    pub dir: PathBuf,
    /// Their names.
    pub files: Vec<String>,
}

impl ModelFiles {
    /// The path of the file `name`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

/// The expected hash and length of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// Its name.
    pub name: String,
    /// The hash of its bytes.
    pub sha256: Sha256,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Why the hashes of a model are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HashTrust {
    /// They are compiled in.
    Pinned,
    /// The user gave them when importing.
    Given,
    /// They are those of the first import (trust on first use).
    FirstUse,
}

/// The state of a listed model on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelState {
    /// Not installed.
    Absent,
    /// InstallOutcome; all hashes match.
    Verified(HashTrust),
    /// InstallOutcome, but a file is missing or differs: which, and how.
    Damaged(String),
}

/// A model that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelStoreError {
    /// The model is not listed.
    #[error("there is no model `{name}`; the list has {known}")]
    Unknown {
        /// The name given.
        name: String,
        /// All listed names.
        known: String,
    },
    /// The model is not installed.
    #[error("the model `{name}` is not in `{folder}`; run `{command}`")]
    Absent {
        /// The model.
        name: String,
        /// The model folder.
        folder: PathBuf,
        /// The command that installs it.
        command: String,
    },
    /// A file of the model is missing or differs.
    #[error(
        "the model `{name}` is damaged: {what}; run `custody models remove {name} --apply`, then `{command}`"
    )]
    Damaged {
        /// The model.
        name: String,
        /// Which file, and how it differs.
        what: String,
        /// The command that installs it.
        command: String,
    },
    /// The record of trusted hashes cannot be read.
    #[error(
        "could not read the trusted hashes from `{path}`; restore that file, or delete it and import again"
    )]
    Lock {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        cause: io::Error,
    },
}

impl ModelStore {
    /// The model folder at `folder`, which need not exist, with the compiled-in list.
    pub fn open(folder: impl Into<PathBuf>) -> Self {
        Self::with_list(ModelList::built_in().clone(), folder)
    }

    /// As [`ModelStore::open`] with another list.
    pub fn with_list(known: ModelList, folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), known }
    }

    /// The path of the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// All listed models, installed or not.
    pub fn known(&self) -> &[ListedModel] {
        self.known.models()
    }

    /// The listed model `name`.
    ///
    /// # Errors
    /// [`ModelStoreError::Unknown`].
    pub fn model(&self, name: &str) -> Result<&ListedModel, ModelStoreError> {
        self.known
            .find(name)
            .ok_or_else(|| ModelStoreError::Unknown { name: name.to_owned(), known: self.names() })
    }

    /// The files of `name`, after checking that each exists with the right length. Their bytes are not read: see
    /// [`ModelStore::verified`].
    ///
    /// # Errors
    /// [`ModelStoreError`] with the command to run.
    pub fn find(&self, name: &str) -> Result<ModelFiles, ModelStoreError> {
        let model = self.model(name)?;
        let (_, pins) = self.pins(model)?.ok_or_else(|| self.absent(model))?;
        let dir = self.dir(model);
        if !dir.is_dir() {
            return Err(self.absent(model));
        }
        for pin in &pins {
            let found = std::fs::metadata(dir.join(&pin.name)).map(|metadata| metadata.len());
            if let Some(what) = wrong_length(pin, found) {
                return Err(damaged(model, what));
            }
        }
        Ok(ModelFiles { dir, files: pins.into_iter().map(|pin| pin.name).collect() })
    }

    /// As [`ModelStore::find`], after hashing every byte. The files may change afterwards: load them at once.
    ///
    /// # Errors
    /// [`ModelStoreError`] with the command to run.
    pub fn verified(&self, name: &str) -> Result<ModelFiles, ModelStoreError> {
        let model = self.model(name)?;
        match self.state(model)? {
            ModelState::Absent => Err(self.absent(model)),
            ModelState::Damaged(what) => Err(damaged(model, what)),
            ModelState::Verified(_) => self.find(name),
        }
    }

    /// The state of `model`. Hashes all its bytes.
    ///
    /// # Errors
    /// [`ModelStoreError::Lock`].
    pub fn state(&self, model: &ListedModel) -> Result<ModelState, ModelStoreError> {
        let dir = self.dir(model);
        if !dir.is_dir() {
            return Ok(ModelState::Absent);
        }
        let Some((trust, pins)) = self.pins(model)? else {
            let what = "there is no record of the hashes trusted at its import".to_owned();
            return Ok(ModelState::Damaged(what));
        };
        Ok(match pins.iter().find_map(|pin| difference(&dir, pin)) {
            None => ModelState::Verified(trust),
            Some(what) => ModelState::Damaged(what),
        })
    }

    /// The hashes of `model`: compiled in, or recorded when it was imported.
    pub(crate) fn pins(
        &self,
        model: &ListedModel,
    ) -> Result<Option<(HashTrust, Vec<Pin>)>, ModelStoreError> {
        let pinned = model.files.iter().map(|file| {
            Some(Pin { name: file.name.clone(), sha256: file.sha256?, bytes: file.bytes? })
        });
        if let Some(pins) = pinned.collect() {
            return Ok(Some((HashTrust::Pinned, pins)));
        }
        Ok(self.lock()?.remove(&model.name).map(|locked| (locked.trust, locked.files)))
    }

    pub(crate) fn dir(&self, model: &ListedModel) -> PathBuf {
        self.folder.join(&model.name)
    }

    /// The hashes trusted at imports.
    pub(crate) fn lock(&self) -> Result<Lock, ModelStoreError> {
        let path = self.lock_path();
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Lock::new()),
            Err(cause) => return Err(ModelStoreError::Lock { path, cause }),
        };
        serde_json::from_slice(&bytes)
            .map_err(|cause| ModelStoreError::Lock { path, cause: cause.into() })
    }

    pub(crate) fn lock_path(&self) -> PathBuf {
        self.folder.join("models.lock.json")
    }

    fn absent(&self, model: &ListedModel) -> ModelStoreError {
        ModelStoreError::Absent {
            name: model.name.clone(),
            folder: self.folder.clone(),
            command: install_command(model),
        }
    }

    fn names(&self) -> String {
        let names: Vec<String> =
            self.known().iter().map(|model| format!("`{}`", model.name)).collect();
        names.join(", ")
    }
}

/// The command that installs a model.
pub(crate) fn install_command(model: &ListedModel) -> String {
    let name = &model.name;
    if model.is_pinned() {
        format!("custody models fetch {name}")
    } else {
        format!("custody models import {name} FOLDER --trust-on-first-use")
    }
}

/// By model, the hashes trusted at its import.
pub(crate) type Lock = BTreeMap<String, LockEntry>;

/// The hashes of one import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LockEntry {
    pub(crate) trust: HashTrust,
    pub(crate) files: Vec<Pin>,
}

fn damaged(model: &ListedModel, what: String) -> ModelStoreError {
    ModelStoreError::Damaged { name: model.name.clone(), what, command: install_command(model) }
}

/// How the file of `pin` in `dir` differs, if it does.
fn difference(dir: &Path, pin: &Pin) -> Option<String> {
    let path = dir.join(&pin.name);
    let length = std::fs::metadata(&path).map(|metadata| metadata.len());
    if let Some(what) = wrong_length(pin, length) {
        return Some(what);
    }
    match File::open(&path).and_then(|mut file| hash_of(&mut file)) {
        Ok((found, _)) if found == pin.sha256 => None,
        Ok((found, _)) => {
            Some(format!("`{}` has the SHA-256 `{found}`, not `{}`", pin.name, pin.sha256))
        }
        Err(cause) => Some(format!("`{}` cannot be read ({cause})", pin.name)),
    }
}

fn wrong_length(pin: &Pin, found: io::Result<u64>) -> Option<String> {
    let Pin { name, bytes, .. } = pin;
    match found {
        Ok(found) if found == *bytes => None,
        Ok(found) => Some(format!("`{name}` has {found} bytes, not {bytes}")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Some(format!("`{name}` is missing"))
        }
        Err(cause) => Some(format!("`{name}` cannot be read ({cause})")),
    }
}
