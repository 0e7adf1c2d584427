//! What a policy gets to see of a call, under the names that the schema gives it.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use custody_arguments::{ArgumentOrigin, RecordedArgument, Sink, ToolEffect};
use custody_kernel::label::{Channel, Taint, Trust};
use custody_kernel::principal::Role;
use serde::Serialize;
use serde_json::Value;

use crate::places::places;
use crate::question::Question;
use crate::uses::Uses;

/// Everything that a policy can speak of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// Whom the session runs for.
    pub principal: Principal,
    /// The tool.
    pub resource: Resource,
    /// The call, and what was read before it.
    pub context: Context,
}

/// `principal`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the schema says what each of them is")]
pub struct Principal {
    pub name: String,
    pub role: Role,
    pub trusted: bool,
    pub tenant: String,
}

/// `resource`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the schema says what each of them is")]
pub struct Resource {
    pub name: String,
    pub groups: Vec<String>,
    pub effect: ToolEffect,
    pub known: bool,
    pub text_leaves: bool,
}

/// `context`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the schema says what each of them is")]
pub struct Context {
    pub tainted: bool,
    pub channels: BTreeSet<Channel>,
    pub arguments: Arguments,
    pub sinks: Told<Sink>,
    pub in_text: Told<Sink>,
    pub origins: BTreeSet<&'static str>,
    pub recipients: Places,
    pub urls: Places,
    pub paths: Places,
    pub accounts: Told<String>,
    pub commands: Told<String>,
    pub ids: Told<String>,
    pub others: Told<String>,
    pub amount: i64,
}

/// `context.arguments`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Arguments {
    /// Their names, and those of the sinks that the user did not say.
    #[serde(flatten)]
    pub names: Told<String>,
    /// The text of each.
    pub tags: BTreeMap<String, String>,
}

/// Things of one kind, and those of them that the user did not say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Told<T: Ord> {
    /// All of them.
    pub all: BTreeSet<T>,
    /// Without those that the user said.
    pub unsaid: BTreeSet<T>,
}

/// Values that have a place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Places {
    /// The values.
    #[serde(flatten)]
    pub values: Told<String>,
    /// What every one of them lies within.
    pub within: BTreeSet<String>,
}

impl<T: Ord> Default for Told<T> {
    fn default() -> Self {
        Self { all: BTreeSet::new(), unsaid: BTreeSet::new() }
    }
}

impl<T: Ord + Clone> Told<T> {
    fn add(&mut self, thing: T, is_said: bool) {
        if !is_said {
            self.unsaid.insert(thing.clone());
        }
        self.all.insert(thing);
    }
}

impl Places {
    fn add(&mut self, sink: Sink, value: &Value, is_said: bool) {
        // Where a thing goes that is not named, nobody knows.
        let places = value.as_str().map(|value| places(sink, value)).unwrap_or_default();
        if self.values.all.is_empty() {
            self.within = places.into_iter().collect();
        } else {
            self.within.retain(|place| places.contains(place));
        }
        self.values.add(text(value), is_said);
    }
}

impl Facts {
    /// What `question` tells.
    pub fn of(question: &Question<'_>) -> Self {
        Self::used(question, &Uses::All)
    }

    /// What `question` tells of the parts of the context that a policy `uses`. The others are as if nothing was called
    /// with anything, and nobody asks for them.
    pub(crate) fn used(question: &Question<'_>, uses: &Uses) -> Self {
        let Question { caller, tool, arguments, leaves, taint, channels } = question;
        let mut traced: Vec<&RecordedArgument> = leaves.iter().collect();
        traced.sort_by(|one, other| one.path.cmp(&other.path));
        let mut reading =
            Reading { traced: &traced, uses, own: HashSet::new(), context: nothing() };
        for (name, value) in arguments.object() {
            // As the kernel has it: an argument that no manifest describes matters.
            let sink = tool.tool.arguments.get(name).map_or(Some(Sink::Other), |known| known.sink);
            reading.argument(name, value, sink);
        }
        for (name, parameter) in &tool.tool.arguments {
            if !arguments.object().contains_key(name) {
                reading.absent(name, &Value::Null, parameter.sink);
            }
        }
        let Reading { own, mut context, .. } = reading;
        context.tainted = match taint {
            Taint::Clean => false,
            Taint::Tainted => true,
        };
        context.channels.clone_from(channels);
        for leaf in *leaves {
            let Some(sink) = leaf.sink else { continue };
            context.origins.insert(origin(leaf));
            // What is no value of the arguments is part of one.
            let sinks = if own.contains(leaf.path.as_str()) {
                &mut context.sinks
            } else {
                &mut context.in_text
            };
            sinks.add(sink, is_said(leaf));
        }
        let principal = Principal {
            name: caller.name.to_owned(),
            role: caller.role,
            trusted: match caller.trust {
                Trust::Trusted => true,
                Trust::Untrusted => false,
            },
            tenant: caller.tenant.as_str().to_owned(),
        };
        let resource = Resource {
            name: tool.name.to_owned(),
            groups: tool.groups.to_vec(),
            effect: tool.tool.effect,
            known: tool.known,
            text_leaves: tool.tool.text_leaves(),
        };
        Self { principal, resource, context }
    }
}

fn is_said(leaf: &RecordedArgument) -> bool {
    match leaf.origin {
        ArgumentOrigin::User => true,
        ArgumentOrigin::Trusted | ArgumentOrigin::Tool { .. } | ArgumentOrigin::Model => false,
    }
}

/// The name that policies have for where a value came from.
const fn origin(leaf: &RecordedArgument) -> &'static str {
    match leaf.origin {
        ArgumentOrigin::User => "user",
        ArgumentOrigin::Trusted => "trusted",
        ArgumentOrigin::Tool { .. } => "tool",
        ArgumentOrigin::Model => "model",
    }
}

fn nothing() -> Context {
    Context {
        tainted: true,
        channels: BTreeSet::new(),
        arguments: Arguments::default(),
        sinks: Told::default(),
        in_text: Told::default(),
        origins: BTreeSet::new(),
        recipients: Places::default(),
        urls: Places::default(),
        paths: Places::default(),
        accounts: Told::default(),
        commands: Told::default(),
        ids: Told::default(),
        others: Told::default(),
        amount: 0,
    }
}

/// Collects the values of the arguments.
struct Reading<'a> {
    /// What was traced, by path. Two values can have one path, and then count as both.
    traced: &'a [&'a RecordedArgument],
    uses: &'a Uses,
    /// The paths of all values, as the kernel writes them.
    own: HashSet<String>,
    context: Context,
}

impl<'a> Reading<'a> {
    /// Takes in one argument. `sink` is what it is by its manifest.
    fn argument(&mut self, name: &str, value: &Value, sink: Option<Sink>) {
        // The kernel traces the name, too, of an argument that no manifest describes.
        let is_named = self.name(&format!("{name} > name"), name);
        let is_said = self.value(name, value, sink) && is_named;
        if self.uses.has("arguments") {
            self.context.arguments.names.add(name.to_owned(), is_said);
            self.context.arguments.tags.insert(name.to_owned(), text(value));
        }
    }

    /// Takes in the values within `value`. Returns whether the user said them all, or need not have.
    fn value(&mut self, path: &str, value: &Value, sink: Option<Sink>) -> bool {
        match value {
            Value::Null => self.absent(path, value, sink),
            Value::Array(items) if items.is_empty() => self.absent(path, value, sink),
            Value::Object(members) if members.is_empty() => self.absent(path, value, sink),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                let leaves = self.traced(path);
                match leaves {
                    [] => self.leaf(path, value, [sink], false),
                    _ => self.leaf(
                        path,
                        value,
                        leaves.iter().map(|leaf| leaf.sink),
                        all_said(leaves),
                    ),
                }
            }
            Value::Array(items) => {
                let mut is_said = true;
                for (index, item) in items.iter().enumerate() {
                    is_said &= self.value(&format!("{path}[{index}]"), item, sink);
                }
                is_said
            }
            Value::Object(members) => {
                let mut is_said = true;
                for (name, member) in members {
                    let inner = format!("{path}.{name}");
                    is_said &= self.name(&format!("{inner} > name"), name);
                    is_said &= self.value(&inner, member, sink);
                }
                is_said
            }
        }
    }

    /// Takes in a sink that holds nothing, if the manifest does not call that harmless.
    fn absent(&mut self, path: &str, value: &Value, sink: Option<Sink>) -> bool {
        let leaves = self.traced(path);
        leaves.is_empty() || self.leaf(path, value, [sink], all_said(leaves))
    }

    /// Takes in the name of a field, if it is a value that somebody chose.
    fn name(&mut self, path: &str, name: &str) -> bool {
        let leaves = self.traced(path);
        let sinks = leaves.iter().map(|leaf| leaf.sink);
        leaves.is_empty() || self.leaf(path, &Value::from(name), sinks, all_said(leaves))
    }

    /// What was traced at `path`.
    fn traced(&self, path: &str) -> &'a [&'a RecordedArgument] {
        let from = self.traced.partition_point(|leaf| leaf.path.as_str() < path);
        let rest = self.traced.get(from..).unwrap_or_default();
        let to = rest.partition_point(|leaf| leaf.path == path);
        rest.get(..to).unwrap_or_default()
    }

    /// Takes in one value, as everything that it is. Returns whether the user said it, or need not have.
    fn leaf(
        &mut self,
        path: &str,
        value: &Value,
        sinks: impl IntoIterator<Item = Option<Sink>>,
        is_said: bool,
    ) -> bool {
        // By its path a sink of the arguments is told from one within free text.
        if self.uses.has("sinks") || self.uses.has("in_text") {
            self.own.insert(path.to_owned());
        }
        let context = &mut self.context;
        let mut decides = false;
        for sink in sinks.into_iter().flatten() {
            decides = true;
            if !self.uses.has(part(sink)) {
                continue;
            }
            match sink {
                Sink::Recipient => context.recipients.add(sink, value, is_said),
                Sink::Url => context.urls.add(sink, value, is_said),
                Sink::Path => context.paths.add(sink, value, is_said),
                Sink::Account => context.accounts.add(text(value), is_said),
                Sink::Command => context.commands.add(text(value), is_said),
                Sink::Id => context.ids.add(text(value), is_said),
                Sink::Other => context.others.add(text(value), is_said),
                Sink::Amount => context.amount = context.amount.saturating_add(amount(value)),
            }
        }
        is_said || !decides
    }
}

/// Whether the user said all of what was traced at one path. What was not traced was not said.
fn all_said(leaves: &[&RecordedArgument]) -> bool {
    !leaves.is_empty() && leaves.iter().all(|leaf| is_said(leaf))
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

/// An amount without its sign, in whole units, rounded up. What is no plain number is the largest there is.
fn amount(value: &Value) -> i64 {
    let units = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => most(text),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let units = units.map(|units| units.abs().ceil());
    #[expect(clippy::cast_precision_loss, reason = "a bound, and what is near it is not taken")]
    let fits = |units: &f64| *units < i64::MAX as f64;
    #[expect(clippy::cast_possible_truncation, reason = "whole and within the bound")]
    units.filter(fits).map_or(i64::MAX, |units| units as i64)
}

/// The largest amount that a reader could take `text` for: `1.500` is one and a half to some, a thousand and
/// a half to others.
fn most(text: &str) -> Option<f64> {
    let digits = text.trim_matches(|c: char| c.is_whitespace() || "$€£¥".contains(c));
    let digits = digits.strip_prefix('-').unwrap_or(digits);
    let mut parts = digits.split([',', '.']);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let first = parts.next().filter(|first| is_number(first))?;
    let mut number = first.to_owned();
    let mut rest = parts.peekable();
    while let Some(part) = rest.next() {
        if !is_number(part) {
            return None;
        }
        // Only what cannot be a group of thousands is a fraction, and then it is the end.
        if part.len() == 3 {
            number.push_str(part);
        } else if rest.peek().is_none() {
            number.push('.');
            number.push_str(part);
        } else {
            return None;
        }
    }
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_amount_is_rounded_up_and_never_taken_for_less() {
        let cases = [
            (json!(100), 100),
            (json!(100.01), 101),
            (json!(-40), 40),
            (json!("$50"), 50),
            (json!("1,000.50"), 1001),
            (json!("1.500"), 1500),
            (json!("1,5"), 2),
            (json!("1,234,567"), 1_234_567),
            (json!("0.125"), 125),
            (json!("1e3"), i64::MAX),
            (json!("1e-3"), i64::MAX),
            (json!("fifty"), i64::MAX),
            (json!("50 USD"), i64::MAX),
            (json!("٥٠"), i64::MAX),
            (json!("0x10"), i64::MAX),
            (json!("inf"), i64::MAX),
            (json!("--5"), i64::MAX),
            (json!("1.5.2"), i64::MAX),
            (json!(""), i64::MAX),
            (json!(true), i64::MAX),
            (json!("9".repeat(400)), i64::MAX),
            (json!(9_007_199_254_740_991_u64), 9_007_199_254_740_991),
        ];
        for (value, expected) in cases {
            assert_eq!(amount(&value), expected, "{value}");
        }
    }

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
