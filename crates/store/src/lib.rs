//! The record of an agent memory on disk: one SQLite file whose log of records is the truth, and a signed head
//! elsewhere.
//!
//! Every request is decided by [`custody_kernel`] and becomes a record, whatever the answer.
//! [`Transaction::ask`] is the
//! one way in; what is read is compared with the signed log before anybody sees it.
//!
//! ```
//! use custody_kernel::memory::rate::Limits;
//! use custody_keys::HumanKey;
//! use custody_store::clock::Clock;
//! use custody_store::{Paths, Store};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let paths =
//!     Paths { store: folder.path().join("custody.db"), keys: folder.path().join("keys") };
//! let key = HumanKey::generate();
//! let store = Store::create(&paths, "ada", &key, Limits::default(), Clock::System)?;
//!
//! // Everything is a record, the creation of the store first.
//! let ada = store.authenticate("ada", &key)?;
//! let receipt = store.set_limits(&ada, Limits::UNLIMITED)?;
//! assert!(receipt.answer.refusal().is_none());
//! drop(store);
//!
//! let store = Store::open(&paths, Clock::System)?;
//! assert_eq!(store.root()?.0, 2);
//! # Ok(())
//! # }
//! ```
//!
//! In reading order: [`Store`] (create, open, adopt, ask), `transaction` (load, decide, commit, audit in one step; part
//! of the trusted base), `writer` (group commit), `open` (verification against the head), `signatures` (many checked at
//! once), `ledger` (what is held in memory), [`View`] and `look` (reading), [`principals`] and [`watch`]. Below them
//! `head`, `schema`, `readers`, `read`, `index`, `index_check`, `fingerprints`, `vectors` and `edges`.

pub mod clock;
mod compact;
mod connection;
mod content;
mod credentials;
mod disk;
mod edges;
mod error;
mod export;
mod fingerprints;
mod follow;
mod frozen;
mod head;
mod index;
mod index_check;
mod index_gap;
mod ledger;
mod look;
mod open;
pub mod principals;
mod read;
mod readers;
mod schema;
mod session_keys;
mod signatures;
mod store;
mod transaction;
pub mod vectors;
mod view;
pub mod watch;
mod writer;

pub use content::{Content, MAX_CONTENT_BYTES, content_of, is_kept};
pub use credentials::checked_name;
pub use edges::{Edges, EntryEdges};
pub use error::{OpenError, PrincipalError, PrincipalNameError, StoreError, Tampering, WatchError};
pub use export::ExportedCheckpoint;
pub use fingerprints::{FINGERPRINTS_PER_TURN, Fingerprint, Occurrence, WaitingFingerprints};
pub use index_gap::IndexGap;
pub use read::RowCounts;
pub use signatures::Signatures;
pub use store::{Paths, Store};
pub use transaction::{Receipt, Transaction};
pub use view::View;
pub use writer::{Ticket, WorkBatch, commit_wait};
