//! The commands of the gateway: `init`, `serve`, `connect`, `hook`, `enforce`, `mcp` and `mcp-memory`.
//!
//! `connection`: what a coding agent is connected by. `agent_host`, `claude_code`, `codex`, `copilot`, `gemini`,
//! `hook_settings`, `hook_command`: where each keeps its settings, and what stands in them. `changed_files`: how they
//! were before. `watched`, `sign`: what the owner adopts. `local_service`: how the programs of hooks and MCP servers
//! ask `custody serve`, and `service_address`: where. `service_user`: a user of its own for the service.

mod agent_host;
mod changed_files;
mod claude_code;
mod codex;
pub(super) mod connect;
mod connection;
mod copilot;
pub(super) mod enforce;
mod gemini;
pub(super) mod hook;
mod hook_command;
mod hook_settings;
pub(super) mod init;
mod local_service;
pub(super) mod mcp;
pub(super) mod serve;
mod service_address;
mod service_user;
mod sign;
mod watched;
mod whole_file;
