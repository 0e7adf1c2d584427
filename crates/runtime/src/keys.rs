//! Keys on disk: the owner's and other humans' under their passphrases, the log key beside the head.
//!
//! A folder per store, mode 0700, elsewhere than the store itself:
//!
//! - `log.key`: PKCS#8, mode 0600. Signs checkpoints and nothing else, so that the program can write
//!   without anybody present.
//! - `humans/NAME.pem`: PKCS#8 encrypted under a passphrase (PBES2, scrypt, AES-256).
//! - `log.key.next`: the log key that a rotation is about to put in force.
//! - `head`: the signed head of the store.
//! - `lock`: held by whoever changes the log key.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use custody_certificate::{CertificateError, Recovery};
use custody_kernel::principal::{Authority, Principal, challenge_bytes};
use custody_log::{Digest, LogKey, StoreId};
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey, EncodePrivateKey};
use ed25519_dalek::{Signer, SigningKey};
use zeroize::Zeroizing;

use crate::clock::random;
use crate::store::{StoreError, sync_folder};

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

/// A key that nobody but its holder can use. Wiped when dropped.
pub struct HumanKey(SigningKey);

impl std::fmt::Debug for HumanKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HumanKey(…)")
    }
}

impl HumanKey {
    /// A fresh key from the operating system's randomness.
    pub fn generate() -> Self {
        Self(fresh_key())
    }

    /// Its public half.
    pub fn public_key(&self) -> Digest {
        Digest(self.0.verifying_key().to_bytes())
    }

    /// Proves to the kernel that this key's holder is here now.
    ///
    /// # Errors
    /// [`StoreError::Proof`] when `principal` has another key.
    pub fn prove(&self, principal: &Principal) -> Result<Authority, StoreError> {
        let challenge = random();
        let signature = self.0.sign(&challenge_bytes(&challenge));
        Ok(Authority::by_signature(principal, &challenge, &signature)?)
    }

    /// Signs the certificate of a recovery, as the store's owner. Returns the file.
    ///
    /// # Errors
    /// When a reader would refuse it.
    pub fn certify_recovery(&self, recovery: &Recovery) -> Result<Vec<u8>, CertificateError> {
        custody_certificate::certify(recovery, &self.0)
    }

    /// Certifies a log key for one store, as its owner.
    pub(crate) fn certify(&self, store: StoreId, log_key: &SigningKey) -> LogKey {
        let public_key = Digest(log_key.verifying_key().to_bytes());
        let signature = self.0.sign(&LogKey::certified_bytes(store, &public_key));
        LogKey { public_key, certificate: hex::encode(signature.to_bytes()) }
    }
}

pub(crate) fn fresh_key() -> SigningKey {
    SigningKey::from_bytes(&Zeroizing::new(random::<32>()))
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

    /// The names of the humans whose keys are here.
    pub fn humans(&self) -> Vec<String> {
        let Ok(files) = fs::read_dir(self.0.join("humans")) else { return Vec::new() };
        let name =
            |file: fs::DirEntry| Some(file.file_name().to_str()?.strip_suffix(".pem")?.to_owned());
        let mut names: Vec<_> = files.flatten().filter_map(name).collect();
        names.sort_unstable();
        names
    }

    /// Unlocks a human's key.
    ///
    /// # Errors
    /// [`StoreError::Key`] when it is not there or the passphrase is wrong.
    pub fn unlock(&self, name: &str, passphrase: &str) -> Result<HumanKey, StoreError> {
        let path = self.human_path(name);
        let pem = self.read(&path)?;
        let key = SigningKey::from_pkcs8_encrypted_pem(&pem, passphrase);
        key.map(HumanKey).map_err(|_| StoreError::Key { path, why: "wrong passphrase".into() })
    }

    /// Stores a human's key under a passphrase.
    ///
    /// # Errors
    /// [`StoreError::Key`] when there is one of that name that may not be replaced.
    pub fn store_human(
        &self,
        name: &str,
        key: &HumanKey,
        passphrase: &str,
        existing: Existing,
    ) -> Result<(), StoreError> {
        let path = self.human_path(name);
        let pem = key.0.to_pkcs8_encrypted_pem(passphrase, LineEnding::LF);
        let pem =
            pem.map_err(|cause| StoreError::Key { path: path.clone(), why: cause.to_string() })?;
        self.make_folders()?;
        write_secret(&path, pem.as_bytes(), existing)
    }

    /// Puts a log key in place of whatever is there.
    pub(crate) fn replace_log_key(&self, key: &SigningKey) -> Result<(), StoreError> {
        self.store_next_log_key(key)?;
        self.take_next_log_key()
    }

    /// Stores the log key that a rotation is about to put in force.
    pub(crate) fn store_next_log_key(&self, key: &SigningKey) -> Result<(), StoreError> {
        let path = self.next_log_key_path();
        let pem = key.to_pkcs8_pem(LineEnding::LF);
        let pem =
            pem.map_err(|cause| StoreError::Key { path: path.clone(), why: cause.to_string() })?;
        self.make_folders()?;
        write_secret(&path, pem.as_bytes(), Existing::Replace)
    }

    /// Puts the next log key in force: after its rotation was committed.
    pub(crate) fn take_next_log_key(&self) -> Result<(), StoreError> {
        let (from, to) = (self.next_log_key_path(), self.log_key_path());
        fs::rename(&from, &to).map_err(|cause| StoreError::File {
            doing: "rename",
            path: from,
            cause,
        })?;
        sync_folder(&to)
    }

    /// Finishes a rotation that was interrupted after its commit, if the next key is the right one. Asked
    /// for under [`KeyFolder::lock`], so that nobody stores another next key in between.
    pub(crate) fn finish_rotation(
        &self,
        signs: impl Fn(&SigningKey) -> bool,
    ) -> Result<(), StoreError> {
        match self.next_log_key()? {
            Some(next) if signs(&next) => self.take_next_log_key(),
            _ => Ok(()),
        }
    }

    /// The key for which `signs` holds: the one in force, or the next, when its rotation was committed
    /// and not yet finished. Changes nothing.
    pub(crate) fn signer(
        &self,
        signs: impl Fn(&SigningKey) -> bool,
    ) -> Result<Option<SigningKey>, StoreError> {
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
    pub(crate) fn lock(&self) -> Result<fs::File, StoreError> {
        let file = self.lock_file()?;
        file.lock().map_err(|cause| self.cannot_lock(cause))?;
        Ok(file)
    }

    /// The same, unless another process is changing keys right now.
    pub(crate) fn try_lock(&self) -> Result<Option<fs::File>, StoreError> {
        let file = self.lock_file()?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(cause)) => Err(self.cannot_lock(cause)),
        }
    }

    fn lock_file(&self) -> Result<fs::File, StoreError> {
        self.make_folders()?;
        let mut options = fs::OpenOptions::new();
        let opened = options.append(true).create(true).open(self.lock_path());
        opened.map_err(|cause| self.cannot_lock(cause))
    }

    fn lock_path(&self) -> PathBuf {
        self.0.join("lock")
    }

    fn cannot_lock(&self, cause: std::io::Error) -> StoreError {
        StoreError::File { doing: "lock", path: self.lock_path(), cause }
    }

    fn next_log_key(&self) -> Result<Option<SigningKey>, StoreError> {
        let path = self.next_log_key_path();
        // Looked for and read in one step: in between, another process may take it or store another.
        match fs::read_to_string(&path).map(Zeroizing::new) {
            Ok(pem) => parse_log_key(&pem, path).map(Some),
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(StoreError::Key { path, why: cause.to_string() }),
        }
    }

    pub(crate) fn log_key(&self) -> Result<SigningKey, StoreError> {
        let path = self.log_key_path();
        if !path.exists() {
            return Err(StoreError::NoKeys(self.0.clone()));
        }
        self.read_log_key(path)
    }

    fn read_log_key(&self, path: PathBuf) -> Result<SigningKey, StoreError> {
        parse_log_key(&self.read(&path)?, path)
    }

    fn next_log_key_path(&self) -> PathBuf {
        self.0.join("log.key.next")
    }

    fn log_key_path(&self) -> PathBuf {
        self.0.join("log.key")
    }

    fn human_path(&self, name: &str) -> PathBuf {
        // Names are checked when a principal is added; a name from elsewhere cannot leave the folder.
        let name: String =
            name.chars().map(|c| if c.is_alphanumeric() || c == '-' { c } else { '_' }).collect();
        self.0.join("humans").join(format!("{name}.pem"))
    }

    fn read(&self, path: &Path) -> Result<Zeroizing<String>, StoreError> {
        let text = fs::read_to_string(path);
        text.map(Zeroizing::new)
            .map_err(|cause| StoreError::Key { path: path.into(), why: cause.to_string() })
    }

    fn make_folders(&self) -> Result<(), StoreError> {
        let humans = self.0.join("humans");
        let failed = |cause| StoreError::File { doing: "create", path: humans.clone(), cause };
        fs::create_dir_all(&humans).map_err(failed)?;
        private(&self.0)?;
        private(&humans)
    }
}

fn parse_log_key(pem: &str, path: PathBuf) -> Result<SigningKey, StoreError> {
    SigningKey::from_pkcs8_pem(pem)
        .map_err(|cause| StoreError::Key { path, why: cause.to_string() })
}

/// Writes a file that nobody else may read, whole or not at all.
fn write_secret(path: &Path, bytes: &[u8], existing: Existing) -> Result<(), StoreError> {
    let failed = |cause| StoreError::File { doing: "write", path: path.into(), cause };
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    // Temporary files are made with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    let written = match existing {
        Existing::Replace => file.persist(path),
        Existing::Keep => file.persist_noclobber(path),
    };
    written.map_err(|error| failed(error.error))?;
    sync_folder(path)
}

#[cfg(unix)]
fn private(folder: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
        .map_err(|cause| StoreError::File { doing: "protect", path: folder.into(), cause })
}

#[cfg(not(unix))]
fn private(_: &Path) -> Result<(), StoreError> {
    Ok(())
}
