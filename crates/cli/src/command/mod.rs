//! One file per command: its arguments, and what it prints.

pub(crate) mod adapter;
pub(crate) mod cert;
pub(crate) mod completions;
pub(crate) mod demo;
pub mod detector;
pub(crate) mod doctor;
pub(crate) mod incident;
pub(crate) mod keys;
pub(crate) mod laboratory;
pub mod language_model;
pub(crate) mod ledger;
pub(crate) mod memory;
pub(crate) mod models;
pub(crate) mod policy;
pub(crate) mod principal;
pub(crate) mod replay;
pub(crate) mod route;
pub(crate) mod screen;
pub(crate) mod session;
pub(crate) mod witness;
