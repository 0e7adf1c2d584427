//! The keys of a store: the log key that signs checkpoints, and the keys of humans.
//!
//! Log keys lie in a folder that only one user may read. The keys of humans lie beside them, each under a passphrase;
//! reading and writing those is the feature `passphrase`, which is on by default.
//!
//! ```
//! use custody_keys::{Existing, HumanKey, KeyFolder};
//! # #[cfg(feature = "passphrase")]
//! use custody_keys::NewPassphrase;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let keys = KeyFolder::new(folder.path().join("keys"));
//! let ada = HumanKey::generate();
//! # #[cfg(feature = "passphrase")] {
//! let passphrase = String::from("correct horse battery staple");
//! let passphrase = NewPassphrase::for_key_of("ada", passphrase.into())?;
//! keys.store_human("ada", &ada, &passphrase, Existing::Keep)?;
//!
//! let unlocked = keys.unlock("ada", "correct horse battery staple")?;
//! assert_eq!(unlocked.public_key(), ada.public_key());
//! assert!(keys.unlock("ada", "wrong").is_err());
//! # }
//! # Ok(())
//! # }
//! ```

mod error;
mod folder;
mod human;
#[cfg(feature = "passphrase")]
mod passphrase;
pub mod public_key;
#[cfg(feature = "passphrase")]
mod strength;

pub use error::KeyError;
pub use folder::{Existing, KeyFolder, fresh_key, write_secret};
pub use human::HumanKey;
#[cfg(feature = "passphrase")]
pub use strength::{NewPassphrase, WeakPassphrase};
