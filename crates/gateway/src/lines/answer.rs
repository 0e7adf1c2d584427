//! Answers. Every refusal gives three reasons under one decision id: a short and neutral one for the model, a helpful
//! one for the user, and every argument with its origin for the auditor.

use custody_arguments::{ArgumentOrigin, RecordedArgument};
use custody_kernel::memory::item::Mode;
use custody_kernel::record::{Answer, Record, Request as Asked};
use custody_log::{EntryId, Seq, SessionId};
use custody_runtime::StoreError;
use custody_runtime::session::search::SearchError;
use custody_runtime::store::Receipt;
use custody_runtime::tools::{Decision, GateError};
use serde_json::{Map, Value, json};

use super::object;
use super::request::RequestError;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Request(RequestError),
    #[error("there is no session `{0}` on this connection; open one first")]
    UnknownSession(SessionId),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Gate(#[from] GateError),
    #[error(transparent)]
    Search(#[from] SearchError),
}

impl Failure {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Request(_)
            | Self::Gate(
                GateError::ToolName(_)
                | GateError::Lookalike { .. }
                | GateError::TooManyIntents
                | GateError::UnknownIntent(_)
                | GateError::Intent(_),
            ) => "request",
            Self::UnknownSession(_) => "session",
            Self::Store(_) | Self::Gate(_) | Self::Search(_) => "store",
        }
    }
}

/// The answer to what could not be done. Nothing was.
pub(super) fn failed(failure: &Failure) -> Map<String, Value> {
    let mut message = failure.to_string();
    let mut cause = std::error::Error::source(failure);
    while let Some(error) = cause {
        message = format!("{message}: {error}");
        cause = error.source();
    }
    object(json!({ "error": { "kind": failure.kind(), "message": message } }))
}

/// The answer to a change of memory that was asked for. `what` is a noun for the model; `mode` is that of the item.
pub(super) fn decided_change(what: &str, receipt: &Receipt, mode: Mode) -> Map<String, Value> {
    let decision = match &receipt.answer {
        Answer::Done | Answer::Value { .. } | Answer::NotFound => "allow",
        Answer::Pending { .. } => "ask",
        Answer::Refused(_) => return with(refused(what, receipt), "mode", json!(mode)),
    };
    let mut answer = object(json!({
        "decision": decision, "proposal": receipt.id, "taint": taint(receipt), "mode": mode,
    }));
    if let Answer::Pending { expires, because, .. } = &receipt.answer {
        answer.insert("expires".into(), json!(expires.0));
        let user = because.as_ref().map(ToString::to_string).unwrap_or_else(|| {
            "this item is under review; a reviewer may release the change".to_owned()
        });
        let model = to_model(what, decision, receipt.id);
        let reasons = json!({ "model": model, "user": user, "audit": [] });
        answer.insert("reasons".into(), reasons);
    }
    answer
}

/// The answer to declared intents.
pub(super) fn declared(receipt: &Receipt) -> Map<String, Value> {
    match &receipt.answer {
        Answer::Refused(_) => refused("declaration", receipt),
        Answer::Done | Answer::Value { .. } | Answer::NotFound | Answer::Pending { .. } => {
            object(json!({
                "decision": "allow", "proposal": receipt.id, "taint": taint(receipt),
            }))
        }
    }
}

/// The answer to what was refused.
pub(super) fn refused(what: &str, receipt: &Receipt) -> Map<String, Value> {
    let user = receipt.answer.refusal().map(ToString::to_string).unwrap_or_default();
    let model = to_model(what, "deny", receipt.id);
    object(json!({
        "decision": "deny",
        "proposal": receipt.id,
        "taint": taint(receipt),
        "reasons": { "model": model, "user": user, "audit": [] },
    }))
}

/// The taint of an entry, in the word of the protocol.
pub(super) const fn taint(receipt: &Receipt) -> &'static str {
    if receipt.label.is_tainted() { "tainted" } else { "clean" }
}

fn with(mut answer: Map<String, Value>, name: &str, value: Value) -> Map<String, Value> {
    answer.insert(name.to_owned(), value);
    answer
}

/// The answer to a proposed call. `name` gives the id of an entry.
pub(super) fn decided(
    decision: Decision,
    record: &Record,
    name: impl Fn(Seq) -> Result<EntryId, StoreError>,
) -> Result<Map<String, Value>, StoreError> {
    let audit = audited(record, name)?;
    Ok(match decision {
        Decision::Allow(granted) => {
            let arguments: Value = serde_json::from_str(granted.arguments()).unwrap_or_default();
            object(json!({
                "decision": "allow",
                "proposal": granted.decision(),
                "call": { "tool": granted.tool(), "arguments": arguments },
                "reasons": { "audit": audit },
            }))
        }
        Decision::Ask(waiting) => {
            let user = waiting.because.map(|because| because.to_string()).unwrap_or_default();
            object(json!({
                "decision": "ask",
                "proposal": waiting.proposal,
                "expires": waiting.expires.0,
                "again": waiting.again,
                "reasons": { "model": to_model("call", "ask", waiting.proposal), "user": user, "audit": audit },
            }))
        }
        Decision::Deny { decision, because } => object(json!({
            "decision": "deny",
            "proposal": decision,
            "reasons": {
                "model": to_model("call", "deny", decision), "user": because.to_string(), "audit": audit,
            },
        })),
    })
}

/// Says nothing that an attacker who wrote part of the context could use to try again better.
fn to_model(what: &str, decision: &str, id: EntryId) -> String {
    match decision {
        "ask" => {
            format!("This {what} waits for approval and was not made. Go on without it. [{id}]")
        }
        _ => format!("This {what} was not made. Go on without it. [{id}]"),
    }
}

fn audited(
    record: &Record,
    name: impl Fn(Seq) -> Result<EntryId, StoreError>,
) -> Result<Vec<Value>, StoreError> {
    let Asked::Call(call) = &record.request else { return Ok(Vec::new()) };
    call.leaves.iter().map(|leaf| audited_argument(leaf, &name)).collect()
}

fn audited_argument(
    leaf: &RecordedArgument,
    name: impl Fn(Seq) -> Result<EntryId, StoreError>,
) -> Result<Value, StoreError> {
    let (origin, from): (&str, &[Seq]) = match &leaf.origin {
        ArgumentOrigin::User => ("user", &[]),
        ArgumentOrigin::Party { from } => ("party", from),
        ArgumentOrigin::Trusted => ("trusted", &[]),
        ArgumentOrigin::Tool { from } => ("tool", from),
        ArgumentOrigin::Model => ("model", &[]),
    };
    let from = from.iter().map(|seq| name(*seq)).collect::<Result<Vec<_>, _>>()?;
    Ok(json!({ "argument": leaf.path, "sink": leaf.sink, "origin": origin, "from": from }))
}
