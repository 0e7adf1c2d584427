//! A field of a line: taking it out, and saying where it stood.

use std::fmt;

use serde_json::{Map, Value};

use super::error::TraceProblem;

/// Bytes of a conversation's name. Every message of a line repeats it.
const MAX_NAME_BYTES: usize = 512;

/// Where in a line a value stands, such as `messages[0].tool_calls[2].function`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Path<'a> {
    Line,
    Field(&'a Path<'a>, &'static str),
    Index(&'a Path<'a>, usize),
}

impl Path<'_> {
    pub(super) fn field(&self, name: &'static str) -> Path<'_> {
        Path::Field(self, name)
    }

    pub(super) fn index(&self, index: usize) -> Path<'_> {
        Path::Index(self, index)
    }

    /// What stands here is wrong. `advice` says what to write instead.
    pub(super) fn problem(&self, found: Option<&Value>, advice: &'static str) -> TraceProblem {
        let found = found.map_or("missing", kind_of).to_owned();
        TraceProblem::WrongField { path: self.to_string(), found, advice }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Line => Ok(()),
            Path::Field(Path::Line, name) => formatter.write_str(name),
            Path::Field(parent, name) => write!(formatter, "{parent}.{name}"),
            Path::Index(parent, index) => write!(formatter, "{parent}[{index}]"),
        }
    }
}

/// What a value is, in words.
pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// An optional string; null is the same as absent.
pub(super) fn take_text(
    object: &mut Map<String, Value>,
    field: &'static str,
    at: &Path<'_>,
) -> Result<Option<String>, TraceProblem> {
    match object.remove(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        found => Err(at.field(field).problem(found.as_ref(), "write a string")),
    }
}

/// A string that must be there.
pub(super) fn require_text(
    object: &mut Map<String, Value>,
    field: &'static str,
    at: &Path<'_>,
    advice: &'static str,
) -> Result<String, TraceProblem> {
    match object.remove(field) {
        Some(Value::String(text)) => Ok(text),
        found => Err(at.field(field).problem(found.as_ref(), advice)),
    }
}

/// An optional name: a short string, or an integer for its digits.
pub(super) fn take_name(
    object: &mut Map<String, Value>,
    field: &'static str,
    at: &Path<'_>,
) -> Result<Option<String>, TraceProblem> {
    let name = match object.remove(field) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(name)) => name,
        Some(Value::Number(number)) if !number.is_f64() => number.to_string(),
        found => {
            return Err(at.field(field).problem(found.as_ref(), "write a string or an integer"));
        }
    };
    if name.len() > MAX_NAME_BYTES {
        let found = format!("`{}` bytes long", name.len());
        let path = at.field(field).to_string();
        return Err(TraceProblem::WrongField { path, found, advice: "write at most 512 bytes" });
    }
    Ok(Some(name))
}
