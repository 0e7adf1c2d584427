//! Recovery: what to do about everything that a contaminated entry reached (RVU §3.3 and §3.4, docs/design.md §6).
//!
//! Pure: nothing here changes a store. In reading order: [`evidence`] (why an entry is held for contaminated),
//! [`incident`] (the evidence and what it reached), [`spare`] (what of that says nothing new), [`share`] (how much
//! an entry reached), [`risk`] (its score), [`grade`] (what is done to it), [`facts`] and [`plan`] (the whole, to be
//! read before anything happens), [`step`] (what of it is recorded). [`rvu`] scores as published; [`score`] is a
//! number from 0 to 1.

pub mod evidence;
pub mod facts;
pub mod grade;
pub mod incident;
pub mod plan;
pub mod risk;
pub mod rvu;
pub mod score;
mod sentences;
pub mod share;
pub mod spare;
pub mod step;
