//! Leaves: the values of a call that decide something, each with where it came from.

use std::cell::LazyCell;

use custody_log::Seq;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::arguments::Arguments;
use crate::manifest::{Parameter, Sink, ToolManifest};
use crate::spelling::{address, date, looks_like_host, words};
use crate::text_index::{Nouns, TextIndex};

/// The fewest digits of a number in free text that could be an account, a telephone or a code.
const LONG_NUMBER: usize = 6;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentOrigin {
    /// The user said it, whole and at one place.
    User,
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

/// The values of a call, each with where it came from. Only [`trace`] makes them, so that nobody can declare an origin;
/// what a record keeps of them can be read back, and does not become this again.
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

/// The values of a call of `tool`, traced in the `texts` of the session, in the order of the arguments.
///
/// Linear in the arguments; independent of how much text there is.
///
/// Source: docs/design.md §5.3.
pub fn trace(tool: &ToolManifest, arguments: &Arguments, texts: &TextIndex) -> TracedArguments {
    let mut tracing = Tracing { texts, text_leaves: tool.text_leaves(), leaves: Vec::new() };
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
    text_leaves: bool,
    leaves: Vec<RecordedArgument>,
}

impl Tracing<'_> {
    fn value(&mut self, argument: &Argument<'_>, path: &str, value: &Value) {
        match value {
            // Nothing is said by it.
            Value::Null => {}
            Value::Bool(truth) => self.leaf(argument, path, if *truth { "true" } else { "false" }),
            Value::Number(number) => self.leaf(argument, path, &number.to_string()),
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

    fn leaf(&mut self, argument: &Argument<'_>, path: &str, value: &str) {
        let sink = argument.parameter.sink;
        let traced = self.origin(value, argument.nouns, sink);
        let is_users = traced == ArgumentOrigin::User
            || self.is_chosen(argument, value)
            // A value that decides nothing only shows that the user wanted such a call.
            || (sink.is_none() && self.texts.is_mentioned_by_user(value));
        let origin = if is_users { ArgumentOrigin::User } else { traced };
        let is_free_text = sink.is_none() && self.text_leaves;
        self.leaves.push(RecordedArgument { path: path.to_owned(), sink, origin });
        if is_free_text {
            self.within(path, value);
        }
    }

    /// Whether the user named this value of a fixed list by one of its words.
    fn is_chosen(&self, argument: &Argument<'_>, value: &str) -> bool {
        let words = argument.parameter.values.get(value).into_iter().flatten();
        words.into_iter().any(|word| self.texts.is_chosen_by_user(word, argument.nouns))
    }

    fn origin(&self, value: &str, nouns: &Nouns<'_>, sink: Option<Sink>) -> ArgumentOrigin {
        // What a server makes are names for its own things. Where money or mail goes is never one of them.
        let may_be_made = matches!(sink, Some(Sink::Id | Sink::Path));
        if self.texts.is_user_text(value, nouns) {
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

    /// Addresses and long numbers in free text that leaves the machine are sinks of their own.
    fn within(&mut self, path: &str, text: &str) {
        let nothing = Vec::new;
        let none = LazyCell::new(&nothing as &dyn Fn() -> Vec<String>);
        for word in words(text) {
            let Some(word) = text.get(word) else { continue };
            let Some((sink, what)) = hidden_sink(word) else { continue };
            let origin = self.origin(word, &none, Some(sink));
            self.leaves.push(RecordedArgument {
                path: format!("{path} > {what}"),
                sink: Some(sink),
                origin,
            });
        }
        for number in long_numbers(text) {
            let origin = self.origin(number, &none, Some(Sink::Account));
            let path = format!("{path} > number");
            self.leaves.push(RecordedArgument { path, sink: Some(Sink::Account), origin });
        }
    }
}

/// What a word of free text is, if it leads somewhere.
fn hidden_sink(word: &str) -> Option<(Sink, &'static str)> {
    let word = word.strip_prefix("mailto:").unwrap_or(word);
    if address(word).is_some() || (word.contains('@') && word.contains('.')) {
        return Some((Sink::Recipient, "address"));
    }
    let is_link = word.contains("://") || looks_like_host(word);
    is_link.then_some((Sink::Url, "link"))
}

/// Numbers of six or more digits, separators included: `555-0100-22`, `DE89 3704 0044`. Days are none.
fn long_numbers(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = None;
    let (mut end, mut digits) = (0, 0);
    for (at, c) in text.char_indices().chain([(text.len(), '\n')]) {
        if c.is_numeric() {
            start.get_or_insert(at);
            end = at + c.len_utf8();
            digits += 1;
        } else if !(is_separator_of_digits(c) && start.is_some()) {
            if let Some(from) = start.take().filter(|_| digits >= LONG_NUMBER) {
                found.extend(text.get(from..end).filter(|number| !is_moment(number)));
            }
            digits = 0;
        }
    }
    found
}

/// A day, a day and an hour, or a span of two days.
fn is_moment(number: &str) -> bool {
    let has_date = number.split_whitespace().any(|word| date(word).is_some());
    has_date && number.split_whitespace().all(is_part_of_moment)
}

fn is_part_of_moment(word: &str) -> bool {
    let is_clock = word.len() <= 2 && word.bytes().all(|byte| byte.is_ascii_digit());
    date(word).is_some() || is_clock || word == "-"
}

const fn is_separator_of_digits(c: char) -> bool {
    matches!(c, ' ' | '-' | '.' | '/' | '(' | ')' | '\u{A0}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_are_found_and_days_are_none() {
        let text =
            "Call 555-0100-22 on 2024-05-15 10:00, pay DE89 3704 0044 or 12 pieces, code 123456.";
        assert_eq!(long_numbers(text), ["555-0100-22", "89 3704 0044", "123456"]);
    }

    #[test]
    fn free_text_holds_sinks() {
        let cases = [
            ("ann@example.com", Some("address")),
            ("https://evil.example/x", Some("link")),
            ("www.evil.example", Some("link")),
            ("evil.com", Some("link")),
            ("report.pdf", None),
            ("e.g", None),
            ("Hello", None),
        ];
        for (word, what) in cases {
            assert_eq!(hidden_sink(word).map(|(_, what)| what), what, "{word}");
        }
    }

    #[test]
    fn a_parameters_name_is_read_as_words() {
        let parameter = Parameter { sink: Some(Sink::Id), ..Parameter::default() };
        let words = nouns("calendarEvent_id", &parameter);
        assert_eq!(&words[..3], ["calendar", "event", "id"]);
    }
}
