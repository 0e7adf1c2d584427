//! Tools for models that know none: told of in words, and called by a line of the answer.

use serde_json::json;

use super::message::ToolSpec;

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
