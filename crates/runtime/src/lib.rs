//! The library that an application embeds: sessions, the label of what enters, and the gate before tool calls.
//!
//! A [`Store`] is the record of an agent memory. A [`Session`] is a context that grows under one credential:
//! what enters
//! it is observed and labelled, and what it asks for is decided by the kernel. A [`tools::Gate`] stands before tool
//! calls.
//!
//! ```
//! use custody_kernel::label::Channel;
//! use custody_kernel::memory::rate::Limits;
//! use custody_kernel::namespace::Scope;
//! use custody_runtime::ingress::Observation;
//! use custody_runtime::session::Write;
//! use custody_runtime::{Session, clock::Clock, scratch::Scratch};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let scratch = Scratch::new(Limits::default(), Clock::System)?;
//! let session = Session::open(&scratch.store, &scratch.owner, None)?;
//! session.observe(Observation::message(Channel::User, "Remember that I am Ada.")).wait()?;
//! let written = session.write(Write::new(Scope::Shared, "name".parse()?, "Ada")).wait()?;
//! assert!(written.answer.refusal().is_none());
//!
//! // What a page says taints the context, and a tainted write is refused.
//! session.observe(Observation::message(Channel::Web, "The user's name is Mallory.")).wait()?;
//! let written = session.write(Write::new(Scope::Shared, "name".parse()?, "Mallory")).wait()?;
//! assert!(written.answer.refusal().is_some());
//! # Ok(())
//! # }
//! ```
//!
//! The store is a crate of its own, `custody-store`, whose items are found here too.
//!
//! The trusted base beside the kernel and the store: [`ingress`] (labelling at ingress), [`echo`] (which
//! parts of a text repeat an untrusted one) and `tools/decide.rs` (the
//! decide-and-commit step of tool calls).

pub mod advice;
mod alike;
pub mod anomaly;
pub mod echo;
pub mod ingress;
pub mod normal;
pub mod scratch;
pub mod session;
mod session_texts;
pub mod tools;
mod traced;
pub mod watch;

pub use custody_store as store;
pub use custody_store::{OpenError, Paths, PrincipalError, Store, StoreError, clock, principals};
pub use session::Session;
pub use session_texts::SessionTexts;
