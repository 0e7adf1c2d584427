//! What happens: label, ask the kernel, commit.
//!
//! The kernel decides and knows no effects; this crate performs them. A [`Store`] is a log of records
//! in one SQLite file with a signed head elsewhere; a [`Session`] is a context that grows under one
//! credential.
//!
//! A [`tools::Gate`] stands before tool calls.
//!
//! The trusted base beside the kernel: [`ingress`] (labelling at ingress), [`principals`] (principal
//! authentication), `store/transaction.rs` (the decide-and-commit step of memory) and `tools/decide.rs` (the same
//! of tool calls).

pub mod advice;
pub mod anomaly;
pub mod clock;
pub mod ingress;
pub mod principals;
pub mod scratch;
pub mod session;
pub mod store;
pub mod tools;
pub mod watch;

pub use session::Session;
pub use store::{Paths, Store, StoreError};
