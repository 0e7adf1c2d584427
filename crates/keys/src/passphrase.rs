//! The keys of humans on disk, each under the passphrase of its holder.

use std::fs;
use std::path::PathBuf;

use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey, EncodePrivateKey};

use crate::error::KeyError;
use crate::folder::{Existing, KeyFolder, write_secret};
use crate::human::HumanKey;

impl KeyFolder {
    /// The names of the humans whose keys are here.
    pub fn humans(&self) -> Vec<String> {
        let Ok(files) = fs::read_dir(self.path().join("humans")) else { return Vec::new() };
        let files = files.flatten().map(|file| file.file_name());
        let mut names: Vec<String> = files
            .filter_map(|file| Some(file.to_str()?.strip_suffix(".pem")?.to_owned()))
            .collect();
        names.sort_unstable();
        names
    }

    /// Unlocks a human's key.
    ///
    /// # Errors
    /// [`KeyError::Key`] when it is not there or the passphrase is wrong.
    pub fn unlock(&self, name: &str, passphrase: &str) -> Result<HumanKey, KeyError> {
        let path = self.human_path(name);
        let pem = self.read(&path)?;
        let key = SigningKey::from_pkcs8_encrypted_pem(&pem, passphrase);
        key.map(HumanKey::from).map_err(|_| KeyError::Key { path, why: "wrong passphrase".into() })
    }

    /// Stores a human's key under a passphrase.
    ///
    /// # Errors
    /// [`KeyError::Key`] when there is one of that name that may not be replaced.
    pub fn store_human(
        &self,
        name: &str,
        key: &HumanKey,
        passphrase: &str,
        existing: Existing,
    ) -> Result<(), KeyError> {
        let path = self.human_path(name);
        let pem = key.signing_key().to_pkcs8_encrypted_pem(passphrase, LineEnding::LF);
        let pem =
            pem.map_err(|cause| KeyError::Key { path: path.clone(), why: cause.to_string() })?;
        self.make_folders()?;
        write_secret(&path, pem.as_bytes(), existing)
    }

    fn human_path(&self, name: &str) -> PathBuf {
        // Names are checked when a principal is added; a name from elsewhere cannot leave the folder.
        let name: String =
            name.chars().map(|c| if c.is_alphanumeric() || c == '-' { c } else { '_' }).collect();
        self.path().join("humans").join(format!("{name}.pem"))
    }
}
