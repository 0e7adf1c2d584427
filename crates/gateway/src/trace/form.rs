//! Which of the accepted forms a line has.

use serde_json::{Map, Value};

use super::error::TraceProblem;
use super::field::{Path, kind_of, take_name};
use super::injecagent::read_case;
use super::message::Message;
use super::openai::read_message;
use crate::json::Budget;

/// What one line says.
pub(super) enum Form {
    /// One message.
    Message(Spoken),
    /// A whole conversation.
    Conversation(Vec<Spoken>),
}

/// A message and the conversation it is said in, where the trace names one.
pub(super) struct Spoken {
    pub(super) conversation: Option<String>,
    pub(super) message: Message,
}

/// Names of a conversation, in a message or beside `messages`; the first present counts.
const CONVERSATION_FIELDS: [&str; 4] = ["conversation", "conversation_id", "session", "session_id"];

/// Reads one line's value.
///
/// # Errors
/// The value has none of the forms or more than one, or a field of it is wrong.
pub(super) fn read_form(value: Value, budget: &mut Budget) -> Result<Form, TraceProblem> {
    let line = Path::Line;
    match value {
        Value::Array(items) => read_messages(items, None, &line, budget).map(Form::Conversation),
        Value::Object(object) => read_object(object, budget),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err(TraceProblem::NoForm { found: kind_of(&value) })
        }
    }
}

fn read_object(mut object: Map<String, Value>, budget: &mut Budget) -> Result<Form, TraceProblem> {
    let line = Path::Line;
    let has = ["role", "messages", "attacker_instruction"].map(|field| object.contains_key(field));
    match has {
        [true, false, false] => read_spoken(object, &line, budget).map(Form::Message),
        [false, true, false] => {
            let name = match conversation_name(&mut object, &line)? {
                Some(name) => Some(name),
                None => take_name(&mut object, "id", &line)?,
            };
            let at = line.field("messages");
            match object.remove("messages") {
                Some(Value::Array(items)) => {
                    read_messages(items, name.as_deref(), &at, budget).map(Form::Conversation)
                }
                other => Err(at.problem(other.as_ref(), "write an array of messages")),
            }
        }
        [false, false, true] => {
            let said = read_case(object, budget)?;
            let unnamed = said.into_iter().map(|message| Spoken { conversation: None, message });
            Ok(Form::Conversation(unnamed.collect()))
        }
        [false, false, false] => Err(TraceProblem::NoForm { found: "an object of no known form" }),
        _ => Err(TraceProblem::SeveralForms),
    }
}

fn read_messages(
    items: Vec<Value>,
    name: Option<&str>,
    at: &Path<'_>,
    budget: &mut Budget,
) -> Result<Vec<Spoken>, TraceProblem> {
    let mut said = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let at = at.index(index);
        let Value::Object(object) = item else {
            return Err(at.problem(Some(&item), "write a message: an object with `role`"));
        };
        let mut spoken = read_spoken(object, &at, budget)?;
        if spoken.conversation.is_none() {
            spoken.conversation = name.map(str::to_owned);
        }
        said.push(spoken);
    }
    Ok(said)
}

fn read_spoken(
    mut object: Map<String, Value>,
    at: &Path<'_>,
    budget: &mut Budget,
) -> Result<Spoken, TraceProblem> {
    let conversation = conversation_name(&mut object, at)?;
    Ok(Spoken { conversation, message: read_message(object, at, budget)? })
}

fn conversation_name(
    object: &mut Map<String, Value>,
    at: &Path<'_>,
) -> Result<Option<String>, TraceProblem> {
    for field in CONVERSATION_FIELDS {
        if let Some(name) = take_name(object, field, at)? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}
