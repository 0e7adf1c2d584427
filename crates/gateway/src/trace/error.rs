//! What can be wrong with a trace, and on which line.

use std::error::Error;
use std::{fmt, io};

use super::python_literal::PythonProblem;
use crate::json::JsonProblem;

/// A line that cannot be read as part of a trace.
///
/// Prints as one line, without the file's name. Values from the trace are cut at 60
/// characters and cannot steer a terminal.
#[derive(Debug)]
pub struct TraceError {
    /// From 1, blank lines counted.
    pub line: u64,
    /// What is wrong with it.
    pub problem: TraceProblem,
}

impl fmt::Display for TraceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}: {}", self.line, self.problem)
    }
}

impl Error for TraceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // The problem's own words are in ours already.
        self.problem.source()
    }
}

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
pub enum TraceProblem {
    /// The input failed.
    #[error("the trace could not be read any further; check the file and run again")]
    Read(#[source] io::Error),
    /// The line is longer than [`TraceLimits::max_line_bytes`](super::TraceLimits).
    #[error("longer than `{limit_bytes}` bytes; split it over several lines or raise the limit")]
    LineTooLong {
        /// The bytes allowed.
        limit_bytes: usize,
    },
    /// The line is not UTF-8.
    #[error("byte `{column}` is not UTF-8; save the trace as UTF-8")]
    NotUtf8 {
        /// The first byte that is not, from 1.
        column: usize,
    },
    /// The line has a NUL byte.
    #[error("byte `{column}` is NUL; save the trace as UTF-8 text and write NUL as `\\u0000`")]
    NulByte {
        /// The first one, from 1.
        column: usize,
    },
    /// The line is not JSON as a trace may hold it.
    #[error("{0}")]
    NotJson(JsonProblem),
    /// The line is JSON, and nothing that a trace is made of.
    #[error(
        "found {found}; write a message (`role`), a conversation (`messages` or an array) or an InjecAgent case (`attacker_instruction`)"
    )]
    NoForm {
        /// What the line is.
        found: &'static str,
    },
    /// The line could be read as one thing or as another.
    #[error("more than one of `role`, `messages` and `attacker_instruction`; keep one")]
    SeveralForms,
    /// A field is missing or not what it must be.
    #[error("`{path}` is {found}; {advice}")]
    WrongField {
        /// The field, such as `messages[0].tool_calls[2].function.arguments`.
        path: String,
        /// What stands there.
        found: String,
        /// What should.
        advice: &'static str,
    },
    /// A tool's arguments are not I-JSON.
    #[error("`{path}`: {cause}")]
    Arguments {
        /// The field.
        path: String,
        /// What is wrong inside its string.
        cause: JsonProblem,
    },
    /// An InjecAgent case's parameters are no plain Python dict.
    #[error("`{path}`: {cause}")]
    Parameters {
        /// The field.
        path: String,
        /// What is wrong inside its string.
        cause: PythonProblem,
    },
    /// The trace is longer than [`TraceLimits::max_messages`](super::TraceLimits).
    #[error("more than `{limit}` messages and tool calls; split the trace or raise the limit")]
    TooManyMessages {
        /// The number allowed.
        limit: usize,
    },
}
