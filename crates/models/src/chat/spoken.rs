//! Tools for models that know none: told of in words, and called by a line of the answer.

use serde_json::{Map, Value, json};

use super::message::{ToolCall, ToolSpec};
use super::request::Answer;

/// How a line that calls a tool begins; its name and a parenthesis follow.
pub const CALL: &str = "CALL ";

/// A tool that takes one argument and a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpokenTool {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub description: &'static str,
    /// The name of its argument.
    pub argument: &'static str,
}

impl SpokenTool {
    /// The tool `name`.
    pub const fn new(
        name: &'static str,
        description: &'static str,
        argument: &'static str,
    ) -> Self {
        Self { name, description, argument }
    }

    fn spec(&self) -> ToolSpec {
        let Self { name, description, argument } = *self;
        ToolSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {argument: {"type": "string"}, "text": {"type": "string"}},
                "required": [argument],
            }),
        }
    }

    /// Whether a line in `answer` calls it.
    pub fn is_called_in(&self, answer: &str) -> bool {
        answer.contains(&format!("{CALL}{}", self.name))
    }
}

/// `tools` for a request to a model that knows tools; none for others.
pub fn specs(tools: &[SpokenTool], knows_tools: bool) -> Vec<ToolSpec> {
    if knows_tools { tools.iter().map(SpokenTool::spec).collect() } else { Vec::new() }
}

/// What a system prompt says of `tools` to a model that knows none; nothing for others.
pub fn told(tools: &[SpokenTool], knows_tools: bool) -> String {
    if knows_tools {
        return String::new();
    }
    let each = tools.iter().map(|tool| format!("{}: {}", tool.name, tool.description));
    let each = each.collect::<Vec<_>>().join(" ");
    format!("\nYou have tools. To use one, write a line `{CALL}name(argument)`. {each}")
}

/// What a system prompt says of `tools`, whatever arguments they take, to a model that knows none.
pub fn described(tools: &[ToolSpec]) -> String {
    let mut text = format!(
        "You have tools. To use one, write a line `{CALL}name({{\"argument\": \"value\"}})`."
    );
    for tool in tools {
        let arguments = parameters(tool).join(", ");
        text.push_str(&format!("\n{}({arguments}): {}", tool.name, tool.description));
    }
    text
}

/// The calls of `tools` in an answer: those that the model made, then those that it spoke.
///
/// A spoken call is a line with a JSON object between parentheses, or with values, bare or behind their names. A model
/// that was shown such a line can repeat it, so nothing follows from a call about who wanted it.
pub fn calls(answer: &Answer, tools: &[ToolSpec]) -> Vec<ToolCall> {
    let mut calls = answer.tool_calls.clone();
    for line in answer.text.split(CALL).skip(1) {
        let line = line.lines().next().unwrap_or_default();
        let Some((name, rest)) = line.split_once('(') else { continue };
        let Some(tool) = tools.iter().find(|tool| tool.name == name.trim()) else { continue };
        let Some(arguments) = spoken_arguments(rest, tool) else { continue };
        let id = format!("spoken-{}", calls.len());
        let arguments = Value::Object(arguments).to_string();
        calls.push(ToolCall { id, name: tool.name.clone(), arguments });
    }
    calls
}

/// What stands behind the opening parenthesis of a call; nothing if it is no list of arguments.
fn spoken_arguments(rest: &str, tool: &ToolSpec) -> Option<Map<String, Value>> {
    if rest.trim_start().starts_with('{') {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Map<String, Value>>();
        return values.next()?.ok();
    }
    let inside = rest.rsplit_once(')').map_or(rest, |(inside, _)| inside).trim();
    let names = parameters(tool);
    let pieces = if names.len() > 1 { inside.split(',').collect() } else { vec![inside] };
    let mut arguments = Map::new();
    for (at, piece) in
        pieces.into_iter().map(str::trim).filter(|piece| !piece.is_empty()).enumerate()
    {
        let named = piece.split_once(['=', ':']).map(|(name, value)| (unquoted(name), value));
        let named = named.filter(|(name, _)| names.contains(name));
        let (name, value) = match named {
            Some(named) => named,
            None => (*names.get(at)?, piece),
        };
        let value = unquoted(value);
        let is_number = tool.parameters["properties"][name]["type"] == "number";
        let number = value.parse::<f64>().ok().filter(|_| is_number).map(Value::from);
        arguments.insert(name.to_owned(), number.unwrap_or_else(|| value.into()));
    }
    Some(arguments)
}

fn unquoted(text: &str) -> &str {
    text.trim().trim_matches(['"', '\'', '`'])
}

/// The names of a tool's arguments, in the order of its schema's list of required ones.
fn parameters(tool: &ToolSpec) -> Vec<&str> {
    let required = tool.parameters["required"].as_array();
    required.into_iter().flatten().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::request::{Finish, Usage};

    fn tools() -> Vec<ToolSpec> {
        let schema = |properties: Value, required: Value| json!({ "type": "object", "properties": properties, "required": required });
        let text = || json!({ "type": "string" });
        let number = || json!({ "type": "number" });
        let tool = |name: &str, parameters| {
            let description = "Does it.".to_owned();
            ToolSpec { name: name.to_owned(), description, parameters }
        };
        vec![
            tool("read", schema(json!({ "mail": text() }), json!(["mail"]))),
            tool("pay", schema(json!({ "to": text(), "sum": number() }), json!(["to", "sum"]))),
            tool("stop", schema(json!({}), json!([]))),
        ]
    }

    fn spoken(text: &str) -> Vec<(String, Value)> {
        let (finish, usage) = (Finish::Done, Usage::default());
        let answer = Answer { text: text.to_owned(), tool_calls: Vec::new(), finish, usage };
        let read = |call: ToolCall| (call.name, serde_json::from_str(&call.arguments).unwrap());
        calls(&answer, &tools()).into_iter().map(read).collect()
    }

    #[test]
    fn a_call_is_read_however_a_small_model_writes_it() {
        let cases = [
            (r#"CALL read({"mail": "m-1"})"#, "read", r#"{"mail":"m-1"}"#),
            (r#"Sure.\nCALL read("m-1, m-2") now"#, "read", r#"{"mail":"m-1, m-2"}"#),
            ("CALL read(m-1", "read", r#"{"mail":"m-1"}"#),
            ("CALL pay(ann, 12.5)", "pay", r#"{"sum":12.5,"to":"ann"}"#),
            ("CALL pay(sum = 3, to: 'ann')", "pay", r#"{"sum":3.0,"to":"ann"}"#),
            ("CALL pay(ann, soon)", "pay", r#"{"sum":"soon","to":"ann"}"#),
            ("CALL stop()", "stop", "{}"),
        ];
        for (text, name, arguments) in cases {
            let calls = spoken(text);
            let arguments = serde_json::from_str(arguments).unwrap();
            assert_eq!(calls, [(name.to_owned(), arguments)], "{text}");
        }
        let none =
            ["I would call read(m-1).", "CALL erase(all)", "CALL read", r#"CALL read({"mail": )"#];
        for text in none {
            assert_eq!(spoken(text), [], "{text}");
        }
        assert_eq!(spoken("CALL stop()\nCALL stop()").len(), 2);
    }

    #[test]
    fn tools_are_described_with_their_arguments_in_order() {
        let text = described(&tools());
        assert!(
            text.ends_with("read(mail): Does it.\npay(to, sum): Does it.\nstop(): Does it."),
            "{text}"
        );
    }
}
