//! The folder of a store's keys: the log key beside the head, and the humans' keys.
//!
//! One folder per store, mode 0700, elsewhere than the store itself:
//!
//! - `log.key`: PKCS#8, mode 0600. Signs checkpoints and nothing else, so that the program can write
//!   without anybody present.
//! - `humans/NAME.pem`: PKCS#8 encrypted under a passphrase (PBES2, scrypt, AES-256).
//! - `log.key.next`: the log key that a rotation is about to put in force.
//! - `head`: the signed head of the store.
//! - `lock`: locked while a process changes the log key.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey, EncodePrivateKey};
use zeroize::Zeroizing;

use crate::error::KeyError;

/// The folder of one store's keys.
#[derive(Debug, Clone)]
pub struct KeyFolder(PathBuf);

/// What to do with a key file that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Fail, so that nothing is lost.
    Keep,
    /// Put the new one in its place.
    Replace,
}

impl KeyFolder {
    /// Names a folder; touches nothing.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where the head is.
    pub fn head(&self) -> PathBuf {
        self.0.join("head")
    }

    /// Whether keys were made here.
    pub fn exists(&self) -> bool {
        self.log_key_path().exists()
    }

    /// Puts a log key in place of whatever is there.
    pub fn replace_log_key(&self, key: &SigningKey) -> Result<(), KeyError> {
        self.store_next_log_key(key)?;
        self.take_next_log_key()
    }

    /// Stores the log key that a rotation is about to put in force.
    pub fn store_next_log_key(&self, key: &SigningKey) -> Result<(), KeyError> {
        let path = self.next_log_key_path();
        let pem = key.to_pkcs8_pem(LineEnding::LF);
        let pem =
            pem.map_err(|cause| KeyError::Key { path: path.clone(), why: cause.to_string() })?;
        self.make_folders()?;
        write_secret(&path, pem.as_bytes(), Existing::Replace)
    }

    /// Puts the next log key in force: after its rotation was committed.
    pub fn take_next_log_key(&self) -> Result<(), KeyError> {
        let (from, to) = (self.next_log_key_path(), self.log_key_path());
        fs::rename(&from, &to).map_err(|cause| KeyError::File {
            doing: "rename",
            path: from,
            cause,
        })?;
        sync_folder(&to)
    }

    /// Finishes a rotation that was interrupted after its commit, if the next key is the right one. Asked
    /// for under [`KeyFolder::lock`], so that nobody stores another next key in between.
    pub fn finish_rotation(&self, signs: impl Fn(&SigningKey) -> bool) -> Result<(), KeyError> {
        match self.next_log_key()? {
            Some(next) if signs(&next) => self.take_next_log_key(),
            _ => Ok(()),
        }
    }

    /// The key for which `signs` holds: the one in force, or the next, when its rotation was committed
    /// and not yet finished. Changes nothing.
    pub fn signer(
        &self,
        signs: impl Fn(&SigningKey) -> bool,
    ) -> Result<Option<SigningKey>, KeyError> {
        // Looked at twice, since the next may be put in force between two looks.
        for _ in 0..2 {
            let keys = [Some(self.log_key()?), self.next_log_key()?];
            if let Some(signer) = keys.into_iter().flatten().find(&signs) {
                return Ok(Some(signer));
            }
        }
        Ok(None)
    }

    /// Keeps other processes from changing keys here until the file is dropped.
    pub fn lock(&self) -> Result<fs::File, KeyError> {
        let file = self.lock_file()?;
        file.lock().map_err(|cause| self.cannot_lock(cause))?;
        Ok(file)
    }

    /// The same, unless another process is changing keys right now.
    pub fn try_lock(&self) -> Result<Option<fs::File>, KeyError> {
        let file = self.lock_file()?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(cause)) => Err(self.cannot_lock(cause)),
        }
    }

    fn lock_file(&self) -> Result<fs::File, KeyError> {
        self.make_folders()?;
        let mut options = fs::OpenOptions::new();
        let opened = options.append(true).create(true).open(self.lock_path());
        opened.map_err(|cause| self.cannot_lock(cause))
    }

    fn lock_path(&self) -> PathBuf {
        self.0.join("lock")
    }

    fn cannot_lock(&self, cause: std::io::Error) -> KeyError {
        KeyError::File { doing: "lock", path: self.lock_path(), cause }
    }

    fn next_log_key(&self) -> Result<Option<SigningKey>, KeyError> {
        let path = self.next_log_key_path();
        // Looked for and read in one step: in between, another process may take it or store another.
        match fs::read_to_string(&path).map(Zeroizing::new) {
            Ok(pem) => parse_log_key(&pem, path).map(Some),
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(KeyError::Key { path, why: cause.to_string() }),
        }
    }

    /// The key that signs checkpoints.
    ///
    /// # Errors
    /// [`KeyError::NoKeys`] when there is none, [`KeyError::Key`] when it cannot be read.
    pub fn log_key(&self) -> Result<SigningKey, KeyError> {
        let path = self.log_key_path();
        if !path.exists() {
            return Err(KeyError::NoKeys(self.0.clone()));
        }
        self.read_log_key(path)
    }

    fn read_log_key(&self, path: PathBuf) -> Result<SigningKey, KeyError> {
        parse_log_key(&self.read(&path)?, path)
    }

    fn next_log_key_path(&self) -> PathBuf {
        self.0.join("log.key.next")
    }

    fn log_key_path(&self) -> PathBuf {
        self.0.join("log.key")
    }

    pub(crate) fn read(&self, path: &Path) -> Result<Zeroizing<String>, KeyError> {
        let text = fs::read_to_string(path);
        text.map(Zeroizing::new)
            .map_err(|cause| KeyError::Key { path: path.into(), why: cause.to_string() })
    }

    pub(crate) fn make_folders(&self) -> Result<(), KeyError> {
        let humans = self.0.join("humans");
        fs::create_dir_all(&humans).map_err(|cause| KeyError::File {
            doing: "create",
            path: humans.clone(),
            cause,
        })?;
        private(&self.0)?;
        private(&humans)
    }
}

fn parse_log_key(pem: &str, path: PathBuf) -> Result<SigningKey, KeyError> {
    SigningKey::from_pkcs8_pem(pem).map_err(|cause| KeyError::Key { path, why: cause.to_string() })
}

/// Writes a file that nobody else may read (mode 0600), whole or not at all, and syncs it and its folder.
///
/// # Errors
/// [`KeyError::File`]; what stood there before is then still there.
pub fn write_secret(path: &Path, bytes: &[u8], existing: Existing) -> Result<(), KeyError> {
    write_whole(path, bytes, existing).map_err(|cause| KeyError::File {
        doing: "write",
        path: path.into(),
        cause,
    })?;
    sync_folder(path)
}

fn write_whole(path: &Path, bytes: &[u8], existing: Existing) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    // Temporary files are made with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    match existing {
        Existing::Replace => file.persist(path)?,
        Existing::Keep => file.persist_noclobber(path)?,
    };
    Ok(())
}

#[cfg(unix)]
fn private(folder: &Path) -> Result<(), KeyError> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(|cause| KeyError::File {
        doing: "protect",
        path: folder.into(),
        cause,
    })
}

#[cfg(not(unix))]
fn private(_: &Path) -> Result<(), KeyError> {
    Ok(())
}

/// Makes what was put into a folder durable there.
fn sync_folder(path: &Path) -> Result<(), KeyError> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    let sync = fs::File::open(folder).and_then(|folder| folder.sync_all());
    sync.map_err(|cause| KeyError::File { doing: "sync", path: folder.into(), cause })
}

/// A fresh key from the operating system's randomness.
///
/// # Panics
/// When the operating system has no randomness to give. Nothing safe can be done then.
pub fn fresh_key() -> SigningKey {
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(bytes.as_mut_slice()).expect("the operating system gives randomness");
    SigningKey::from_bytes(&bytes)
}
