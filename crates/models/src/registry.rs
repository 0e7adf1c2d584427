//! The models folder: which models are here, and whether each is what it should be.
//!
//! One folder per model, files under the names of [`pins`](crate::pins). Nothing is believed from the
//! presence of a file: [`Models::verified`] hashes every byte before it answers.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::incoming::hash_of;
use crate::pins::{Known, Model};
use crate::sha256::Sha256;

/// The folder of the models on this machine.
#[derive(Debug, Clone)]
pub struct Models {
    folder: PathBuf,
    known: Known,
}

/// The files of one model that is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFiles {
    /// Their folder.
    pub dir: PathBuf,
    /// Their names.
    pub files: Vec<String>,
}

impl ModelFiles {
    /// Where the file `name` is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

/// A file of a model as it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// Its name.
    pub name: String,
    /// Its hash.
    pub sha256: Sha256,
    /// Its length.
    pub bytes: u64,
}

/// Where the hashes of a model come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// They are compiled in.
    Pinned,
    /// Its user gave them when importing.
    Given,
    /// They are those of the first import, which was trusted unseen.
    FirstUse,
}

/// How a model of the list is on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Not here.
    Absent,
    /// Here, and every byte is as it should be.
    Verified(Trust),
    /// Here, and not what it should be: what is wrong with which file.
    Damaged(String),
}

/// A model that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelsError {
    /// No such model.
    #[error("there is no model `{name}`; known are {known}")]
    Unknown {
        /// As asked for.
        name: String,
        /// All names.
        known: String,
    },
    /// It is not here.
    #[error("the model `{name}` is not in `{folder}`; run `{command}`")]
    Absent {
        /// The model.
        name: String,
        /// The models folder.
        folder: PathBuf,
        /// What brings it.
        command: String,
    },
    /// It is here and wrong.
    #[error(
        "the model `{name}` is not as it should be: {what}; run `custody models remove {name} --apply`, then `{command}`"
    )]
    Damaged {
        /// The model.
        name: String,
        /// Which file, and what is wrong with it.
        what: String,
        /// What brings it.
        command: String,
    },
    /// The record of trusted hashes cannot be read.
    #[error(
        "could not read the hashes that were trusted from `{path}`; restore that file, or delete it and import again"
    )]
    Lock {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
}

impl Models {
    /// The models in `folder`, which need not exist.
    pub fn open(folder: impl Into<PathBuf>) -> Self {
        Self::of(Known::built_in().clone(), folder)
    }

    /// As [`Models::open`], with a list of one's own.
    pub fn of(known: Known, folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), known }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// All models on the list, here or not.
    pub fn known(&self) -> &[Model] {
        self.known.models()
    }

    /// What stands on the list under `name`.
    ///
    /// # Errors
    /// [`ModelsError::Unknown`].
    pub fn model(&self, name: &str) -> Result<&Model, ModelsError> {
        self.known
            .find(name)
            .ok_or_else(|| ModelsError::Unknown { name: name.to_owned(), known: self.names() })
    }

    /// The files of `name`, all here and as long as they should be. Their bytes are not read: see
    /// [`Models::verified`].
    ///
    /// # Errors
    /// [`ModelsError`], which says what to run.
    pub fn find(&self, name: &str) -> Result<ModelFiles, ModelsError> {
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

    /// As [`Models::find`], after hashing every byte. The files may change afterwards; whoever loads them
    /// reads them once, at once.
    ///
    /// # Errors
    /// [`ModelsError`], which says what to run.
    pub fn verified(&self, name: &str) -> Result<ModelFiles, ModelsError> {
        let model = self.model(name)?;
        match self.state(model)? {
            State::Absent => Err(self.absent(model)),
            State::Damaged(what) => Err(damaged(model, what)),
            State::Verified(_) => self.find(name),
        }
    }

    /// How `model` is on this machine. Hashes all its bytes.
    ///
    /// # Errors
    /// [`ModelsError::Lock`].
    pub fn state(&self, model: &Model) -> Result<State, ModelsError> {
        let dir = self.dir(model);
        if !dir.is_dir() {
            return Ok(State::Absent);
        }
        let Some((trust, pins)) = self.pins(model)? else {
            let what = "nothing says which hashes were trusted when it was imported".to_owned();
            return Ok(State::Damaged(what));
        };
        Ok(match pins.iter().find_map(|pin| difference(&dir, pin)) {
            None => State::Verified(trust),
            Some(what) => State::Damaged(what),
        })
    }

    /// The hashes of `model`: compiled in, or recorded when it was imported.
    pub(crate) fn pins(&self, model: &Model) -> Result<Option<(Trust, Vec<Pin>)>, ModelsError> {
        let pinned = model.files.iter().map(|file| {
            Some(Pin { name: file.name.clone(), sha256: file.sha256?, bytes: file.bytes? })
        });
        if let Some(pins) = pinned.collect() {
            return Ok(Some((Trust::Pinned, pins)));
        }
        Ok(self.lock()?.remove(&model.name).map(|locked| (locked.trust, locked.files)))
    }

    pub(crate) fn dir(&self, model: &Model) -> PathBuf {
        self.folder.join(&model.name)
    }

    /// The hashes that were trusted at imports.
    pub(crate) fn lock(&self) -> Result<Lock, ModelsError> {
        let path = self.lock_path();
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Lock::new()),
            Err(cause) => return Err(ModelsError::Lock { path, cause }),
        };
        serde_json::from_slice(&bytes)
            .map_err(|cause| ModelsError::Lock { path, cause: cause.into() })
    }

    pub(crate) fn lock_path(&self) -> PathBuf {
        self.folder.join("models.lock.json")
    }

    fn absent(&self, model: &Model) -> ModelsError {
        ModelsError::Absent {
            name: model.name.clone(),
            folder: self.folder.clone(),
            command: bringing(model),
        }
    }

    fn names(&self) -> String {
        let names: Vec<String> =
            self.known().iter().map(|model| format!("`{}`", model.name)).collect();
        names.join(", ")
    }
}

/// The command that brings a model.
pub(crate) fn bringing(model: &Model) -> String {
    let name = &model.name;
    if model.is_pinned() {
        format!("custody models fetch {name}")
    } else {
        format!("custody models import {name} FOLDER --trust-on-first-use")
    }
}

/// Per model, the hashes that were trusted when it was imported.
pub(crate) type Lock = BTreeMap<String, Locked>;

/// The hashes of one import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Locked {
    pub(crate) trust: Trust,
    pub(crate) files: Vec<Pin>,
}

fn damaged(model: &Model, what: String) -> ModelsError {
    ModelsError::Damaged { name: model.name.clone(), what, command: bringing(model) }
}

/// What is wrong with the file of `pin` in `dir`, if anything.
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
