//! The parts of requests and answers.

use serde_json::{Value, json};

use crate::wire::block;
use crate::wire::{Undecidable, WireError, required, says, text_of};

/// What stands beside the one thing that a part holds.
const BESIDE: [&str; 5] =
    ["thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata"];

/// What a part holds.
#[derive(Debug)]
pub(super) enum Part<'a> {
    Nothing,
    Text(&'a str),
    /// What the model thought. It stays out of what it is known by: clients leave it out.
    Thought(&'a str),
    Call {
        id: Option<&'a str>,
        name: &'a str,
        arguments: String,
    },
    Result {
        id: Option<&'a str>,
        name: &'a str,
        text: String,
    },
    /// An image or another file, with its kind.
    Content(Value),
    /// What the vendor ran, or nobody knows.
    Undecided(Undecidable, Value),
}

pub(super) fn part_of(part: &Value) -> Result<Part<'_>, WireError> {
    let is_thought = part.get("thought").and_then(Value::as_bool).unwrap_or(false);
    let mut held = members(part).filter(|(name, _)| !BESIDE.contains(&name.as_str()));
    let (name, value) = match (held.next(), held.next()) {
        (Some(held), None) => held,
        (None, _) if part.is_object() => return Ok(Part::Nothing),
        // Readers differ in which of two things count.
        _ => return Err(WireError::Shape("parts")),
    };
    Ok(match name.as_str() {
        "text" => match (value.as_str().ok_or(WireError::Shape("text"))?, is_thought) {
            ("", _) => Part::Nothing,
            (text, false) => Part::Text(text),
            (text, true) => Part::Thought(text),
        },
        "functionCall" => {
            // Nothing decides a call whose arguments come in several events.
            if says(value, "partialArgs") || says(value, "willContinue") {
                return Err(WireError::Shape("args"));
            }
            let arguments = match value.get("args") {
                None | Some(Value::Null) => "{}".to_owned(),
                Some(object @ Value::Object(_)) => object.to_string(),
                Some(_) => return Err(WireError::Shape("args")),
            };
            Part::Call { id: id_of(value), name: required(value, "name")?, arguments }
        }
        "functionResponse" => {
            let name = text_of(value, "name").unwrap_or_default();
            Part::Result { id: id_of(value), name, text: result_text(value)? }
        }
        "inlineData" | "fileData" => Part::Content(with_kind(&name, value)),
        "executableCode" | "codeExecutionResult" | "toolCall" | "toolResponse" => {
            Part::Undecided(Undecidable::VendorTool, with_kind(&name, value))
        }
        _ => Part::Undecided(Undecidable::UnknownBlock, with_kind(&name, value)),
    })
}

fn id_of(value: &Value) -> Option<&str> {
    text_of(value, "id").filter(|id| !id.is_empty())
}

fn with_kind(kind: &str, value: &Value) -> Value {
    json!({ "type": kind, "value": value })
}

/// What a model reads of a result: one text, if there is one, or all of it.
fn result_text(result: &Value) -> Result<String, WireError> {
    let response = result.get("response").unwrap_or(&Value::Null);
    let mut values = response.as_object().into_iter().flat_map(|response| response.values());
    let text = match (values.next(), values.next(), response) {
        (Some(Value::String(text)), None, _) => text.clone(),
        (_, _, Value::Null) => String::new(),
        _ => response.to_string(),
    };
    let files = result.get("parts").filter(|parts| !parts.is_null());
    Ok(match files {
        None => text,
        Some(files) => format!("{text}\n{}", block::result_text(Some(files))?),
    })
}

/// The members of an object that say something, with their names in one spelling.
pub(super) fn members(object: &Value) -> impl Iterator<Item = (String, &Value)> {
    let members = object.as_object().into_iter().flatten();
    members.filter(|(_, value)| !value.is_null()).map(|(name, value)| (camel(name), value))
}

/// A member whose name is written with capitals or with underscores. Nobody knows which of both counts.
pub(super) fn written_in_two_ways<'a>(
    object: &'a Value,
    name: &'static str,
) -> Result<Option<&'a Value>, WireError> {
    let mut found = members(object).filter(|(member, _)| member == name);
    match (found.next(), found.next()) {
        (found, None) => Ok(found.map(|(_, value)| value)),
        (_, Some(_)) => Err(WireError::Shape(name)),
    }
}

/// `function_call` as `functionCall`.
fn camel(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |mut written, part| {
        let mut letters = part.chars();
        written.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        written.push_str(letters.as_str());
        written
    })
}
