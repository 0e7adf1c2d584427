//! The HTTP service: a proxy between agents and their models, and the other end of a coding agent's hooks.
//!
//! `server`: addresses and what answers them, of which `model_method` reads Google's. `listener`: the sockets of
//! clients, and `tls` what encrypts them.
//! `connections`: credentials. [`settings`]: what each connection may do, and the owner's signature on
//! it; `in_force`: which of that holds now.
//! `upstream`: the way to a vendor, and `address` where it may not lead. `exchange`: one request, from its client
//! to its vendor and back. `mcp`: the messages of MCP servers, which `guards` keeps. `times`: what each takes.
//! `log`: one line for each.
//!
//! ```
//! use custody_service::settings::GatewaySettings;
//!
//! // What the owner signed, and what somebody wrote into the file since: the connection stays guarded.
//! let signed = GatewaySettings::parse("[connection.claude-code]\nmode = 'guard'")?;
//! let file = GatewaySettings::parse("[connection.claude-code]\nmode = 'observe'")?;
//! let (in_force, waiting) = file.in_force(&signed);
//! assert_eq!(in_force, signed);
//! assert_eq!(waiting, ["`claude-code` would allow more"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What is recorded and decided is `custody_gateway::proxy`; the store is asked on threads of its own, so that
//! nothing that waits for a disk holds up a socket.

mod address;
mod connections;
mod credential;
mod exchange;
mod guards;
mod in_force;
mod incoming;
mod listener;
mod log;
mod mcp;
mod model_method;
mod server;
pub mod settings;
mod shared;
mod times;
mod tls;
mod upstream;

pub use address::{UpstreamError, checked_upstream};
pub use connections::SessionModels;
pub use server::{Server, ServerError, ServerOptions};
pub use tls::{TlsError, TlsFiles};
pub use upstream::{UpstreamOptions, UpstreamOptionsError};
