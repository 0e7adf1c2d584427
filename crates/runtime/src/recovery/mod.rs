//! Recovery: from an indicator to a store without what it points to, with every step on the record.
//!
//! The kernel says what an incident reached and what is to be done; this module finds, reads, destroys and looks
//! again. In reading order: [`indicator`] (what an operator types), [`search`] (what it finds), `gather` (what a plan
//! has to know), [`act`] (open, contain, apply, restore), `sweep` (nothing is left on the disk), [`at_rest`] (and the
//! search that says so), [`probe`] (nor does it come back), [`certify`] (the certificate).
//!
//! Source: RVU §3; docs/design.md §6.6 and §6.7.

pub mod act;
pub mod at_rest;
mod attest;
pub(crate) mod certified;
pub mod certify;
mod error;
mod gather;
pub mod indicator;
pub mod neighbours;
pub mod probe;
pub mod search;
mod sweep;
pub mod three_way;

pub use act::{Applied, Contained};
pub use error::RecoveryError;
pub use gather::Settings;
pub use indicator::Indicator;
pub use neighbours::Vectors;
pub use probe::Ways;
pub use search::{Found, Hits};
