//! Recorded conversations: bytes in, typed messages out.
//!
//! A trace is JSON Lines. Each line is one of
//!
//! - a message, `{"role": …, "content": …}`;
//! - a conversation, `{"messages": […]}` with an optional `id`, or a bare array of messages;
//! - an InjecAgent case, which becomes a conversation of three messages.
//!
//! [`read_trace`] flattens all of them into [`Step`]s. A trace is hostile input: every
//! size is bounded by [`TraceLimits`], and a doubtful line is an error, never a guess.
//!
//! The files, in reading order:

mod reader;

mod message;

mod line;

mod form;

mod openai;

mod injecagent;

mod python_literal;

mod field;

mod links;

mod error;

pub use crate::json::JsonProblem;
pub use error::{TraceError, TraceProblem};
pub use message::{CallRef, Conversation, Message, MessageRole, Step, ToolCall};
pub use python_literal::PythonProblem;
pub use reader::{Trace, TraceLimits, read_trace};
