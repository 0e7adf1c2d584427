//! JSON-RPC messages (<https://www.jsonrpc.org/specification>), as MCP uses them: one object, never a batch.

use serde_json::{Value, json};

use super::MAX_MESSAGE_BYTES;
use crate::json::{self, Budget, JsonProblem, Numbers};

/// The most JSON values in one message.
const MAX_VALUES: usize = 1_000_000;

/// The member of `_meta` in which Claude Code says under which id the model made a call.
const CALL_ID: &str = "claudecode/toolUseId";

/// Errors of JSON-RPC.
pub(super) const PARSE_ERROR: i32 = -32_700;
pub(super) const INVALID_REQUEST: i32 = -32_600;
pub(super) const METHOD_NOT_FOUND: i32 = -32_601;
pub(super) const INTERNAL_ERROR: i32 = -32_603;

/// What becomes of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Passage {
    /// Whether it goes on, as it came.
    pub goes_on: bool,
    /// What goes on in its place.
    pub instead: Option<String>,
    /// What goes back to whoever sent it.
    pub reply: Option<String>,
    /// Something to know, without contents.
    pub note: Option<String>,
}

impl Passage {
    pub(super) fn on() -> Self {
        Self { goes_on: true, ..Self::default() }
    }

    pub(super) fn answered(reply: &Value) -> Self {
        Self { reply: Some(reply.to_string()), ..Self::default() }
    }

    pub(super) fn dropped(note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..Self::default() }
    }
}

/// A message.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Message {
    Request { id: Value, method: String, params: Value },
    Notification { method: String, params: Value },
    Response { id: Value, outcome: Result<Value, Value> },
}

/// Why a line is no message.
#[derive(Debug, thiserror::Error)]
pub(super) enum MessageError {
    #[error("the message has more than {MAX_MESSAGE_BYTES} bytes")]
    TooLong,
    #[error("the message is not understood: {0}")]
    Json(#[from] JsonProblem),
    #[error("the message is no request, notification or response of JSON-RPC 2.0")]
    Shape,
}

impl Message {
    pub(super) fn parse(line: &str) -> Result<Self, MessageError> {
        if line.len() > MAX_MESSAGE_BYTES {
            return Err(MessageError::TooLong);
        }
        let mut value = json::parse(line, Numbers::Any, &mut Budget::new(MAX_VALUES))?;
        let object = value.as_object_mut().ok_or(MessageError::Shape)?;
        if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(MessageError::Shape);
        }
        let id = object.remove("id");
        let is_id = id.as_ref().is_none_or(|id| id.is_string() || id.is_number());
        let (result, error) = (object.remove("result"), object.remove("error"));
        let method = object.remove("method");
        match (id, method, result, error) {
            (id, Some(Value::String(method)), None, None) if is_id => {
                let params = object.remove("params").unwrap_or(Value::Null);
                Ok(match id {
                    Some(id) => Self::Request { id, method, params },
                    None => Self::Notification { method, params },
                })
            }
            (Some(id), None, Some(result), None) if is_id => {
                Ok(Self::Response { id, outcome: Ok(result) })
            }
            // An error about a message that could not be read has no id.
            (id, None, None, Some(error)) => {
                Ok(Self::Response { id: id.unwrap_or(Value::Null), outcome: Err(error) })
            }
            _ => Err(MessageError::Shape),
        }
    }
}

/// The id under which the model made a call, where the host says so.
pub(super) fn call_id(params: &Value) -> Option<&str> {
    params.get("_meta")?.get(CALL_ID)?.as_str()
}

/// A response with a result.
pub(super) fn result(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// A response with an error.
pub(super) fn error(id: &Value, code: i32, message: &str) -> Value {
    let message = format!("Custody: {message}");
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// A response that says that the record cannot be kept, for programs too: `data` names the state of the service. The
/// text stands there once more, for the log.
pub(super) fn unrecorded(id: &Value, cause: &dyn std::fmt::Display) -> (String, String) {
    let text = format!("the record cannot be kept: {cause}");
    let mut response = error(id, INTERNAL_ERROR, &text);
    response["error"]["data"] = json!({ "custody": "degraded" });
    (response.to_string(), text)
}

/// The result of a tool call that says `text` to the model.
pub(super) fn tool_result(text: &str, structured: Option<Value>, is_error: bool) -> Value {
    let mut result = json!({
        "resultType": "complete",
        "content": [{ "type": "text", "text": text }],
        "isError": is_error,
    });
    if let (Some(structured), Some(object)) = (structured, result.as_object_mut()) {
        object.insert("structuredContent".into(), structured);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_reader_reads_alike_is_a_message_and_nothing_else() {
        let request = Message::parse(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).unwrap();
        assert!(matches!(request, Message::Request { .. }), "{request:?}");
        let note = Message::parse(r#"{"jsonrpc":"2.0","method":"x","params":{}}"#).unwrap();
        assert!(matches!(note, Message::Notification { .. }), "{note:?}");
        for (text, is_ok) in [
            (r#"{"jsonrpc":"2.0","id":"a","result":{}}"#, true),
            (r#"{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"m"}}"#, false),
            (r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}"#, false),
        ] {
            let response = Message::parse(text).unwrap();
            let Message::Response { outcome, .. } = response else { unreachable!("{text}") };
            assert_eq!(outcome.is_ok(), is_ok, "{text}");
        }
        for text in [
            "",
            "[]",
            "{}",
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"a","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
            r#"{"jsonrpc":"2.0","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
        ] {
            assert!(Message::parse(text).is_err(), "{text}");
        }
    }
}
