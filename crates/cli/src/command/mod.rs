//! One file per command: its arguments, and what it prints.

mod adapter;
mod cert;
mod cli;
mod completions;
mod demo;
pub mod detector;
mod doctor;
mod gateway;
mod incident;
mod keys;
mod laboratory;
pub mod language_model;
mod ledger;
mod memory;
mod models;
mod policy;
mod principal;
mod replay;
mod route;
mod screen;
mod session;
mod witness;

pub use cli::{run, run_hook};
