//! The commands of the gateway: `init`, `serve`, `connect`, `enforce`, `mcp` and `mcp-memory`.

mod claude_code;
pub(super) mod connect;
pub(super) mod enforce;
pub(super) mod init;
pub(super) mod mcp;
pub(super) mod serve;
mod sign;
mod whole_file;
