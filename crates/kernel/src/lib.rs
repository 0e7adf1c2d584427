//! What is allowed, what is contaminated, what is certified.
//!
//! Pure decisions: no I/O, clock, randomness, concurrency or model. Everything here is a function of
//! its arguments, so an auditor can read it in an afternoon and repeat every decision of a store from
//! its log.
//!
//! In reading order:
//!
//! - [`label`], [`namespace`], [`key`], [`principal`]: the words.
//! - [`memory`], [`tool`], [`adapter`], [`step`], [`route`]: what is asked about.
//! - [`context`]: what a proposal depends on.
//! - [`record`] and [`state`]: what is written down, and the fold that gives it meaning.
//! - [`actions`]: one module per action, each with its decision, its witness and what that changes.
//! - [`monitor`]: decide, commit, fold, recount.

pub mod actions;
pub mod adapter;
pub mod carried;
pub mod context;
pub mod evidence;
pub mod key;
pub mod kind;
pub mod label;
pub mod memory;
pub mod monitor;
pub mod namespace;
pub mod principal;
pub mod record;
pub mod route;
pub mod score;
pub mod state;
pub mod step;
pub mod tool;
