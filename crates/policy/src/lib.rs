//! Cedar text in, allow, ask or deny with the policy ids out.
//!
//! In reading order: [`policy`] (a text that was read and checked), [`question`] (what is asked of it),
//! [`facts`] (what it gets to see of a call), `answer` (the strictest word wins), [`explain`] (why),
//! [`manifests`] (what tools do), [`cases`] (tables that test a policy), [`mod@examples`] (policies to start from),
//! [`mod@draft`] (manifests from a server's own list).
//!
//! Knows the kernel's types and nothing else of ours: no storage, no network, no files.

mod answer;
pub mod cases;
pub mod draft;
pub mod examples;
pub mod explain;
pub mod facts;
mod guess;
mod lexemes;
mod limits;
pub mod manifests;
mod places;
pub mod policy;
pub mod problem;
pub mod question;
mod request;
mod uses;

pub use cases::{CaseOutcome, run_cases};
pub use draft::{draft, pin};
pub use examples::{Example, examples};
pub use explain::Explanation;
pub use manifests::Manifests;
pub use policy::{Policy, PolicyError};
pub use question::{Caller, Described, Question};
