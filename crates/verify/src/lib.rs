//! Verifies a store again: what is recorded must follow from the log.
//!
//! Opening a store compares its log with the signed head. [`verify_ledger`] goes further: it decides every request
//! again, judges every tool call again by the recorded texts, takes the closure of every containment again, compares
//! every observed text again with what came before it, and every content with its commitment and every index with the
//! records. [`verify_claims`] does the same, and then compares a recovery certificate with it, claim by claim.
//!
//! ```
//! use custody_kernel::label::Channel;
//! use custody_kernel::memory::rate::Limits;
//! use custody_runtime::{Session, clock::Clock, ingress::Observation, scratch::Scratch};
//! use custody_verify::verify_ledger;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let scratch = Scratch::new(Limits::default(), Clock::System)?;
//! let session = Session::open(&scratch.store, &scratch.owner, None)?;
//! session.observe(Observation::message(Channel::User, "Good morning.")).wait()?;
//!
//! let report = verify_ledger(&scratch.store)?;
//! assert_eq!((report.records, report.contents), (3, 1));
//! # Ok(())
//! # }
//! ```

mod ahead;
mod calls;
mod certificate;
mod echoes;
mod error;
mod index_sample;
mod indexing;
mod ledger;
mod rebuild;

pub use certificate::{ClaimReport, ClaimResult, complete_from_store, verify_claims};
pub use error::VerifyError;
pub use ledger::{VerifyReport, verify_ledger};
pub use rebuild::{RebuiltIndexes, rebuild_indexes};
