//! The record's format: what was asked, by whom, what was answered, and what is known of the entry.
//!
//! Types and their written form; nothing here decides. The [monitor](https://docs.rs/custody-kernel) gives them
//! meaning: a store is the fold of its records.
//!
//! ```
//! use custody_log::Seq;
//! use custody_record::record::Record;
//!
//! let line = br#"{"v":1,"seq":7,"id":"e-00000000000000000000000000000007","at":1790000000000,
//!     "by":{"session":"s-00000000000000000000000000000001"},"request":{"read":{"scope":"shared","key":"notes"}},
//!     "answer":"absent","label":{"channel":"memory","trust":"trusted","taint":"clean"},"parents":[2,5]}"#;
//! let record = Record::from_bytes(line)?;
//! assert_eq!(record.parents, [Seq(2), Seq(5)]);
//! # Ok::<(), custody_record::record::RecordError>(())
//! ```
//!
//! In reading order:
//!
//! - [`label`], [`namespace`], [`key`], [`principal`]: the words.
//! - [`memory`], [`tool`], [`adapter`], [`step`], [`route`], [`evidence`], [`score`], [`migration`]: what is asked
//!   about.
//! - [`advice`]: what was noticed beside it; no decision sees it.
//! - [`record`]: one record, its requests and answers; [`kind`]: which kind of entry it is.
//! - [`lists`]: what a list of entries has to be; [`signature`]: what is signed of a record.

pub mod adapter;
pub mod advice;
pub mod evidence;
pub mod key;
pub mod kind;
pub mod label;
pub mod lists;
pub mod memory;
pub mod migration;
pub mod namespace;
pub mod principal;
pub mod record;
pub mod route;
pub mod score;
pub mod signature;
pub mod step;
pub mod tool;
