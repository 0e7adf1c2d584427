//! Tools for models without a tool protocol: described in the system prompt and called by a line of the answer.

use serde_json::{Map, Value, json};

use super::message::{ChatToolCall, ToolSpec};
use super::request::ChatAnswer;

/// The beginning of a line that calls a tool; the name and an opening parenthesis follow.
pub const CALL_PREFIX: &str = "CALL ";

/// A tool with one named argument and a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextTool {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub description: &'static str,
    /// The name of its argument.
    pub argument: &'static str,
}

impl TextTool {
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

    /// Whether a line of `answer` calls this tool.
    pub fn is_called_in(&self, answer: &str) -> bool {
        answer.contains(&format!("{CALL_PREFIX}{}", self.name))
    }
}

/// The tools field of a request: empty for a model without a tool protocol.
pub fn specs(tools: &[TextTool], supports_tools: bool) -> Vec<ToolSpec> {
    if supports_tools { tools.iter().map(TextTool::spec).collect() } else { Vec::new() }
}

/// The part of a system prompt that describes `tools` to a model without a tool protocol; empty for others.
pub fn instructions(tools: &[TextTool], supports_tools: bool) -> String {
    if supports_tools {
        return String::new();
    }
    let each = tools.iter().map(|tool| format!("{}: {}", tool.name, tool.description));
    let each = each.collect::<Vec<_>>().join(" ");
    format!("\nYou have tools. To use one, write a line `{CALL_PREFIX}name(argument)`. {each}")
}

/// The part of a system prompt that describes `tools` with any arguments to a model without a tool protocol.
pub fn describe(tools: &[ToolSpec]) -> String {
    let mut text = format!(
        "You have tools. To use one, write a line `{CALL_PREFIX}name({{\"argument\": \"value\"}})`."
    );
    for tool in tools {
        let arguments = parameters(tool).join(", ");
        text.push_str(&format!("\n{}({arguments}): {}", tool.name, tool.description));
    }
    text
}

/// The calls of `tools` in an answer: those of the tool protocol, then those in its text.
///
/// A call in the text is a line with a JSON object in parentheses, or with values, with or without names. A model can
/// repeat such a line from its input, so a call is no evidence of who wanted it.
pub fn tool_calls(answer: &ChatAnswer, tools: &[ToolSpec]) -> Vec<ChatToolCall> {
    let mut calls = answer.tool_calls.clone();
    for line in answer.text.split(CALL_PREFIX).skip(1) {
        let line = line.lines().next().unwrap_or_default();
        let Some((name, rest)) = line.split_once('(') else { continue };
        let Some(tool) = tools.iter().find(|tool| tool.name == name.trim()) else { continue };
        let Some(arguments) = parse_arguments(rest, tool) else { continue };
        let id = format!("spoken-{}", calls.len());
        let arguments = Value::Object(arguments).to_string();
        calls.push(ChatToolCall { id, name: tool.name.clone(), arguments });
    }
    calls
}

/// The arguments after the opening parenthesis of a call; `None` if they cannot be parsed.
fn parse_arguments(rest: &str, tool: &ToolSpec) -> Option<Map<String, Value>> {
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

/// The names of a tool's required arguments, in the order of its schema.
fn parameters(tool: &ToolSpec) -> Vec<&str> {
    let required = tool.parameters["required"].as_array();
    required.into_iter().flatten().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::request::{FinishReason, Usage};

    fn tool(name: &str, arguments: &[(&str, &str)]) -> ToolSpec {
        let types =
            arguments.iter().map(|(name, kind)| ((*name).to_owned(), json!({"type": kind})));
        let properties: Map<String, Value> = types.collect();
        let required: Vec<&str> = arguments.iter().map(|(name, _)| *name).collect();
        let parameters = json!({"type": "object", "properties": properties, "required": required});
        ToolSpec { name: name.to_owned(), description: "Does it.".to_owned(), parameters }
    }

    fn tools() -> Vec<ToolSpec> {
        vec![
            tool("read", &[("mail", "string")]),
            tool("pay", &[("to", "string"), ("sum", "number")]),
            tool("stop", &[]),
        ]
    }

    fn called(text: &str) -> Vec<(String, Value)> {
        let (finish, usage) = (FinishReason::Done, Usage::default());
        let answer = ChatAnswer { text: text.to_owned(), tool_calls: Vec::new(), finish, usage };
        tool_calls(&answer, &tools())
            .into_iter()
            .map(|call| (call.name, serde_json::from_str(&call.arguments).unwrap()))
            .collect()
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
            let calls = called(text);
            let arguments = serde_json::from_str(arguments).unwrap();
            assert_eq!(calls, [(name.to_owned(), arguments)], "{text}");
        }
        let none =
            ["I would call read(m-1).", "CALL erase(all)", "CALL read", r#"CALL read({"mail": )"#];
        for text in none {
            assert_eq!(called(text), [], "{text}");
        }
        assert_eq!(called("CALL stop()\nCALL stop()").len(), 2);
    }

    #[test]
    fn tools_are_described_with_their_arguments_in_order() {
        let text = describe(&tools());
        assert!(
            text.ends_with("read(mail): Does it.\npay(to, sum): Does it.\nstop(): Does it."),
            "{text}"
        );
    }
}
