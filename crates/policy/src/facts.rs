//! The facts about a call that a policy can refer to, under the names of the schema.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use custody_arguments::{ArgumentOrigin, RecordedArgument, Sink, ToolEffect};
use custody_kernel::label::{Channel, Taint, Trust};
use custody_kernel::principal::Role;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::amount::amount;
use crate::places::places;
use crate::question::{Caller, Described, Question};
use crate::uses::Uses;

/// Everything that a policy can refer to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// The principal of the session.
    pub principal: PrincipalFacts,
    /// The tool.
    pub resource: ToolFacts,
    /// The call, and what was read before it.
    pub context: CallFacts,
}

/// `principal`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the schema documents each of them")]
pub struct PrincipalFacts {
    pub name: String,
    pub role: Role,
    pub trusted: bool,
    pub tenant: String,
}

/// `resource`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the schema documents each of them")]
pub struct ToolFacts {
    pub name: String,
    pub groups: Vec<String>,
    pub effect: ToolEffect,
    pub known: bool,
    pub text_leaves: bool,
}

/// `context`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the schema documents each of them")]
pub struct CallFacts {
    pub tainted: bool,
    pub intended: bool,
    pub channels: BTreeSet<Channel>,
    pub arguments: ArgumentFacts,
    pub sinks: Values<Sink>,
    pub in_text: Values<Sink>,
    pub origins: BTreeSet<&'static str>,
    pub recipients: Places,
    pub urls: Places,
    pub paths: Places,
    pub accounts: Values<String>,
    pub commands: Values<String>,
    pub ids: Values<String>,
    pub others: Values<String>,
    pub amount: i64,
}

/// `context.arguments`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ArgumentFacts {
    /// The names of the arguments.
    #[serde(flatten)]
    pub names: Values<String>,
    /// The text of each argument, by name.
    pub tags: BTreeMap<String, String>,
}

/// Values of one kind, and those of them that did not come from the user.
///
/// In JSON `not_from_user` also stands under its earlier name, `unsaid`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values<T: Ord> {
    /// All values.
    pub all: BTreeSet<T>,
    /// The values that the user did not provide: a tool returned them, or their origin is unknown.
    pub not_from_user: BTreeSet<T>,
}

/// Values that have a place: the domain of an address, the host of a URL, the folder of a path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Places {
    /// The values.
    #[serde(flatten)]
    pub values: Values<String>,
    /// The places that contain every one of the values.
    pub within: BTreeSet<String>,
}

impl<T: Ord> Default for Values<T> {
    fn default() -> Self {
        Self { all: BTreeSet::new(), not_from_user: BTreeSet::new() }
    }
}

impl<T: Ord + Serialize> Serialize for Values<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Values", 3)?;
        fields.serialize_field("all", &self.all)?;
        fields.serialize_field("not_from_user", &self.not_from_user)?;
        fields.serialize_field("unsaid", &self.not_from_user)?;
        fields.end()
    }
}

impl<T: Ord + Clone> Values<T> {
    fn add(&mut self, value: T, is_from_user: bool) {
        if !is_from_user {
            self.not_from_user.insert(value.clone());
        }
        self.all.insert(value);
    }
}

impl Places {
    fn add(&mut self, sink: Sink, value: &Value, is_from_user: bool) {
        // An absent value has no place that is known.
        let places = value.as_str().map(|value| places(sink, value)).unwrap_or_default();
        if self.values.all.is_empty() {
            self.within = places.into_iter().collect();
        } else {
            self.within.retain(|place| places.contains(place));
        }
        self.values.add(text(value), is_from_user);
    }
}

impl Facts {
    /// All facts about the call in `question`.
    pub fn of(question: &Question<'_>) -> Self {
        Self::used(question, &Uses::All)
    }

    /// The facts in the parts of the context that a policy `uses`. Every other part is empty, and no statement reads
    /// it.
    pub(crate) fn used(question: &Question<'_>, uses: &Uses) -> Self {
        Self {
            principal: PrincipalFacts::of(&question.caller),
            resource: ToolFacts::of(&question.tool),
            context: CallFacts::of(question, uses),
        }
    }
}

impl PrincipalFacts {
    fn of(caller: &Caller<'_>) -> Self {
        Self {
            name: caller.name.to_owned(),
            role: caller.role,
            trusted: match caller.trust {
                Trust::Trusted => true,
                Trust::Untrusted => false,
            },
            tenant: caller.tenant.as_str().to_owned(),
        }
    }
}

impl ToolFacts {
    fn of(tool: &Described<'_>) -> Self {
        Self {
            name: tool.name.to_owned(),
            groups: tool.groups.to_vec(),
            effect: tool.tool.effect,
            known: tool.known,
            text_leaves: tool.tool.text_leaves(),
        }
    }
}

impl CallFacts {
    fn of(question: &Question<'_>, uses: &Uses) -> Self {
        let Question { tool, arguments, leaves, taint, channels, is_intended, .. } = question;
        let mut traced: Vec<&RecordedArgument> = leaves.iter().collect();
        traced.sort_by(|one, other| one.path.cmp(&other.path));
        let mut collector = Collector {
            traced: &traced,
            uses,
            paths: HashSet::new(),
            context: Self { intended: *is_intended, ..Self::empty(*taint, channels) },
        };
        for (name, value) in arguments.object() {
            // As in the kernel: an argument that no manifest describes is a sink.
            let sink = tool.tool.arguments.get(name).map_or(Some(Sink::Other), |known| known.sink);
            collector.add_argument(name, value, sink);
        }
        for (name, parameter) in &tool.tool.arguments {
            if !arguments.object().contains_key(name) {
                collector.add_absent(name, &Value::Null, parameter.sink);
            }
        }
        let Collector { paths, mut context, .. } = collector;
        for leaf in *leaves {
            let Some(sink) = leaf.sink else { continue };
            context.origins.insert(origin(leaf));
            // A path that is no argument value is a value within free text.
            let sinks = if paths.contains(leaf.path.as_str()) {
                &mut context.sinks
            } else {
                &mut context.in_text
            };
            sinks.add(sink, is_from_user(leaf));
        }
        context
    }

    /// The facts about a call without arguments.
    fn empty(taint: Taint, channels: &BTreeSet<Channel>) -> Self {
        Self {
            tainted: match taint {
                Taint::Clean => false,
                Taint::Tainted => true,
            },
            intended: false,
            channels: channels.clone(),
            arguments: ArgumentFacts::default(),
            sinks: Values::default(),
            in_text: Values::default(),
            origins: BTreeSet::new(),
            recipients: Places::default(),
            urls: Places::default(),
            paths: Places::default(),
            accounts: Values::default(),
            commands: Values::default(),
            ids: Values::default(),
            others: Values::default(),
            amount: 0,
        }
    }
}

fn is_from_user(leaf: &RecordedArgument) -> bool {
    match leaf.origin {
        ArgumentOrigin::User => true,
        ArgumentOrigin::Party { .. }
        | ArgumentOrigin::Trusted
        | ArgumentOrigin::Tool { .. }
        | ArgumentOrigin::Model => false,
    }
}

/// The name of the origin in the schema.
const fn origin(leaf: &RecordedArgument) -> &'static str {
    match leaf.origin {
        ArgumentOrigin::User => "user",
        ArgumentOrigin::Party { .. } => "party",
        ArgumentOrigin::Trusted => "trusted",
        ArgumentOrigin::Tool { .. } => "tool",
        ArgumentOrigin::Model => "model",
    }
}

/// Collects the values of the arguments.
struct Collector<'a> {
    /// The traced values, by path. Two values may share a path; each then counts as both.
    traced: &'a [&'a RecordedArgument],
    uses: &'a Uses,
    /// The paths of all argument values, as the kernel writes them.
    paths: HashSet<String>,
    context: CallFacts,
}

impl<'a> Collector<'a> {
    /// Adds one argument. `sink` is its sink by the manifest.
    fn add_argument(&mut self, name: &str, value: &Value, sink: Option<Sink>) {
        // The kernel also traces the name of an argument that no manifest describes.
        let is_named = self.add_name(&format!("{name} > name"), name);
        let is_from_user = self.add_value(name, value, sink) && is_named;
        if self.uses.has("arguments") {
            self.context.arguments.names.add(name.to_owned(), is_from_user);
            self.context.arguments.tags.insert(name.to_owned(), text(value));
        }
    }

    /// Adds the values within `value`. Returns whether every one that is a sink came from the user.
    fn add_value(&mut self, path: &str, value: &Value, sink: Option<Sink>) -> bool {
        match value {
            Value::Null => self.add_absent(path, value, sink),
            Value::Array(items) if items.is_empty() => self.add_absent(path, value, sink),
            Value::Object(members) if members.is_empty() => self.add_absent(path, value, sink),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => match self.traced(path) {
                [] => self.add_leaf(path, value, [sink], false),
                leaves => {
                    let sinks = leaves.iter().map(|leaf| leaf.sink);
                    self.add_leaf(path, value, sinks, all_from_user(leaves))
                }
            },
            Value::Array(items) => {
                let mut is_from_user = true;
                for (index, item) in items.iter().enumerate() {
                    is_from_user &= self.add_value(&format!("{path}[{index}]"), item, sink);
                }
                is_from_user
            }
            Value::Object(members) => {
                let mut is_from_user = true;
                for (name, member) in members {
                    let inner = format!("{path}.{name}");
                    is_from_user &= self.add_name(&format!("{inner} > name"), name);
                    is_from_user &= self.add_value(&inner, member, sink);
                }
                is_from_user
            }
        }
    }

    /// Adds a sink without a value, if it was traced: its manifest does not call absence harmless.
    fn add_absent(&mut self, path: &str, value: &Value, sink: Option<Sink>) -> bool {
        let leaves = self.traced(path);
        leaves.is_empty() || self.add_leaf(path, value, [sink], all_from_user(leaves))
    }

    /// Adds the name of a field, if it was traced: the caller chose it.
    fn add_name(&mut self, path: &str, name: &str) -> bool {
        let leaves = self.traced(path);
        let sinks = leaves.iter().map(|leaf| leaf.sink);
        leaves.is_empty() || self.add_leaf(path, &Value::from(name), sinks, all_from_user(leaves))
    }

    /// The values traced at `path`.
    fn traced(&self, path: &str) -> &'a [&'a RecordedArgument] {
        let from = self.traced.partition_point(|leaf| leaf.path.as_str() < path);
        let rest = self.traced.get(from..).unwrap_or_default();
        let to = rest.partition_point(|leaf| leaf.path == path);
        rest.get(..to).unwrap_or_default()
    }

    /// Adds one value under each of its sinks. Returns whether it came from the user or is no sink.
    fn add_leaf(
        &mut self,
        path: &str,
        value: &Value,
        sinks: impl IntoIterator<Item = Option<Sink>>,
        is_from_user: bool,
    ) -> bool {
        // The path distinguishes a sink among the arguments from one within free text.
        if self.uses.has("sinks") || self.uses.has("in_text") {
            self.paths.insert(path.to_owned());
        }
        let mut is_sink = false;
        for sink in sinks.into_iter().flatten() {
            is_sink = true;
            if self.uses.has(part(sink)) {
                self.add_sink(sink, value, is_from_user);
            }
        }
        is_from_user || !is_sink
    }

    fn add_sink(&mut self, sink: Sink, value: &Value, is_from_user: bool) {
        let context = &mut self.context;
        match sink {
            Sink::Recipient => context.recipients.add(sink, value, is_from_user),
            Sink::Url => context.urls.add(sink, value, is_from_user),
            Sink::Path => context.paths.add(sink, value, is_from_user),
            Sink::Account => context.accounts.add(text(value), is_from_user),
            Sink::Command => context.commands.add(text(value), is_from_user),
            Sink::Id => context.ids.add(text(value), is_from_user),
            Sink::Other => context.others.add(text(value), is_from_user),
            Sink::Amount => context.amount = context.amount.saturating_add(amount(value)),
        }
    }
}

/// Whether every value traced at one path came from the user; false for a path where nothing was traced.
fn all_from_user(leaves: &[&RecordedArgument]) -> bool {
    !leaves.is_empty() && leaves.iter().all(|leaf| is_from_user(leaf))
}

/// The part of the context that holds values of a kind.
const fn part(sink: Sink) -> &'static str {
    match sink {
        Sink::Recipient => "recipients",
        Sink::Url => "urls",
        Sink::Path => "paths",
        Sink::Account => "accounts",
        Sink::Command => "commands",
        Sink::Id => "ids",
        Sink::Other => "others",
        Sink::Amount => "amount",
    }
}

/// A string as it is, anything else as canonical JSON.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            serde_json_canonicalizer::to_string(value).unwrap_or_else(|_| value.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_canonical() {
        let cases = [
            (json!("a"), "a"),
            (json!(10.0), "10"),
            (json!(null), "null"),
            (json!({"b": [1, "x"], "a": true}), r#"{"a":true,"b":[1,"x"]}"#),
        ];
        for (value, expected) in cases {
            assert_eq!(text(&value), expected);
        }
    }
}
