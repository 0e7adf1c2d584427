//! Echoes: which parts of an arriving text repeat an untrusted entry of the same tenant.
//!
//! Texts are compared in their canonical form (`custody-text`, decision 0020), in every rendering of one with every
//! rendering of the other. A common run of [`MIN_RUN`] characters counts; the oldest untrusted entry that holds it
//! is its source. Two kinds of older text discount a run (docs/design.md §3.4, G9): what the operator put in as
//! system text in a session of somebody who is trusted, and what the same principal typed as user. The record of the
//! text still names what it repeats, for recovery alone.
//!
//! Runs are found by winnowed fingerprints (Schleimer, Wilkerson, Aiken, 2003,
//! <https://doi.org/10.1145/872757.872770>): with k-grams of 48 characters and windows of 17, two texts with a
//! common run of 64 share at least one. Everything is bounded by counts, never by time (G8): the occurrences looked
//! at for each fingerprint, the texts that are read for one comparison, and the parts a text is cut into. What goes
//! over a bound is untrusted as a whole.
//!
//! In reading order: `prints` (fingerprints of one text), `voice` (whose text an entry holds, and its readings),
//! `compare` (runs, sources and discounts), `index` (keeping fingerprints, a few in each turn of the writer).

mod compare;
mod index;
mod prints;
mod voice;

pub use compare::{ComparedWith, DiscountedRuns, EchoCheck, Echoes, OwnText, Work, echoes_before};
pub use index::Fingerprints;
pub use prints::StoreHasher;
pub use voice::{Voice, voice_of};

pub(crate) use compare::{
    Hit, LOOKUPS_AT_ONCE, Record, Resolved, Sources, hits_before, hits_since, merged, resolve,
    resolve_quickly,
};
pub(crate) use index::insert_waiting;
pub(crate) use voice::voice_in;

/// The shortest run that counts, in canonical characters.
pub const MIN_RUN: usize = 64;

/// The longest text that is compared, in bytes. A longer one is untrusted as a whole, and fingerprinted in pieces of
/// this length, so that it is known again.
pub const MAX_COMPARED_BYTES: usize = 4 << 20;
