//! One file per command: its arguments, and what it prints.

pub(crate) mod data;
pub(crate) mod eval;
pub(crate) mod train;
