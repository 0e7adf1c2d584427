//! `custody mcp` and `custody mcp-memory`: between a host and its MCP servers, and the guarded memory as one.
//!
//! Both only move messages: what becomes of each is decided by `custody serve`. `service`: the way there. `server`:
//! the server's process. `lines`: messages on standard input and output. `pin`: what the owner pins of a server.

mod guard;
mod lines;
pub(in crate::command) mod memory;
mod pin;
mod server;
mod service;

pub(in crate::command) use guard::{Args, run};
