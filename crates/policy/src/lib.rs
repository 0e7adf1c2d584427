//! Cedar policies for the tool calls of agents: text in, allow, ask or deny with the ids of the policies out.
//!
//! ```
//! use custody_policy::{Manifests, Policy, run_cases};
//!
//! let policy = Policy::parse(
//!     r#"
//!     @id("reading")
//!     @description("this session only reads")
//!     permit (principal, action, resource)
//!     when { resource.effect == Effect::"reads" };
//!     "#,
//! )?;
//!
//! // A table of cases tests it, as `custody policy test` does.
//! let outcomes = run_cases(
//!     &policy,
//!     &Manifests::default(),
//!     r#"
//!     [tools.write_file]
//!     effect = "writes"
//!     arguments.path = { sink = "path" }
//!
//!     [[case]]
//!     name = "writing what the user asked for"
//!     heard.user = "Write notes.txt."
//!     call = "write_file"
//!     arguments = { path = "notes.txt" }
//!     expect = "deny"
//!     "#,
//! )?;
//! assert!(outcomes.iter().all(|outcome| outcome.passed));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In reading order: [`policy`] (a parsed and validated text), `schema` (the names it can use), [`question`] (a
//! proposed call), [`facts`] (what a policy can refer to), `answer` (the strictest statement wins), `described` and
//! `in_force` (what a call is judged by), [`explain`] (the reasons), [`manifests`] (what tools do), [`cases`] (tables
//! that test a policy), [`mod@examples`] (policies to start from), [`mod@draft`] (manifests drafted from a server's
//! list of tools).
//!
//! The crate has no storage, network or files.

mod amount;
mod answer;
pub mod cases;
mod described;
pub mod draft;
pub mod examples;
pub mod explain;
pub mod facts;
mod guess;
mod in_force;
mod lexemes;
mod limits;
pub mod manifests;
mod places;
pub mod policy;
pub mod problem;
pub mod question;
mod request;
mod schema;
mod statement;
mod uses;
mod validate;

pub use cases::{CaseOutcome, run_cases};
pub use described::DescribedTool;
pub use draft::{draft, pin};
pub use examples::{Example, examples};
pub use explain::Explanation;
pub use in_force::InForce;
pub use manifests::Manifests;
pub use policy::{Policy, PolicyError};
pub use question::{Caller, Described, Question};
pub use schema::SCHEMA;
pub use statement::{CHANGED, FLOOR, Statement, StatementEffect};
