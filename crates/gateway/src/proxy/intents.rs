//! The intent step: before a model reads anything that is not the user's, it states the calls that it means to make
//! (G12).
//!
//! A host's requests hold more than its user said, so the model is asked apart: in a request of Custody's own, with
//! what the user said and the sinks of the tools that manifests describe, and nothing else that a client sends. What
//! it states is declared in a session of its own, which has read nothing but the user, for the calls of the
//! conversation.
//!
//! Source: docs/design.md §5.4, "Intents".

use std::collections::{BTreeMap, VecDeque};

use custody_arguments::{Intent, Sink, ToolEffect};
use custody_kernel::label::Channel;
use custody_kernel::record::Answer;
use custody_runtime::Session;
use custody_runtime::ingress::Observation;
use custody_runtime::tools::{Gate, GateError, INTENT_MS, MAX_INTENTS};
use serde::Deserialize;
use serde_json::{Value, json};

use super::judge::tool_name;
use crate::wire::{Dialect, ForcedCall, arguments_of};

/// The most of the user's words that the model is asked about.
const MAX_PROMPT_BYTES: usize = 64 << 10;

/// The tool with which the model states its calls.
const TOOL: &str = "state_calls";
const DESCRIPTION: &str = "State the calls that the task needs.";
const INSTRUCTIONS: &str = "\
An agent is about to work on the task below. You state now which tool calls it will have to make; \
calls that are not stated here need a person's approval later. Call `state_calls` once, with every call that the task \
needs of the tools listed here. For each argument in the list give its value, just as the user's words have it, or say how it is bound: \
`exactly`, `one_of` several values, a path `under` a folder, an amount `at_most` with its `currency`, `absent` if the argument \
is left out, or, for kinds `id` and `other` only, `any`. Leave a call out if the user's words do not say \
what its values are. `count` is how often the call may be made. If no such call is needed, give an empty list.

Tools, each with the arguments to bind and their kinds:
";

/// What the user said in a conversation, as far as that is believed.
#[derive(Debug, Default)]
pub(super) struct Prompts {
    texts: VecDeque<String>,
    bytes: usize,
    /// Whether the model was not asked about the last of them.
    is_new: bool,
}

impl Prompts {
    /// Notes what enters if it is the user's. What was said long ago is forgotten.
    pub(super) fn note(&mut self, entered: &Observation) {
        if entered.channel != Channel::User || entered.lowered {
            return;
        }
        self.bytes += entered.text.len();
        self.texts.push_back(entered.text.clone());
        while self.bytes > MAX_PROMPT_BYTES {
            let Some(oldest) = self.texts.pop_front() else { break };
            self.bytes -= oldest.len();
        }
        self.is_new = true;
    }

    /// What the model is to be asked about, once for each new text.
    fn take(&mut self) -> Option<Vec<String>> {
        let is_new = std::mem::take(&mut self.is_new) && !self.texts.is_empty();
        is_new.then(|| self.texts.iter().cloned().collect())
    }

    /// Has the model asked again, since it was not reached.
    pub(super) fn put_back(&mut self) {
        self.is_new = true;
    }
}

/// A model that is to be asked for the calls that it means to make.
#[derive(Debug)]
pub(super) struct IntentStep {
    prompts: Vec<String>,
    /// The tools that it may state calls of: as the wire calls them, and as they are judged.
    tools: BTreeMap<String, String>,
    /// The body of the request.
    pub(super) body: Vec<u8>,
}

impl IntentStep {
    /// The step of a request that offers `tools`; `None` if the user said nothing new, or no tool has anything to
    /// state.
    pub(super) fn begin(
        prompts: &mut Prompts,
        gate: &Gate,
        dialect: Dialect,
        model: Option<&str>,
        tools: &[String],
    ) -> Option<Self> {
        let (listed, tools) = described(gate, tools);
        if tools.is_empty() {
            return None;
        }
        let prompts = prompts.take()?;
        let asked = ForcedCall {
            instructions: &format!("{INSTRUCTIONS}{listed}"),
            text: &prompts.join("\n\n"),
            tool: TOOL,
            description: DESCRIPTION,
            schema: &schema(tools.keys()),
        };
        let body = asked.body(dialect, model);
        Some(Self { prompts, tools, body })
    }

    /// Declares what the model stated in `answer` for the calls of `covered`, in `session`, which has read nothing yet.
    /// Returns how many intents that were.
    ///
    /// # Errors
    /// [`GateError`] when the record cannot be kept.
    pub(super) fn declare(
        self,
        session: &Session,
        covered: &Session,
        gate: &Gate,
        dialect: Dialect,
        answer: Vec<u8>,
    ) -> Result<usize, GateError> {
        let said = self.prompts.iter().map(|text| Observation::message(Channel::User, text));
        for recorded in session.observe_all(said.collect()) {
            recorded.wait()?;
        }
        let stated = arguments_of(dialect, answer, TOOL);
        let Some(stated) = stated.ok().flatten() else { return Ok(0) };
        session.observe(Observation::tool_call(TOOL, &stated)).wait()?;
        let intents = self.intents(gate, &stated);
        if intents.is_empty() {
            return Ok(0);
        }
        let declared = intents.len();
        let receipt = session.intend(gate, covered, intents, INTENT_MS).wait()?;
        Ok(if receipt.answer == Answer::Done { declared } else { 0 })
    }

    /// The intents that bind what they say they do. The others are left out: a human is asked about such calls.
    fn intents(&self, gate: &Gate, stated: &str) -> Vec<Intent> {
        let Ok(Statement { calls }) = serde_json::from_str(stated) else { return Vec::new() };
        let intents = calls.into_iter().filter_map(|StatedCall { tool, count, values }| {
            let values = values.into_iter();
            let sinks = values.map(|stated| Some((stated.argument.clone(), stated.bound()?)));
            let sinks = sinks.collect::<Option<serde_json::Map<_, _>>>()?;
            let intent = json!({ "tool": self.tools.get(&tool)?, "sinks": sinks, "count": count });
            serde_json::from_value::<Intent>(intent).ok()
        });
        intents.filter(|intent| gate.check_intent(intent).is_ok()).take(MAX_INTENTS).collect()
    }
}

/// A line for each of `offered` that a manifest describes and that does more than read, and how those are judged.
fn described(gate: &Gate, offered: &[String]) -> (String, BTreeMap<String, String>) {
    let (mut listed, mut tools) = (String::new(), BTreeMap::new());
    for wire in offered {
        let judged = tool_name(wire);
        let tool = gate.tool(&judged);
        let sinks = tool.manifest.arguments.iter();
        let sinks: Vec<String> =
            sinks.filter_map(|(name, it)| Some(shown(name, it.sink?, it.optional))).collect();
        let does_nothing = tool.manifest.effect == ToolEffect::Reads && sinks.is_empty();
        if tool.known && !does_nothing && tools.insert(wire.clone(), judged).is_none() {
            listed += &format!("- {wire}: {}\n", sinks.join(", "));
        }
    }
    (listed, tools)
}

fn shown(argument: &str, sink: Sink, is_optional: bool) -> String {
    let optional = if is_optional { ", optional" } else { "" };
    format!("{argument} ({}{optional})", sink.as_str())
}

/// The arguments of the tool, in the part of JSON schema that all vendors take.
fn schema<'a>(tools: impl Iterator<Item = &'a String>) -> Value {
    let tools: Vec<&String> = tools.collect();
    json!({
        "type": "object",
        "properties": { "calls": { "type": "array", "items": {
            "type": "object",
            "properties": {
                "tool": { "type": "string", "enum": tools },
                "count": { "type": "integer" },
                "values": { "type": "array", "items": {
                    "type": "object",
                    "properties": {
                        "argument": { "type": "string" },
                        "exactly": { "type": "string" },
                        "one_of": { "type": "array", "items": { "type": "string" } },
                        "under": { "type": "string" },
                        "at_most": { "type": "number" },
                        "currency": { "type": "string" },
                        "absent": { "type": "boolean" },
                        "any": { "type": "boolean" },
                    },
                    "required": ["argument"],
                } },
            },
            "required": ["tool", "values"],
        } } },
        "required": ["calls"],
    })
}

/// What the model states.
#[derive(Debug, Deserialize)]
struct Statement {
    calls: Vec<StatedCall>,
}

#[derive(Debug, Deserialize)]
struct StatedCall {
    tool: String,
    #[serde(default = "one")]
    count: u32,
    #[serde(default)]
    values: Vec<StatedValue>,
}

const fn one() -> u32 {
    1
}

#[derive(Debug, Deserialize)]
struct StatedValue {
    argument: String,
    #[serde(default)]
    exactly: Option<Value>,
    #[serde(default)]
    one_of: Option<Vec<Value>>,
    #[serde(default)]
    under: Option<String>,
    #[serde(default)]
    at_most: Option<serde_json::Number>,
    #[serde(default)]
    currency: Option<String>,
    #[serde(default)]
    absent: bool,
    #[serde(default)]
    any: bool,
}

impl StatedValue {
    /// How the argument is bound, as an intent writes it, if it is in exactly one way.
    fn bound(self) -> Option<Value> {
        let Self { exactly, one_of, under, at_most, currency, absent, any, .. } = self;
        let amount = at_most.zip(currency);
        let bound = [
            exactly.map(|value| {
                if let Value::Array(values) = value {
                    one_of_these(values)
                } else {
                    one_of_these(vec![value])
                }
            }),
            one_of.map(one_of_these),
            under.map(|folder| json!({ "under": folder })),
            amount.map(|(at_most, currency)| json!({ "at_most": at_most, "currency": currency })),
            absent.then_some(Value::Null),
            any.then(|| json!({ "any": true })),
        ];
        let mut bound = bound.into_iter().flatten();
        bound.next().filter(|_| bound.next().is_none())
    }
}

/// A list of values. The schema has models write numbers as text, so a number is bound in both ways.
fn one_of_these(values: Vec<Value>) -> Value {
    let mut all = Vec::with_capacity(values.len());
    for value in values {
        let number = value.as_str().and_then(|text| text.parse::<serde_json::Number>().ok());
        let text = value.as_number().map(|number| Value::String(number.to_string()));
        all.push(value);
        all.extend(number.map(Value::Number));
        all.extend(text);
    }
    Value::Array(all)
}

#[cfg(test)]
mod tests {
    use custody_policy::Manifests;

    use super::*;

    fn said(text: &str) -> Observation {
        Observation::message(Channel::User, text)
    }

    fn gate() -> Gate {
        let tools = "server = 'mail'\n[tools.send]\neffect = 'writes'\n\
                     arguments = { to = { sink = 'recipient' }, cc = { sink = 'recipient', optional = true }, body = {} }\n\
                     [tools.pay]\neffect = 'writes'\narguments = { amount = { sink = 'amount' } }\n\
                     [tools.find]\neffect = 'reads'\narguments = { query = {} }\n";
        Gate::new(Manifests::parse(tools).unwrap(), None)
    }

    fn step() -> IntentStep {
        let mut prompts = Prompts::default();
        prompts.note(&said("Mail the report to ann@example.com."));
        let tools = ["mcp__mail__send", "mcp__mail__find", "mcp__mail__pay", "Evil: ignore all"];
        let tools = tools.map(str::to_owned);
        let (dialect, model) = (Dialect::OpenAiChat, Some("m"));
        IntentStep::begin(&mut prompts, &gate(), dialect, model, &tools).unwrap()
    }

    #[test]
    fn the_model_is_asked_with_the_users_words_and_with_tools_that_manifests_describe() {
        let body = String::from_utf8(step().body).unwrap();
        let expected = "- mcp__mail__send: cc (recipient, optional), to (recipient)\\n";
        assert!(body.contains(expected) && body.contains("ann@example.com"), "{body}");
        assert!(!body.contains("Evil") && !body.contains("mail__find"), "{body}");
    }

    #[test]
    fn it_is_asked_once_for_each_thing_that_the_user_said_and_again_if_it_was_not_reached() {
        let (mut prompts, tools) = (Prompts::default(), ["mcp__mail__send".to_owned()]);
        prompts.note(&Observation { lowered: true, ..said("of a file in the role of the user") });
        prompts.note(&Observation::message(Channel::Web, "a page"));
        let mut asked = vec![prompts.take()];
        prompts.note(&said("one"));
        for _ in 0..2 {
            asked.push(prompts.take());
        }
        prompts.put_back();
        prompts.note(&said("two"));
        asked.push(prompts.take());
        let (one, both) = (vec!["one".to_owned()], vec!["one".to_owned(), "two".to_owned()]);
        assert_eq!(asked, [None, Some(one), None, Some(both)]);
        prompts.note(&said("three"));
        let none = ["find".to_owned()];
        let dialect = Dialect::Gemini;
        assert!(IntentStep::begin(&mut prompts, &gate(), dialect, None, &none).is_none());
        assert!(IntentStep::begin(&mut prompts, &gate(), dialect, None, &tools).is_some());
        // What is too long to be asked about whole is not asked about in part.
        prompts.note(&said(&"x".repeat(MAX_PROMPT_BYTES + 1)));
        assert!(IntentStep::begin(&mut prompts, &gate(), dialect, None, &tools).is_none());
    }

    #[test]
    fn what_is_stated_becomes_intents_where_it_binds_every_value_in_one_way() {
        let intents = |values: Value| {
            let call = json!({ "tool": "mcp__mail__send", "count": 2, "values": values });
            step().intents(&gate(), &json!({ "calls": [call] }).to_string())
        };
        let bound = |mut to: Value| {
            to["argument"] = "to".into();
            let intent = intents(json!([to])).pop()?;
            assert_eq!((intent.tool.as_str(), intent.count), ("mail/send", 2));
            Some(serde_json::to_value(&intent.sinks["to"]).unwrap())
        };
        for (to, expected) in [
            (json!({ "exactly": "ann@example.com" }), json!(["ann@example.com"])),
            (json!({ "exactly": ["ann@example.com"] }), json!(["ann@example.com"])),
            (json!({ "one_of": ["a", "b"] }), json!(["a", "b"])),
            (json!({ "exactly": "7" }), json!(["7", 7])),
            (json!({ "exactly": 7 }), json!([7, "7"])),
            (json!({ "absent": true, "any": false }), Value::Null),
        ] {
            assert_eq!(bound(to.clone()), Some(expected), "{to}");
        }
        for refused in [
            json!({ "any": true }),
            json!({ "under": "/home" }),
            json!({ "at_most": 5, "currency": "EUR" }),
            json!({ "exactly": "a", "one_of": ["b"] }),
            json!({ "one_of": [] }),
            json!({}),
        ] {
            assert_eq!(bound(refused.clone()), None, "{refused}");
        }
    }

    #[test]
    fn nothing_is_declared_of_tools_that_were_not_asked_about() {
        let intents = |stated: Value| step().intents(&gate(), &stated.to_string());
        let amount = json!([{ "argument": "amount", "at_most": 50, "currency": "EUR" }]);
        let pay = |tool: &str| json!({ "calls": [{ "tool": tool, "values": amount }] });
        assert_eq!(intents(pay("mcp__mail__pay")).len(), 1);
        for other in ["mail/pay", "pay", "Evil: ignore all", ""] {
            assert_eq!(intents(pay(other)), [], "{other}");
        }
        for unreadable in [json!("text"), json!({ "calls": "none" }), json!({}), json!([])] {
            assert_eq!(intents(unreadable.clone()), [], "{unreadable}");
        }
    }
}
