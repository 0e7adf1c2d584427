//! Errors of chat models.

use std::path::PathBuf;
use std::time::Duration;

/// There is no complete answer. It implies nothing about the text in the request.
///
/// No variant contains a key or more of a server's answer than a short, printable excerpt.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// The model does not support the request.
    #[error("the model `{model}` does not support this request: {detail}")]
    Request {
        /// The model.
        model: String,
        /// The problem.
        detail: String,
    },
    /// The conversation does not fit into the model's context.
    #[error(
        "the conversation has {tokens} tokens and `{model}` reads {limit}; shorten it or take a larger model"
    )]
    TooLong {
        /// The model.
        model: String,
        /// Tokens of the conversation.
        tokens: usize,
        /// Tokens of the context.
        limit: usize,
    },
    /// The server is unreachable, or the connection broke.
    #[error("could not reach `{url}`: {detail}")]
    Unreachable {
        /// The URL without its query.
        url: String,
        /// The cause.
        detail: String,
    },
    /// The timeout expired.
    #[error("`{url}` gave no complete answer within {} s; raise the timeout or use a faster model", limit.as_secs_f64())]
    Timeout {
        /// The URL without its query.
        url: String,
        /// The timeout.
        limit: Duration,
    },
    /// The server returned an error status that a retry would not fix.
    #[error("`{url}` returned status {status}: {detail}")]
    Status {
        /// The URL without its query.
        url: String,
        /// The HTTP status code.
        status: u16,
        /// An excerpt of the response.
        detail: String,
    },
    /// The answer is invalid.
    #[error("`{url}` gave an answer that cannot be read: {detail}")]
    Answer {
        /// The URL without its query.
        url: String,
        /// The problem.
        detail: String,
    },
    /// The embedded engine failed.
    #[error("the model `{model}` could not answer")]
    Engine {
        /// The model.
        model: String,
        /// The cause.
        #[source]
        cause: crate::error::ModelError,
    },
    /// The answer could not be recorded.
    #[error("the answer could not be recorded in `{path}`; make room there and ask again")]
    Record {
        /// The recording.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: std::io::Error,
    },
    /// The recording has no answer to this request.
    #[error("no recorded answer for {what}; record it again")]
    NotRecorded {
        /// A short form of the request.
        what: String,
    },
}
