//! Which tool calls read or change an agent's memory, and how.
//!
//! A table names the tools; [`MemoryTools::recognise`] turns a call of one into a
//! [`MemoryCall`]: a key and what to do there. Whether that is allowed, and whether the
//! key is a key at all, is decided elsewhere.
//!
//! The files, in reading order:

mod call;

mod table;

mod recognise;

mod watched;

pub use call::{Edit, MemoryCall, MemoryCallError};
pub use table::{MemoryTools, Operation};
