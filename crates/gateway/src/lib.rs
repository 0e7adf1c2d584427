//! How the outside speaks to Custody: protocol and trace formats.
//!
//! - [`trace`]: recorded conversations, as JSON Lines, into typed messages.
//!
//! It only parses: it opens no file, asks no clock and decides nothing.

mod excerpt;
pub mod trace;
