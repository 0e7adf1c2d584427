//! Parsing: a line into a request. Unknown operations, unknown fields and what two readers could read
//! differently are errors.

use custody_arguments::{Arguments, ArgumentsError, Intent};
use custody_kernel::adapter::Name;
use custody_kernel::key::Key;
use custody_kernel::label::Channel;
use custody_kernel::record::ObservationKind;
use custody_log::{EntryId, SessionId};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::memory::{self, MemoryRequest};

/// What a host asks for.
pub(super) enum Request {
    Open(Open),
    Tools(Tools),
    Observe(Observe),
    Propose(Propose),
    Decide(Decide),
    Intend(Intend),
    Result(ResultOf),
    Memory(MemoryRequest),
    Close(Close),
}

/// Why a line is no request.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error("the line has more than {} bytes; send less at once", super::MAX_LINE_BYTES)]
    TooLong,
    #[error("the line is no request of this protocol; see docs/reference/session.md")]
    Json(#[source] serde_json::Error),
    #[error(
        "`{0}` is no operation; use open, tools, observe, intend, propose, decide, result, read, list, search, write, \
         promote, delete or close"
    )]
    Operation(String),
    #[error("a search finds 1 to {} items", custody_runtime::session::search::FOUND_AT_ONCE)]
    Limit,
    #[error("name either a `call` or a `write`")]
    Proposal,
    #[error(transparent)]
    Arguments(#[from] ArgumentsError),
}

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    id: Value,
    #[serde(default)]
    op: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Open {
    #[serde(rename = "id")]
    _id: IgnoredAny,
    #[serde(rename = "op")]
    _op: IgnoredAny,
    pub(super) alias: Option<String>,
    pub(super) host: Option<Name>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tools {
    #[serde(rename = "id")]
    _id: IgnoredAny,
    #[serde(rename = "op")]
    _op: IgnoredAny,
    pub(super) session: SessionId,
    /// The name that the operator gave the server.
    pub(super) server: Option<String>,
    pub(super) tools: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Observe {
    #[serde(rename = "id")]
    _id: IgnoredAny,
    #[serde(rename = "op")]
    _op: IgnoredAny,
    pub(super) session: SessionId,
    pub(super) kind: ObservationKind,
    pub(super) channel: Channel,
    pub(super) text: String,
    pub(super) origin: Option<String>,
    #[serde(default)]
    pub(super) lowered: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProposeLine<'a> {
    #[serde(rename = "id")]
    _id: IgnoredAny,
    #[serde(rename = "op")]
    _op: IgnoredAny,
    session: SessionId,
    #[serde(borrow)]
    call: Option<CallLine<'a>>,
    write: Option<WriteLine>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallLine<'a> {
    tool: String,
    #[serde(borrow)]
    arguments: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteLine {
    #[serde(default)]
    pub(crate) shared: bool,
    pub(crate) key: Key,
    pub(crate) text: String,
    #[serde(default)]
    pub(crate) queue: bool,
}

pub(super) struct Propose {
    pub(super) session: SessionId,
    pub(super) what: Proposed,
}

/// What a model wants to do.
pub(super) enum Proposed {
    Call { tool: String, arguments: Arguments },
    Write(WriteLine),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Decide {
    #[serde(rename = "id")]
    _id: IgnoredAny,
    #[serde(rename = "op")]
    _op: IgnoredAny,
    pub(super) session: SessionId,
    pub(super) proposal: EntryId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Intend {
    #[serde(rename = "id")]
    _id: IgnoredAny,
    #[serde(rename = "op")]
    _op: IgnoredAny,
    pub(super) session: SessionId,
    /// The session whose calls are covered, if it is another one.
    #[serde(rename = "for")]
    pub(super) covered: Option<SessionId>,
    pub(super) intents: Vec<Intent>,
    /// How long they may be used, in seconds.
    pub(super) expires_in: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResultOf {
    #[serde(rename = "id")]
    _id: IgnoredAny,
    #[serde(rename = "op")]
    _op: IgnoredAny,
    pub(super) session: SessionId,
    pub(super) proposal: EntryId,
    pub(super) text: String,
    pub(super) structured: Option<Value>,
    /// Fields to take out; the model is shown these and nothing else of the output.
    pub(super) extract: Option<Vec<String>>,
    /// Said for the reader of the protocol; an error text is as untrusted as any other.
    #[serde(default, rename = "error")]
    _error: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Close {
    #[serde(rename = "id")]
    _id: IgnoredAny,
    #[serde(rename = "op")]
    _op: IgnoredAny,
    pub(super) session: SessionId,
}

/// Reads one line: its id, whatever else is wrong with it, and the request.
pub(super) fn parse(line: &str) -> Result<(Value, Request), (Value, RequestError)> {
    if line.len() > super::MAX_LINE_BYTES {
        return Err((Value::Null, RequestError::TooLong));
    }
    let head: Head =
        serde_json::from_str(line).map_err(|cause| (Value::Null, RequestError::Json(cause)))?;
    match request(line, head.op) {
        Ok(request) => Ok((head.id, request)),
        Err(error) => Err((head.id, error)),
    }
}

fn request(line: &str, op: String) -> Result<Request, RequestError> {
    let request = match op.as_str() {
        "open" => read(line).map(Request::Open),
        "tools" => read(line).map(Request::Tools),
        "observe" => read(line).map(Request::Observe),
        "propose" => return propose(read(line).map_err(RequestError::Json)?),
        "decide" => read(line).map(Request::Decide),
        "intend" => read(line).map(Request::Intend),
        "result" => read(line).map(Request::Result),
        "read" | "list" | "search" | "write" | "promote" | "delete" => {
            return memory::request(line, &op).map(Request::Memory);
        }
        "close" => read(line).map(Request::Close),
        _ => return Err(RequestError::Operation(op)),
    };
    request.map_err(RequestError::Json)
}

pub(super) fn read<'a, T: Deserialize<'a>>(line: &'a str) -> Result<T, serde_json::Error> {
    serde_json::from_str(line)
}

fn propose(line: ProposeLine<'_>) -> Result<Request, RequestError> {
    let what = match (line.call, line.write) {
        (Some(call), None) => {
            let arguments = Arguments::parse(call.arguments.get())?;
            Proposed::Call { tool: call.tool, arguments }
        }
        (None, Some(write)) => Proposed::Write(write),
        (Some(_), Some(_)) | (None, None) => return Err(RequestError::Proposal),
    };
    Ok(Request::Propose(Propose { session: line.session, what }))
}
