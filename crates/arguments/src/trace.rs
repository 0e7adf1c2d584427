//! Leaves: the values of a call that decide something, each with where it came from.

use std::cell::LazyCell;

use custody_log::Seq;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::arguments::Arguments;
use crate::free_text::TextSink;
use crate::manifest::{Parameter, Sink, ToolEffect, ToolManifest};
use crate::spelling::is_ambiguous;
use crate::text_index::{Nouns, Purpose, TextIndex};
use crate::visible::is_blank;

/// How many sinks of one text are recorded. A text with more is nobody's word, and its record stays small.
const MAX_WITHIN: usize = 256;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentOrigin {
    /// The user said it, whole and at one place.
    User,
    /// The user said it, but it names who wrote what the session read, or where that was fetched from. That the user
    /// spoke of them is no reason to reach them.
    Party {
        /// What they wrote, or the calls that fetched it, ascending.
        from: Vec<Seq>,
    },
    /// A server made it, in a field of an output that its manifest trusts. Neutral: it supports no call by itself.
    Trusted,
    /// Untrusted entries hold it, or parts of it.
    Tool {
        /// Which, ascending.
        from: Vec<Seq>,
    },
    /// Nobody said it.
    Model,
}

/// One value of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedArgument {
    /// Where it stands in the arguments: `recipients[0]`, or `body > link` for what free text holds.
    pub path: String,
    /// What it decides; nothing for plain values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sink: Option<Sink>,
    /// Where it came from.
    pub origin: ArgumentOrigin,
}

/// The values of a call, each with where it came from. Only [`trace`] makes them, so that nobody can declare an
/// origin; what a record keeps of them can be read back, and does not become this again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedArguments(Vec<RecordedArgument>);

impl TracedArguments {
    /// What a record keeps of them.
    pub fn recorded(&self) -> &[RecordedArgument] {
        &self.0
    }

    /// The same, given up.
    pub fn into_recorded(self) -> Vec<RecordedArgument> {
        self.0
    }
}

/// The values of a call of `tool`, traced in the `texts` of the session, in the order of the arguments; then the
/// sinks that the call does not give.
///
/// Linear in the arguments; independent of how much text there is.
///
/// Source: docs/design.md §5.3.
pub fn trace(tool: &ToolManifest, arguments: &Arguments, texts: &TextIndex) -> TracedArguments {
    let mut tracing = Tracing { texts, tool, leaves: Vec::new() };
    for (name, value) in arguments.object() {
        let is_described = tool.arguments.contains_key(name);
        let parameter = tool.parameter(name);
        // Whoever writes the call chooses a name that no manifest gives, and could choose it to suit a number.
        let words = || if is_described { nouns(name, parameter) } else { Vec::new() };
        if !is_described {
            tracing.undescribed(name);
        }
        let nouns = LazyCell::new(&words as &dyn Fn() -> Vec<String>);
        tracing.value(&Argument { parameter, nouns: &nouns }, name, value);
    }
    for (name, parameter) in &tool.arguments {
        if !arguments.object().contains_key(name) {
            tracing.absent(parameter, name);
        }
    }
    TracedArguments(tracing.leaves)
}

/// The words that may stand beside a short value: those of the parameter's name, its manifest's and its kind's.
fn nouns(name: &str, parameter: &Parameter) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    for c in name.chars().chain(['_']) {
        if !word.is_empty() && (!c.is_alphanumeric() || c.is_uppercase()) {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
    }
    words.extend(parameter.nouns.iter().map(|noun| noun.to_lowercase()));
    words
        .extend(parameter.sink.iter().flat_map(|sink| sink.nouns()).map(|noun| (*noun).to_owned()));
    words
}

/// The argument that a value is part of.
struct Argument<'a> {
    parameter: &'a Parameter,
    nouns: &'a Nouns<'a>,
}

struct Tracing<'a> {
    texts: &'a TextIndex,
    tool: &'a ToolManifest,
    leaves: Vec<RecordedArgument>,
}

impl Tracing<'_> {
    fn value(&mut self, argument: &Argument<'_>, path: &str, value: &Value) {
        match value {
            Value::Null => self.absent(argument.parameter, path),
            Value::String(text) if argument.parameter.sink.is_some() && is_blank(text) => {
                self.absent(argument.parameter, path);
            }
            Value::Array(items) if items.is_empty() => self.absent(argument.parameter, path),
            Value::Object(members) if members.is_empty() => self.absent(argument.parameter, path),
            Value::Bool(truth) => self.leaf(argument, path, if *truth { "true" } else { "false" }),
            Value::Number(number) => self.number(argument, path, &number.to_string()),
            Value::String(text) => self.leaf(argument, path, text),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.value(argument, &format!("{path}[{index}]"), item);
                }
            }
            Value::Object(members) => {
                for (name, member) in members {
                    let inner = format!("{path}.{name}");
                    // A name that no manifest gives is a value that somebody chose.
                    if !argument.parameter.fields.contains(name) {
                        self.leaf(argument, &format!("{inner} > name"), name);
                    }
                    self.value(argument, &inner, member);
                }
            }
        }
    }

    /// A sink that is not there, or holds nothing. What the tool does without it, nobody said.
    fn absent(&mut self, parameter: &Parameter, path: &str) {
        if let Some(sink) = parameter.sink.filter(|_| !parameter.optional) {
            let (path, sink) = (path.to_owned(), Some(sink));
            self.leaves.push(RecordedArgument { path, sink, origin: ArgumentOrigin::Model });
        }
    }

    /// An argument that no manifest gives. Its name is a sink that nobody said: a word of the user's can be a value,
    /// never an argument, and would else found a call that the user did not want.
    fn undescribed(&mut self, name: &str) {
        let origin = self.origin_in_untrusted(name);
        self.leaves.push(RecordedArgument {
            path: format!("{name} > name"),
            sink: Some(Sink::Other),
            origin,
        });
    }

    /// A number. One that two readers read in two ways is nobody's: `1.234` euros.
    fn number(&mut self, argument: &Argument<'_>, path: &str, value: &str) {
        if is_ambiguous(value) {
            let origin = self.origin_in_untrusted(value);
            let (path, sink) = (path.to_owned(), argument.parameter.sink);
            self.leaves.push(RecordedArgument { path, sink, origin });
        } else {
            self.leaf(argument, path, value);
        }
    }

    fn leaf(&mut self, argument: &Argument<'_>, path: &str, value: &str) {
        let sink = argument.parameter.sink;
        let traced = self.origin(value, argument.nouns, sink);
        let is_users = traced == ArgumentOrigin::User
            || self.is_chosen(argument, value)
            // A value that decides nothing only shows that the user wanted such a call.
            || (sink.is_none() && self.texts.is_mentioned_by_user(value));
        let origin = if is_users { self.unless_party(value, sink) } else { traced };
        let is_free_text = sink.is_none() && self.tool.text_leaves();
        self.leaves.push(RecordedArgument { path: path.to_owned(), sink, origin });
        if is_free_text {
            self.within(path, value);
        }
    }

    /// A value that the user said, as one. Who only wrote, or was only read, is reached by no call that goes out,
    /// unless the user asked for something to be sent there.
    fn unless_party(&self, value: &str, sink: Option<Sink>) -> ArgumentOrigin {
        let goes_out = self.tool.effect == ToolEffect::Writes || self.tool.text_leaves();
        let sink = sink.filter(|_| goes_out);
        let from = sink.map(|sink| self.texts.named_party(value, sink)).unwrap_or_default();
        if from.is_empty() || self.texts.is_destination(value) {
            ArgumentOrigin::User
        } else {
            ArgumentOrigin::Party { from }
        }
    }

    /// Whether the user named this value of a fixed list by one of its words.
    fn is_chosen(&self, argument: &Argument<'_>, value: &str) -> bool {
        let words = argument.parameter.values.get(value).into_iter().flatten();
        words.into_iter().any(|word| self.texts.is_chosen_by_user(word, argument.nouns))
    }

    fn origin(&self, value: &str, nouns: &Nouns<'_>, sink: Option<Sink>) -> ArgumentOrigin {
        // What runs is the value as it is, so a sink has to be what the user said, to the blank.
        let purpose = Purpose { sink, effect: self.tool.effect };
        // What a server makes are names for its own things. Where money or mail goes is never one of them.
        let may_be_made = matches!(sink, Some(Sink::Id | Sink::Path));
        let is_ambiguous = sink == Some(Sink::Amount) && is_ambiguous(value);
        if !is_ambiguous && self.texts.is_user_text(value, nouns, purpose) {
            return ArgumentOrigin::User;
        }
        if may_be_made && self.texts.is_trusted_value(value, nouns) {
            return ArgumentOrigin::Trusted;
        }
        self.origin_in_untrusted(value)
    }

    fn origin_in_untrusted(&self, value: &str) -> ArgumentOrigin {
        let from = self.texts.sources(value);
        if from.is_empty() { ArgumentOrigin::Model } else { ArgumentOrigin::Tool { from } }
    }

    /// People, places and long numbers in free text that leaves the machine are sinks of their own.
    fn within(&mut self, path: &str, text: &str) {
        let nothing = Vec::new;
        let none = LazyCell::new(&nothing as &dyn Fn() -> Vec<String>);
        let found = TextSink::find(text);
        if found.len() > MAX_WITHIN {
            // A human sees the text itself.
            let (path, sink) = (format!("{path} > more"), Some(Sink::Other));
            self.leaves.push(RecordedArgument { path, sink, origin: ArgumentOrigin::Model });
        }
        // What the user dictated, and nothing else, holds only what the user wants to say.
        let purpose = Purpose { sink: Some(Sink::Other), effect: self.tool.effect };
        let is_dictated = self.texts.is_user_text(text, &none, purpose);
        for TextSink { sink, what, value, is_plain } in found.into_iter().take(MAX_WITHIN) {
            let origin = if is_plain && is_dictated {
                ArgumentOrigin::User
            } else if is_plain {
                self.origin(&value, &none, Some(sink))
            } else {
                self.origin_in_untrusted(&value)
            };
            self.leaves.push(RecordedArgument {
                path: format!("{path} > {what}"),
                sink: Some(sink),
                origin,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameters_name_is_read_as_words() {
        let parameter = Parameter { sink: Some(Sink::Id), ..Parameter::default() };
        let words = nouns("calendarEvent_id", &parameter);
        assert_eq!(&words[..3], ["calendar", "event", "id"]);
    }
}
