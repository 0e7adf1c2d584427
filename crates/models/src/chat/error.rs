//! Why a model gave no answer.

use std::path::PathBuf;
use std::time::Duration;

/// No whole answer came. Nothing follows from it about the text that was asked about.
///
/// No variant holds a key, and none holds more of a server's answer than a short, printable excerpt.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// The request asks for what this model cannot do.
    #[error("the model `{model}` cannot be asked this: {detail}")]
    Request {
        /// The model.
        model: String,
        /// What is wrong.
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
    /// No server, or it went away.
    #[error("could not reach `{url}`: {detail}")]
    Unreachable {
        /// What was asked, without its query.
        url: String,
        /// What happened.
        detail: String,
    },
    /// The time for an answer is over.
    #[error("`{url}` gave no whole answer within {} s; raise the time-out or take a faster model", limit.as_secs_f64())]
    Timeout {
        /// What was asked, without its query.
        url: String,
        /// The time there was.
        limit: Duration,
    },
    /// The server refuses, and asking again would not help.
    #[error("`{url}` answers with status {status}: {detail}")]
    Status {
        /// What was asked, without its query.
        url: String,
        /// As in HTTP.
        status: u16,
        /// The beginning of what it said.
        detail: String,
    },
    /// The answer is not one.
    #[error("`{url}` gave an answer that cannot be read: {detail}")]
    Answer {
        /// What was asked, without its query.
        url: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The embedded engine failed.
    #[error("the model `{model}` could not answer")]
    Engine {
        /// The model.
        model: String,
        /// Why.
        #[source]
        cause: crate::error::ModelError,
    },
    /// An answer came and could not be recorded.
    #[error("the answer could not be recorded in `{path}`; make room there and ask again")]
    Record {
        /// The recording.
        path: PathBuf,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
    /// A recorded conversation holds no answer to this request.
    #[error("no recorded answer for {what}; record it again")]
    NotRecorded {
        /// The request, in short.
        what: String,
    },
}
