//! The `custody` command, and what the laboratory's own command shares with it.
//!
//! `custody` calls [`run`] and nothing else, `custody-hook` [`run_hook`]. The rest is for `custody-lab`, which takes
//! the same options and prints in the same way:
//!
//! - [`context`], [`output`], [`programs`]: global options and folders, what is printed, where the other program is.
//! - [`detector`], [`language_model`]: the options that choose them.
//! - [`attacks`]: the ten attacks that `custody demo` plays and `custody eval memory` counts.
//!
//! Exit codes: 0 fine, 1 something was refused or found, 2 wrong usage or an internal error.

pub mod attacks;
mod command;
mod config;
pub mod context;
mod credential;
mod file_error;
mod new_store;
pub mod output;
mod page;
pub mod programs;
mod reveal;
mod running_service;
mod token_file;

pub use command::{detector, language_model, run, run_hook};
