//! MCP between a host and its servers, without any network: what a server announces is compared with what the owner
//! pinned, calls are decided before they go on, results are recorded before the host reads them.
//!
//! [`McpGuard`] stands in front of a server; [`MemoryServer`] is one, the guarded memory. Both take one JSON-RPC
//! message after the other, of the revisions 2025-06-18, 2025-11-25 and 2026-07-28, and say what becomes of it. What
//! they do not know goes on as it came.
//!
//! `message`: JSON-RPC. `announced`: what a server says of itself. `guard`, `memory`: the two. `texts`: what a
//! model reads of a message.
//!
//! Source: Model Context Protocol, specification (<https://modelcontextprotocol.io/specification>).

mod announced;
mod guard;
mod memory;
mod message;
mod texts;

pub use announced::{ServerPins, pinned_now};
pub use guard::{McpGuard, ServerName, ServerNameError};
pub use memory::MemoryServer;
pub use message::Passage;

/// The longest message that is read, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 32 << 20;
