//! Incidents: from an indicator to a store without what it points to, with every step on the record.
//!
//! The kernel says who may take a step, the planner what an incident reached and what is to be done about it. This
//! crate finds, reads, destroys, looks again, and signs a certificate of what was done. [`Incidents`] is where it
//! starts, and an [`Incident`] goes through its stages: opened, contained, planned, applied, probed.
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
//! In reading order: [`indicator`] (what an operator types), [`search`] (what it finds), `graph` and `gather` (what a
//! plan has to know), [`stage`] (what follows what), [`act`] (open, contain, apply, restore), `sweep`
//! (nothing is left on the disk), [`at_rest`] (and
//! the search that says so), [`probe`] (nor does it come back), [`adapters`] (weights are unloaded), [`certify`] (the
//! certificate). Whether a certificate still holds is for `custody-verify` to find out.
//!
//! Source: RVU §3.

pub mod act;
pub mod adapters;
pub mod at_rest;
mod attest;
mod certified;
pub mod certify;
mod error;
mod gather;
pub mod graph;
pub mod indicator;
pub mod neighbours;
pub mod probe;
pub mod search;
pub mod stage;
mod store;
mod sweep;
pub mod three_way;

pub use certified::member_kind;
pub use error::IncidentError;
pub use gather::Settings;
pub use indicator::Indicator;
pub use neighbours::Vectors;
pub use probe::Ways;
pub use search::{Found, Hits};
pub use stage::{Incident, RefusedStep, StepResult};
pub use store::Incidents;
