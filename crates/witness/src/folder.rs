//! A witness on disk: its key and its state.
//!
//! One folder per witness, mode 0700, of a user or machine that the log's user cannot write to:
//!
//! - `witness.key`: PKCS#8, mode 0600.
//! - `state.json`: the name, the logs, and what was cosigned last of each. Replaced whole and synced before a
//!   cosignature leaves.
//! - `lock`: locked while a process uses the folder, so that two cannot sign from one memory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use custody_keys::{Existing, KeyError, write_secret};
use custody_log::{CosignerKey, LogName, LogVerifier};
use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey, EncodePrivateKey};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::state::{AcceptedSubmission, LatestCosigned, WitnessSigner, WitnessState, WitnessedLog};

/// The version of the state file.
const VERSION: u32 = 1;

/// A witness that this process alone uses.
#[derive(Debug)]
pub struct WitnessFolder {
    path: PathBuf,
    signer: WitnessSigner,
    state: WitnessState,
    /// Unlocks the folder when it is dropped.
    _lock: File,
}

/// Why a witness cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WitnessFolderError {
    /// A witness is there already.
    #[error("there is a witness in `{0}` already")]
    Exists(PathBuf),
    /// No witness was made here.
    #[error("there is no witness in `{0}`")]
    NoWitness(PathBuf),
    /// The key is there and the state is not. Signing without a memory could contradict what was signed before.
    #[error("`{0}` is missing, and a witness without its memory must not sign; make a new witness")]
    NoState(PathBuf),
    /// Another process uses the folder.
    #[error("another process uses the witness in `{0}`")]
    InUse(PathBuf),
    /// The key cannot be read.
    #[error("`{0}` is no private key")]
    Key(PathBuf),
    /// The state is not what was written.
    #[error("`{path}` is not what this witness wrote: {what}")]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
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

/// The state could not be stored, so nothing was given out.
#[derive(Debug, thiserror::Error)]
#[error("could not store what is to be cosigned")]
pub struct CommitError(#[source] pub KeyError);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateFile {
    version: u32,
    name: String,
    logs: Vec<LogEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LogEntry {
    origin: String,
    key: String,
    /// The note that was cosigned last. Size, root and time are in it, under our own signature.
    cosigned: Option<String>,
}

impl WitnessFolder {
    /// Makes a witness of this name with this key.
    ///
    /// # Errors
    /// [`WitnessFolderError::Exists`] when there is one: its key may be pinned somewhere.
    pub fn create(
        path: impl Into<PathBuf>,
        name: LogName,
        key: SigningKey,
    ) -> Result<Self, WitnessFolderError> {
        let path = path.into();
        make_private(&path)?;
        let lock = lock(&path)?;
        if key_path(&path).exists() {
            return Err(WitnessFolderError::Exists(path));
        }
        let folder = Self {
            signer: WitnessSigner::new(name, key),
            state: WitnessState::default(),
            path,
            _lock: lock,
        };
        // The state first: without a key nothing was ever signed, so what was interrupted here can be begun again.
        folder.store(&folder.state)?;
        let pem = folder.signer.key().to_pkcs8_pem(LineEnding::LF);
        let pem = pem.map_err(|_| WitnessFolderError::Key(key_path(&folder.path)))?;
        write_secret(&key_path(&folder.path), pem.as_bytes(), Existing::Keep)?;
        Ok(folder)
    }

    /// Opens a witness with all it remembers.
    ///
    /// # Errors
    /// [`WitnessFolderError`]; every doubt about the state refuses the witness.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, WitnessFolderError> {
        let path = path.into();
        if !key_path(&path).exists() {
            return Err(WitnessFolderError::NoWitness(path));
        }
        let lock = lock(&path)?;
        let (signer, state) = read_witness(&path)?;
        Ok(Self { signer, state, path, _lock: lock })
    }

    /// What a witness's key verifies with and what it remembers, while another process may be using it.
    ///
    /// # Errors
    /// As [`WitnessFolder::open`].
    pub fn look(path: &Path) -> Result<(CosignerKey, WitnessState), WitnessFolderError> {
        let (signer, state) = read_witness(path)?;
        Ok((signer.cosigner_key(), state))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it remembers.
    pub const fn state(&self) -> &WitnessState {
        &self.state
    }

    /// What verifies its cosignatures.
    pub fn cosigner_key(&self) -> CosignerKey {
        self.signer.cosigner_key()
    }

    pub(crate) const fn signer(&self) -> &WitnessSigner {
        &self.signer
    }

    /// Changes which logs are served, and stores that.
    ///
    /// # Errors
    /// What `change` fails with, or that the state could not be stored; then nothing has changed.
    pub fn change<E: From<WitnessFolderError>>(
        &mut self,
        change: impl FnOnce(&mut WitnessState) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut state = self.state.clone();
        change(&mut state)?;
        self.store(&state).map_err(WitnessFolderError::from)?;
        self.state = state;
        Ok(())
    }

    /// Stores an accepted checkpoint, and then gives its cosignature out.
    ///
    /// # Errors
    /// [`CommitError`] when it could not be stored; the cosignature is then gone.
    pub fn commit(&mut self, accepted: AcceptedSubmission) -> Result<String, CommitError> {
        let mut state = self.state.clone();
        let line = state.commit(accepted);
        self.store(&state).map_err(CommitError)?;
        self.state = state;
        Ok(line)
    }

    fn store(&self, state: &WitnessState) -> Result<(), KeyError> {
        let name = self.signer.cosigner_key().name.to_string();
        let logs = state.logs().map(|(origin, log)| LogEntry {
            origin: origin.to_string(),
            key: log.verifier.to_string(),
            cosigned: log.latest.as_ref().map(|latest| latest.note.clone()),
        });
        let file = StateFile { version: VERSION, name, logs: logs.collect() };
        let json = serde_json::to_string_pretty(&file).expect("the state holds text only");
        write_secret(&state_path(&self.path), json.as_bytes(), Existing::Replace)
    }
}

fn read_witness(path: &Path) -> Result<(WitnessSigner, WitnessState), WitnessFolderError> {
    let file = key_path(path);
    if !file.exists() {
        return Err(WitnessFolderError::NoWitness(path.into()));
    }
    let pem = Zeroizing::new(read(&file)?);
    let key = SigningKey::from_pkcs8_pem(&pem).map_err(|_| WitnessFolderError::Key(file))?;
    let file = state_path(path);
    if !file.exists() {
        return Err(WitnessFolderError::NoState(file));
    }
    let (name, state) = parse_state(&read(&file)?, &key)
        .map_err(|what| WitnessFolderError::State { path: file, what })?;
    Ok((WitnessSigner::new(name, key), state))
}

fn parse_state(text: &str, key: &SigningKey) -> Result<(LogName, WitnessState), String> {
    let file: StateFile = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if file.version != VERSION {
        return Err(format!("its version is `{}`, not `{VERSION}`", file.version));
    }
    let name = LogName::new(file.name).map_err(|error| error.to_string())?;
    let cosigner = CosignerKey { name: name.clone(), key: key.verifying_key() };
    let mut state = WitnessState::default();
    for entry in file.logs {
        let origin = LogName::new(entry.origin).map_err(|error| error.to_string())?;
        let verifier: LogVerifier = entry.key.parse().map_err(|error| format!("{error}"))?;
        let latest = entry.cosigned.map(|note| latest(&origin, note, &cosigner)).transpose()?;
        let log = WitnessedLog { verifier, latest };
        if state.restore(origin.clone(), log).is_some() {
            return Err(format!("`{origin}` stands in it twice"));
        }
    }
    Ok((name, state))
}

fn latest(
    origin: &LogName,
    note: String,
    cosigner: &CosignerKey,
) -> Result<LatestCosigned, String> {
    match cosigner.verify(&note) {
        Ok(cosigned) if cosigned.checkpoint.origin == *origin => {
            Ok(LatestCosigned { cosigned, note })
        }
        Ok(_) | Err(_) => Err(format!("it did not cosign what is said of `{origin}`")),
    }
}

fn key_path(folder: &Path) -> PathBuf {
    folder.join("witness.key")
}

fn state_path(folder: &Path) -> PathBuf {
    folder.join("state.json")
}

fn read(path: &Path) -> Result<String, WitnessFolderError> {
    fs::read_to_string(path).map_err(|cause| failed("read", path, cause))
}

fn lock(folder: &Path) -> Result<File, WitnessFolderError> {
    let path = folder.join("lock");
    let file = File::options().append(true).create(true).open(&path);
    let file = file.map_err(|cause| failed("open", &path, cause))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(WitnessFolderError::InUse(folder.into())),
        Err(fs::TryLockError::Error(cause)) => Err(failed("lock", &path, cause)),
    }
}

fn make_private(folder: &Path) -> Result<(), WitnessFolderError> {
    fs::create_dir_all(folder).map_err(|cause| failed("create", folder, cause))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
            .map_err(|cause| failed("protect", folder, cause))?;
    }
    Ok(())
}

fn failed(doing: &'static str, path: &Path, cause: std::io::Error) -> WitnessFolderError {
    WitnessFolderError::File { doing, path: path.into(), cause }
}
