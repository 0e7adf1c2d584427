//! `custody eval agent`: what an attacker gets when the agent does whatever it reads, and what is left for the user.
//!
//! The worst-case agent makes the calls of the user's task and, once it has read an injection, those of the
//! injection too. No model is needed and no luck involved: what a defence lets through is what an attacker gets.
//!
//! [`defence`] holds the defences behind one interface, [`agentdojo`] the field's own benchmark, played by its own
//! package. [`published`] is what others report; `merged`, `tables` and `pictures` make a report of the figures.

pub mod adaptive;
pub mod agentdojo;
pub mod bipia;
pub mod defence;
pub mod injecagent;
pub mod published;
pub mod scenarios;
pub mod suite;

mod merged;
mod pictures;
mod tables;
