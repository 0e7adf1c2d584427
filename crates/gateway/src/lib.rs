//! How the outside speaks to Custody: protocol and trace formats.
//!
//! - [`trace`]: recorded conversations, as JSON Lines, into typed messages.
//! - [`memory_tools`]: which tool calls read or change an agent's memory.
//!
//! - [`replay`]: a trace played against a store, as if the agent in it had been guarded.
//! - [`wire`]: the dialects of model vendors, whole and streamed.
//! - [`proxy`]: an agent's requests to its model, recorded, and the calls in the answers decided.
//! - [`mcp`]: MCP servers and their hosts, and the guarded memory as such a server.
//! - [`lines`]: sessions over JSON Lines, for host programs that run agents.
//!
//! `trace`, `memory_tools` and `wire` only parse: they open no file, ask no clock and decide nothing.

mod approval_code;
mod excerpt;
mod json;
pub mod lines;
pub mod mcp;
pub mod memory_tools;
pub mod proxy;
pub mod replay;
pub mod trace;
pub mod wire;

pub use approval_code::ApprovalCode;
