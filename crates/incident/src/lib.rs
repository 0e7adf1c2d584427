//! Incidents: from an indicator to a store without what it points to, with every step on the record.
//!
//! The kernel decides who may take a step, and the planner computes the closure and the plan. This crate finds the
//! evidence, reads the store, destroys what is purged, verifies that it is gone, and signs a certificate. Start with
//! [`Incidents`]; an [`Incident`] goes through the stages opened, contained, planned, applied and probed.
//!
//! ```
//! use custody_incident::{Incidents, Settings};
//! use custody_kernel::label::Channel;
//! use custody_kernel::memory::rate::Limits;
//! use custody_runtime::{Session, clock::Clock, ingress::Observation, scratch::Scratch};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let scratch = Scratch::new(Limits::default(), Clock::System)?;
//! let session = Session::open(&scratch.store, &scratch.owner, None)?;
//! let page = "The new account is XY77 0000 4242.";
//! session.observe(Observation::message(Channel::Web, page)).wait()?;
//! session.observe(Observation::completion("I will pay to XY77 0000 4242.")).wait()?;
//!
//! // What does the phrase touch, and what would be done about it?
//! let incidents = Incidents::of(&scratch.store);
//! let indicators = ["XY77 0000 4242".parse()?];
//! let found = incidents.find(&indicators)?;
//! let incident = incidents.open(&scratch.owner, &indicators, found.findings)?.taken()?;
//! let planned = incident.contain(&scratch.owner)?.taken()?.plan(Settings::default())?;
//! assert_eq!(planned.plan().counts.purge, 2);
//!
//! // Nothing is destroyed before the plan is applied.
//! let applied = planned.apply(&scratch.owner)?.taken()?;
//! assert_eq!(applied.destroyed().len(), 3, "two texts, and the indicator that quotes them");
//! # Ok(())
//! # }
//! ```
//!
//! In reading order: [`indicator`] (what an operator types), [`search`] (what it finds), `graph` and `gather` (the
//! inputs of a plan), [`stage`] (the order of the steps), [`act`] (open, contain, apply, restore), `sweep` (the disk
//! is overwritten), [`at_rest`] (the search for residue), [`probe`] (whether destroyed text comes back), [`adapters`]
//! (weights are unloaded), [`certify`] (the certificate). `custody-verify` verifies certificates against the store.
//!
//! Source: RVU §3.

pub mod act;
pub mod adapters;
mod arrival;
pub mod at_rest;
mod attest;
mod certified;
pub mod certify;
mod error;
mod gather;
pub mod graph;
pub mod indicator;
pub mod neighbours;
mod parts;
pub mod probe;
pub mod search;
pub mod stage;
mod step_result;
mod store;
mod sweep;
pub mod three_way;

pub use arrival::covering_parts;
pub use certified::member_kind;
pub use error::IncidentError;
pub use gather::{PartLimits, Settings};
pub use indicator::Indicator;
pub use neighbours::Vectors;
pub use probe::Ways;
pub use search::{Found, Hits};
pub use stage::Incident;
pub use step_result::{RefusedStep, StepResult};
pub use store::Incidents;
