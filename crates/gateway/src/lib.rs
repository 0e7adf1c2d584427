//! How the outside speaks to Custody: protocol and trace formats.
//!
//! - [`trace`]: recorded conversations, as JSON Lines, into typed messages.
//! - [`memory_tools`]: which tool calls read or change an agent's memory.
//!
//! - [`replay`]: a trace played against a store, as if the agent in it had been guarded.
//! - [`lines`]: sessions over JSON Lines, for host programs that run agents.
//!
//! The first two only parse: they open no file, ask no clock and decide nothing.

mod excerpt;
pub mod lines;
pub mod memory_tools;
pub mod replay;
pub mod trace;
