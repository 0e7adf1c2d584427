//! Intents: calls that were declared before anything untrusted was read (G12).
//!
//! An intent binds a tool, and for each of its sinks the values that it may have. Whoever writes what the model reads
//! later chooses at most among them. A wildcard there is for sinks of kind `id` and `other` alone: none for recipients,
//! addresses, amounts, accounts, paths or commands.

use std::collections::BTreeMap;

use custody_log::Seq;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::arguments::Arguments;
use crate::manifest::{Sink, ToolManifest};
use crate::spelling;
use crate::trace::{ArgumentOrigin, RecordedArgument};
use crate::visible::is_blank;

/// The most values that a list names.
pub const MAX_INTENDED_VALUES: usize = 64;
/// The most calls of one intent.
pub const MAX_INTENDED_CALLS: u32 = 100;

/// Calls that a session means to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intent {
    /// The name of the tool.
    pub tool: String,
    /// The values of its sinks, by the name of the argument. A sink that is not named here is not intended.
    #[serde(default)]
    pub sinks: BTreeMap<String, IntendedValue>,
    /// How many calls are intended.
    #[serde(default = "one")]
    pub count: u32,
}

const fn one() -> u32 {
    1
}

/// The values that a sink may have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntendedValue {
    // Tried first: a list can be read as any structure.
    /// `["ann@example.com", "bob@example.com"]`: each value is one of these.
    OneOf(Vec<Value>),
    /// `{"at_most": 50, "currency": "EUR"}`: an amount up to this one. For amounts only.
    Amount(IntendedAmount),
    /// `{"under": "/srv/reports"}`: a file or folder in this one. For paths only.
    Under(IntendedFolder),
    /// `{"any": true}`: whatever the call gives, but something. For sinks of kind `id` and `other` only.
    Any(AnyValue),
    /// This value and no other; `null` if the sink is left out.
    Exactly(Value),
}

/// An amount up to a bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntendedAmount {
    /// The largest amount.
    pub at_most: serde_json::Number,
    /// Its currency or unit. An amount that is given with another one is not intended.
    pub currency: String,
}

/// Everything in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntendedFolder {
    /// The folder, without `..`.
    pub under: String,
}

/// The wildcard: the intent leaves the value open, so that an attacker may choose it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnyValue {
    /// Always `true`.
    pub any: bool,
}

/// An intent that means nothing, or too much.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IntentError {
    /// The count.
    #[error("an intent is for 1 to {MAX_INTENDED_CALLS} calls, not for {0}")]
    Count(u32),
    /// The tool has no such sink.
    #[error("`{tool}` has no sink `{argument}`; its manifest names those that it has")]
    NoSink {
        /// The tool.
        tool: String,
        /// The argument.
        argument: String,
    },
    /// The values do not suit the kind of sink.
    #[error(
        "`{argument}` of `{tool}` is a sink of kind {kind}: name its value, or a list of up to {MAX_INTENDED_VALUES}; \
         only described sinks of kind id and other may have any value"
    )]
    Wildcard {
        /// The tool.
        tool: String,
        /// The argument.
        argument: String,
        /// Its kind.
        kind: &'static str,
    },
}

impl Intent {
    /// Checks that the intent binds what a call of `tool` does.
    ///
    /// # Errors
    /// The first problem.
    pub fn check(&self, tool: &ToolManifest) -> Result<(), IntentError> {
        if !(1..=MAX_INTENDED_CALLS).contains(&self.count) {
            return Err(IntentError::Count(self.count));
        }
        for (argument, value) in &self.sinks {
            let (tool_name, argument) = (self.tool.clone(), argument.clone());
            let Some(sink) = tool.parameter(&argument).sink else {
                return Err(IntentError::NoSink { tool: tool_name, argument });
            };
            let is_described = tool.arguments.contains_key(&argument);
            if !value.suits(sink) || (value.is_wildcard() && !is_described) {
                let kind = sink.as_str();
                return Err(IntentError::Wildcard { tool: tool_name, argument, kind });
            }
        }
        Ok(())
    }

    /// Whether a call is intended. `leaves` are its traced values.
    fn covers(
        &self,
        tool: &ToolManifest,
        arguments: &Arguments,
        leaves: &[RecordedArgument],
    ) -> bool {
        if self.check(tool).is_err() {
            return false;
        }
        let given = arguments.object();
        let absent = tool.arguments.keys().filter(|name| !given.contains_key(*name));
        let all = given.iter();
        let mut intended: Vec<(&String, bool)> = all
            .chain(absent.map(|name| (name, &Value::Null)))
            .filter(|(name, _)| tool.parameter(name).sink.is_some())
            .map(|(name, value)| (name, self.covers_sink(tool, name, value)))
            .collect();
        let mut covered = intended.iter().filter(|(_, is_covered)| *is_covered);
        // A name that a server made fills a sink beside one that is bound, as beside one that the user said.
        if covered.any(|(name, _)| !self.sinks.get(*name).is_some_and(IntendedValue::is_wildcard)) {
            for (name, is_covered) in &mut intended {
                *is_covered |= is_made_by_server(leaves, name);
            }
        }
        intended.iter().all(|(_, is_covered)| *is_covered) && texts_are_users(tool, leaves)
    }

    fn covers_sink(&self, tool: &ToolManifest, name: &str, value: &Value) -> bool {
        match self.sinks.get(name) {
            Some(intended) if !(intended.is_wildcard() && is_absent(value)) => {
                intended.covers(value)
            }
            Some(_) | None => tool.parameter(name).optional && is_absent(value),
        }
    }
}

impl IntendedValue {
    /// How many values are intended; `None` if they cannot be counted.
    pub const fn count(&self) -> Option<usize> {
        match self {
            Self::Exactly(_) => Some(1),
            Self::OneOf(values) => Some(values.len()),
            Self::Amount(_) | Self::Under(_) | Self::Any(_) => None,
        }
    }

    /// Whether any value is intended, so that nothing is bound.
    pub const fn is_wildcard(&self) -> bool {
        matches!(self, Self::Any(_))
    }

    /// Whether a sink of this kind can be bound so.
    fn suits(&self, sink: Sink) -> bool {
        match self {
            Self::Amount(amount) => {
                sink == Sink::Amount && micros(&amount.at_most.to_string()).is_some()
            }
            Self::Under(folder) => sink == Sink::Path && is_plain_path(&folder.under),
            Self::OneOf(values) => {
                (1..=MAX_INTENDED_VALUES).contains(&values.len())
                    && values.iter().all(|value| !value.is_object() && !value.is_array())
            }
            Self::Any(wildcard) => wildcard.any && matches!(sink, Sink::Id | Sink::Other),
            Self::Exactly(_) => true,
        }
    }

    /// Whether `value` is intended. A list is if each of its elements is.
    fn covers(&self, value: &Value) -> bool {
        match self {
            Self::Exactly(intended) if intended.is_null() => is_absent(value),
            Self::Exactly(intended) => value == intended,
            Self::Any(_) => !is_absent(value),
            Self::OneOf(_) | Self::Amount(_) | Self::Under(_) => match value.as_array() {
                Some(items) => !items.is_empty() && items.iter().all(|item| self.covers_one(item)),
                None => self.covers_one(value),
            },
        }
    }

    fn covers_one(&self, value: &Value) -> bool {
        match self {
            Self::Exactly(intended) => value == intended,
            Self::OneOf(values) => values.contains(value),
            Self::Amount(amount) => amount.covers(value),
            Self::Under(folder) => folder.covers(value),
            Self::Any(_) => true,
        }
    }
}

impl IntendedAmount {
    fn covers(&self, value: &Value) -> bool {
        let text = match value {
            Value::Number(number) => number.to_string(),
            Value::String(text) => match text.strip_suffix(&self.currency) {
                Some(number) => number.trim_end().to_owned(),
                None => text.strip_prefix(&self.currency).unwrap_or(text).trim_start().to_owned(),
            },
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return false,
        };
        let is_ambiguous = spelling::is_ambiguous(&text);
        let (bound, amount) = (micros(&self.at_most.to_string()), micros(&text));
        !is_ambiguous && bound.zip(amount).is_some_and(|(bound, amount)| amount <= bound)
    }
}

impl IntendedFolder {
    fn covers(&self, value: &Value) -> bool {
        let Some(path) = value.as_str().filter(|path| is_plain_path(path)) else { return false };
        let folder = self.under.strip_suffix('/').unwrap_or(&self.under);
        path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    }
}

/// A path that says where it leads: no step up, no home, no pattern, nothing hidden.
fn is_plain_path(path: &str) -> bool {
    let steps_up = path.split('/').any(|step| matches!(step, ".." | "."));
    !path.is_empty() && path.chars().all(is_plain) && !steps_up
}

fn is_plain(c: char) -> bool {
    !c.is_control() && !crate::is_invisible(c) && !"~*?$`\\%".contains(c)
}

/// A plain amount in millionths; `None` for a negative one, and for what is no plain number.
fn micros(text: &str) -> Option<u128> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty()
        || whole.len() > 24
        || part.len() > 6
        || !are_digits(whole)
        || !are_digits(part)
    {
        return None;
    }
    format!("{whole}{part:0<6}").parse().ok()
}

fn are_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_absent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => is_blank(text),
        Value::Array(items) => items.iter().all(is_absent),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whether each sink that stands in the argument `name` was made by a server.
fn is_made_by_server(leaves: &[RecordedArgument], name: &str) -> bool {
    let mut own = leaves.iter().filter(|leaf| belongs_to(&leaf.path, name)).peekable();
    own.peek().is_some() && own.all(|leaf| leaf.origin == ArgumentOrigin::Trusted)
}

/// Whether what stands in free text that leaves the machine is the user's. An intent says nothing about it.
fn texts_are_users(tool: &ToolManifest, leaves: &[RecordedArgument]) -> bool {
    let in_text = leaves.iter().filter(|leaf| {
        let described = tool.arguments.iter().find(|(name, _)| belongs_to(&leaf.path, name));
        leaf.sink.is_some() && described.is_some_and(|(_, parameter)| parameter.sink.is_none())
    });
    in_text.into_iter().all(|leaf| leaf.origin == ArgumentOrigin::User)
}

/// Whether the value at `path` stands in the argument `name`.
fn belongs_to(path: &str, name: &str) -> bool {
    path.strip_prefix(name).is_some_and(|rest| {
        rest.is_empty() || rest.starts_with(['[', '.']) || rest.starts_with(" > ")
    })
}

/// Names a declared intent in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntentRef {
    /// The entry that declared it.
    pub declared: Seq,
    /// Which of the intents declared there, from 0.
    pub index: u32,
}

/// An intent that covers a call. Only [`DeclaredIntents::matching`] makes one, so that nobody can claim it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatchedIntent(IntentRef);

impl MatchedIntent {
    /// What a record keeps of it.
    pub const fn recorded(self) -> IntentRef {
        self.0
    }
}

/// The intents of one session.
#[derive(Debug, Clone, Default)]
pub struct DeclaredIntents(Vec<(IntentRef, Intent)>);

impl DeclaredIntents {
    /// Adds what `declared` declares.
    pub fn add(&mut self, declared: Seq, intents: impl IntoIterator<Item = Intent>) {
        let numbered = (0..).zip(intents);
        self.0.extend(numbered.map(|(index, intent)| (IntentRef { declared, index }, intent)));
    }

    /// The intents, in the order in which they were declared.
    pub fn iter(&self) -> impl Iterator<Item = (IntentRef, &Intent)> {
        self.0.iter().map(|(named, intent)| (*named, intent))
    }

    /// The first intent that covers a call of the tool `name` and that `may_be_used`.
    ///
    /// Source: docs/design.md §5.4.
    pub fn matching(
        &self,
        name: &str,
        tool: &ToolManifest,
        arguments: &Arguments,
        leaves: &[RecordedArgument],
        may_be_used: impl Fn(IntentRef) -> bool,
    ) -> Option<MatchedIntent> {
        let mut candidates = self.0.iter().filter(|(named, intent)| {
            intent.tool == name && may_be_used(*named) && intent.covers(tool, arguments, leaves)
        });
        candidates.next().map(|(named, _)| MatchedIntent(*named))
    }
}
