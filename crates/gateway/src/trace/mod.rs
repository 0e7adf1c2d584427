//! Recorded conversations: bytes in, typed messages out.
//!
//! A trace is JSON Lines. Each line is one of
//!
//! - a message, `{"role": …, "content": …}`;
//! - a conversation, `{"messages": […]}` with an optional `id`, or a bare array of messages;
//! - an InjecAgent case, which becomes a conversation of three messages.
//!
//! [`read_trace`] flattens all of them into [`Step`]s. A trace is hostile input: every
//! size is bounded by [`Limits`], and a doubtful line is an error, never a guess.
//!
//! The files, in reading order:

mod reader;

mod message;

mod line;

mod json;

mod form;

mod openai;

mod injecagent;

mod python_literal;

mod field;

mod links;

mod error;

pub use error::{Problem, TraceError};
pub use json::JsonProblem;
pub use message::{CallRef, Conversation, Message, Role, Step, ToolCall};
pub use python_literal::PythonProblem;
pub use reader::{Limits, Trace, read_trace};
