//! Where a log keeps its pinned witnesses and their cosignatures: in the folder of its keys, beside the head.
//!
//! - `witnesses`: the [pins](crate::WitnessPins), signed by the owner.
//! - `cosigned/NAME`: the largest head that the witness pinned as NAME cosigned, as a C2SP checkpoint.
//!
//! Whoever can write here can put an older pair back, so neither proves that a log is the newest: only the living
//! witness does.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use custody_keys::{Existing, KeyError, write_secret};
use custody_log::{Hash, LogName, SignedHead};
use ed25519_dalek::{SigningKey, VerifyingKey};

use crate::client::{CosignError, WitnessClient};
use crate::pins::{WitnessPin, WitnessPins, WitnessPinsError};
use crate::state::LatestCosigned;

/// The folder of a log's keys, as far as witnesses go.
#[derive(Debug, Clone)]
pub struct PinFolder(PathBuf);

/// Why pins or cosignatures cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PinFolderError {
    /// There are cosignatures of pinned witnesses, and no pins.
    #[error("the file of pinned witnesses `{0}` is gone; there were some")]
    Gone(PathBuf),
    /// The pins are not as the owner signed them.
    #[error("`{path}` cannot be used")]
    Pins {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        cause: WitnessPinsError,
    },
    /// A file holds no cosignature of this log by the pinned witness.
    #[error("`{0}` is no cosignature of this log by the pinned witness")]
    Cosignature(PathBuf),
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
    /// A file could not be written.
    #[error(transparent)]
    Write(#[from] KeyError),
}

/// Why one of the pinned witnesses did not cosign.
#[derive(Debug, thiserror::Error)]
pub enum CosignHeadError {
    /// It did not cosign.
    #[error(transparent)]
    Cosign(#[from] CosignError),
    /// It did, and its cosignature could not be kept; or the one before it cannot be used.
    #[error(transparent)]
    Keep(#[from] PinFolderError),
}

impl PinFolder {
    /// Names a folder; touches nothing.
    pub fn new(keys: impl Into<PathBuf>) -> Self {
        Self(keys.into())
    }

    /// The pins of the log `origin`, if its owner ever signed any.
    ///
    /// # Errors
    /// [`PinFolderError`] when they are not as the owner signed them, or gone although there were some.
    pub fn load(
        &self,
        origin: &LogName,
        owner: &VerifyingKey,
    ) -> Result<Option<WitnessPins>, PinFolderError> {
        let path = self.pins_path();
        let Some(note) = read(&path)? else {
            let was_used = !self.cosigned_files()?.is_empty();
            return if was_used { Err(PinFolderError::Gone(path)) } else { Ok(None) };
        };
        let pins = WitnessPins::verify(&note, origin, owner);
        pins.map(Some).map_err(|cause| PinFolderError::Pins { path, cause })
    }

    /// Replaces the pins, and removes the cosignatures of witnesses that are no longer among them.
    ///
    /// # Errors
    /// [`PinFolderError`]; the pins are then those from before, or already the new ones.
    pub fn save(&self, pins: &WitnessPins, owner: &SigningKey) -> Result<(), PinFolderError> {
        let kept: Vec<PathBuf> = pins.iter().map(|pin| self.cosigned_path(pin)).collect();
        for file in self.cosigned_files()?.into_iter().filter(|file| !kept.contains(file)) {
            fs::remove_file(&file).map_err(|cause| failed("remove", &file, cause))?;
        }
        write_secret(&self.pins_path(), pins.sign(owner).as_bytes(), Existing::Replace)?;
        Ok(())
    }

    /// The largest head of the log `origin` that this witness cosigned, as far as it is kept here.
    ///
    /// # Errors
    /// [`PinFolderError::Cosignature`] when the file holds anything else.
    pub fn cosigned(
        &self,
        pin: &WitnessPin,
        origin: &LogName,
    ) -> Result<Option<LatestCosigned>, PinFolderError> {
        let path = self.cosigned_path(pin);
        let Some(note) = read(&path)? else { return Ok(None) };
        match pin.key.verify(&note) {
            Ok(cosigned) if cosigned.checkpoint.origin == *origin => {
                Ok(Some(LatestCosigned { cosigned, note }))
            }
            Ok(_) | Err(_) => Err(PinFolderError::Cosignature(path)),
        }
    }

    /// Has one pinned witness cosign a head, and keeps the cosignature. Blocks for as long as the witness takes; a
    /// process that runs long can call it beside its work.
    ///
    /// `prove` gives the consistency proof from a size to the head, and `None` when the log cannot.
    ///
    /// # Errors
    /// [`CosignHeadError`].
    pub fn cosign_head(
        &self,
        pin: &WitnessPin,
        head: &SignedHead,
        prove: impl Fn(u64) -> Option<Vec<Hash>>,
    ) -> Result<LatestCosigned, CosignHeadError> {
        let kept = self.cosigned(pin, &head.checkpoint.origin)?;
        let (known, ours) =
            (kept.map_or(0, |kept| kept.cosigned.checkpoint.size), head.checkpoint.size);
        if known > ours {
            // A witness that was restored from a copy might cosign this, and what is kept here would be lost.
            return Err(CosignError::Ahead { witness: known, ours }.into());
        }
        let client = WitnessClient::new(pin.url.clone(), pin.key.clone());
        let cosigned = client.cosign(head, known, prove)?;
        self.keep(pin, &cosigned)?;
        Ok(cosigned)
    }

    fn keep(&self, pin: &WitnessPin, cosigned: &LatestCosigned) -> Result<(), PinFolderError> {
        let folder = self.cosigned_folder();
        fs::create_dir_all(&folder).map_err(|cause| failed("create", &folder, cause))?;
        write_secret(&self.cosigned_path(pin), cosigned.note.as_bytes(), Existing::Replace)?;
        Ok(())
    }

    fn cosigned_files(&self) -> Result<Vec<PathBuf>, PinFolderError> {
        let folder = self.cosigned_folder();
        let files = match fs::read_dir(&folder) {
            Ok(files) => files,
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(cause) => return Err(failed("read", &folder, cause)),
        };
        let paths = files.map(|file| file.map(|file| file.path()));
        paths.collect::<Result<_, _>>().map_err(|cause| failed("read", &folder, cause))
    }

    fn pins_path(&self) -> PathBuf {
        self.0.join("witnesses")
    }

    fn cosigned_folder(&self) -> PathBuf {
        self.0.join("cosigned")
    }

    fn cosigned_path(&self, pin: &WitnessPin) -> PathBuf {
        self.cosigned_folder().join(pin.name())
    }
}

fn read(path: &Path) -> Result<Option<String>, PinFolderError> {
    match fs::read(path) {
        // What is not UTF-8 is no note, and is refused as one.
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(failed("read", path, cause)),
    }
}

fn failed(doing: &'static str, path: &Path, cause: std::io::Error) -> PinFolderError {
    PinFolderError::File { doing, path: path.into(), cause }
}
