//! The keys of humans on disk, each under the passphrase of its holder.

use std::fs;
use std::path::PathBuf;

use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::spki::der::pem::{LineEnding, PemLabel};
use ed25519_dalek::pkcs8::{DecodePrivateKey, EncodePrivateKey};
use pkcs8::pkcs5::pbes2::Parameters;
use pkcs8::pkcs5::scrypt;
use pkcs8::{EncryptedPrivateKeyInfoRef, PrivateKeyInfoRef, SecretDocument};
use zeroize::Zeroizing;

use crate::error::KeyError;
use crate::folder::{Existing, KeyFolder, write_secret};
use crate::human::HumanKey;
use crate::strength::NewPassphrase;

/// What one guess at a passphrase costs: parameters of scrypt (RFC 7914). A key file holds its own, so that files of
/// another cost can be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GuessCost {
    log_n: u8,
    r: u32,
    p: u32,
}

impl GuessCost {
    /// A second of one core and 256 MiB of memory. Before, it was a sixteenth of both (G22).
    pub(crate) const STANDARD: Self = Self { log_n: 18, r: 8, p: 1 };

    /// Next to nothing, for the keys of tests.
    #[cfg(feature = "cheap-passphrases")]
    const CHEAP: Self = Self { log_n: 1, r: 1, p: 1 };

    /// Steps of one guess, each over as many bytes of memory.
    fn work(self) -> u64 {
        (1 << self.log_n) * u64::from(self.r) * u64::from(self.p)
    }

    /// Parameters of this cost for a new file: fresh salt, AES-256 in CBC mode.
    fn parameters(self) -> Result<Parameters, pkcs8::Error> {
        let cost = scrypt::Params::new(self.log_n, self.r, self.p)
            .map_err(|_| pkcs8::Error::ParametersMalformed)?;
        let (salt, iv) = (fresh(), fresh());
        Ok(Parameters::generate_scrypt_aes256cbc(cost, &salt, iv)?)
    }
}

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

    /// Unlocks a human's key, whatever a guess at its passphrase costs.
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
    /// [`KeyError::File`] when there is one of that name that may not be replaced.
    pub fn store_human(
        &self,
        name: &str,
        key: &HumanKey,
        passphrase: &NewPassphrase,
        existing: Existing,
    ) -> Result<(), KeyError> {
        self.store_at(GuessCost::STANDARD, name, key, passphrase.as_str(), existing)
    }

    /// Stores a human's key so that opening it costs nothing, under a passphrase that may be weak. For tests, which
    /// would else spend a second on each key: the feature `cheap-passphrases` is for `[dev-dependencies]` only.
    ///
    /// # Errors
    /// As [`KeyFolder::store_human`].
    #[cfg(feature = "cheap-passphrases")]
    pub fn store_human_cheaply(
        &self,
        name: &str,
        key: &HumanKey,
        passphrase: &str,
        existing: Existing,
    ) -> Result<(), KeyError> {
        self.store_at(GuessCost::CHEAP, name, key, passphrase, existing)
    }

    /// Whether a guess at the passphrase of `name` costs less than it does for keys that are stored now. Storing the
    /// key again, under the same or another passphrase, mends that.
    ///
    /// # Errors
    /// [`KeyError::Key`] when there is no such file, or it is no encrypted key.
    pub fn is_cheap_to_guess(&self, name: &str) -> Result<bool, KeyError> {
        let path = self.human_path(name);
        let work = work_of_a_guess(&self.read(&path)?);
        let work = work.ok_or(KeyError::Key { path, why: "it is no encrypted key".into() })?;
        Ok(work < GuessCost::STANDARD.work())
    }

    fn store_at(
        &self,
        cost: GuessCost,
        name: &str,
        key: &HumanKey,
        passphrase: &str,
        existing: Existing,
    ) -> Result<(), KeyError> {
        let path = self.human_path(name);
        let pem = encrypted(key, passphrase, cost)
            .map_err(|cause| KeyError::Key { path: path.clone(), why: cause.to_string() })?;
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

/// The key as PEM, encrypted under `passphrase`.
fn encrypted(
    key: &HumanKey,
    passphrase: &str,
    cost: GuessCost,
) -> Result<Zeroizing<String>, pkcs8::Error> {
    let plain = key.signing_key().to_pkcs8_der()?;
    let plain = PrivateKeyInfoRef::try_from(plain.as_bytes())?;
    let encrypted = plain.encrypt_with_params(cost.parameters()?, passphrase)?;
    Ok(encrypted.to_pem(EncryptedPrivateKeyInfoRef::PEM_LABEL, LineEnding::LF)?)
}

/// The work of a guess at the passphrase of a key file; `None` when it is none. One that does not use scrypt needs no
/// memory, so that many guesses are made at once: it counts as nothing.
fn work_of_a_guess(pem: &str) -> Option<u64> {
    let (_, document) = SecretDocument::from_pem(pem).ok()?;
    let file = EncryptedPrivateKeyInfoRef::try_from(document.as_bytes()).ok()?;
    let Some(scrypt) = file.encryption_algorithm.pbes2()?.kdf.scrypt() else { return Some(0) };
    let (n, r, p) = (scrypt.cost_parameter, scrypt.block_size, scrypt.parallelization);
    Some(n.saturating_mul(r.into()).saturating_mul(p.into()))
}

/// Fresh bytes from the operating system's randomness.
///
/// # Panics
/// When the operating system has no randomness to give. Nothing safe can be done then.
fn fresh() -> [u8; 16] {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system gives randomness");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::fresh_key;

    /// Made before G22 was closed: scrypt with N = 2¹⁴, under the passphrase `password1`.
    const OLD: &str = include_str!("../tests/data/n14.pem");

    #[test]
    fn g22_a_new_key_costs_sixteen_times_as_much_to_guess_and_an_old_one_still_opens() {
        let folder = tempfile::tempdir().unwrap();
        let keys = KeyFolder::new(folder.path());
        keys.make_folders().unwrap();
        fs::write(keys.human_path("ada"), OLD).unwrap();
        let ada = keys.unlock("ada", "password1").unwrap();
        assert!(keys.is_cheap_to_guess("ada").unwrap());
        assert!(keys.unlock("ada", "password2").is_err());

        let passphrase = Zeroizing::new("zebra lamp cedar moon".to_owned());
        let passphrase = NewPassphrase::for_key_of("ada", passphrase).unwrap();
        keys.store_human("ada", &ada, &passphrase, Existing::Replace).unwrap();
        assert!(!keys.is_cheap_to_guess("ada").unwrap());
        let again = keys.unlock("ada", "zebra lamp cedar moon").unwrap();
        assert_eq!(again.public_key(), ada.public_key());
        let new = fs::read_to_string(keys.human_path("ada")).unwrap();
        assert_eq!(work_of_a_guess(&new), work_of_a_guess(OLD).map(|old| 16 * old));
    }

    #[test]
    fn what_is_no_encrypted_key_has_no_cost() {
        let plain = fresh_key().to_pkcs8_pem(LineEnding::LF).unwrap();
        for text in ["", "-----BEGIN ENCRYPTED PRIVATE KEY-----\n", plain.as_str()] {
            assert_eq!(work_of_a_guess(text), None, "{text}");
        }
    }
}
