//! Manifests drafted from a server's list of tools, with every guess marked.
//!
//! The list is untrusted: names, annotations and schemas are claims of the server. Wherever the list leaves a choice,
//! the draft has the stricter reading until a person corrects it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use custody_arguments::{MAX_TOOL_NAME, Sink, ToolEffect, ToolName};
use custody_log::Digest;
use serde::Serialize;
use serde_json::{Value, json};

use crate::guess::{self, Kind};
use crate::manifests::MAX_MANIFEST_BYTES;
use crate::problem::one_line;

/// The longest name of an argument, in bytes.
const MAX_NAME: usize = 256;
/// The depth to which a schema is searched for field names.
const MAX_DEPTH: usize = 16;

const HEAD: &str = "\
# Drafted from a server's own list of tools. Its names, annotations and schemas are claims, the rest are guesses:
# check each line before you rely on it. An argument without a sink is taken for text that decides nothing.
";

/// A drafted manifest file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Draft {
    /// The manifest file, for [`Manifests::parse`](crate::Manifests::parse).
    pub toml: String,
    /// The lines that a person has to check.
    pub guesses: Vec<Guess>,
}

/// One guess of a draft.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Guess {
    /// The tool.
    pub tool: String,
    /// The argument; `None` if the guess is the effect of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument: Option<String>,
    /// The guessed effect or sink.
    pub guess: &'static str,
    /// The basis of the guess.
    pub because: &'static str,
}

/// A list from which no manifest can be drafted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DraftError {
    /// The value is not a list of tools.
    #[error(
        "this is no list of tools; give the result of MCP `tools/list`, or the `tools` of a chat request"
    )]
    NoList,
    /// The list is empty.
    #[error("the list is empty; ask the server for its tools again")]
    Empty,
    /// A tool without a usable name.
    #[error("tool {0} has no name of 1 to {MAX_TOOL_NAME} visible characters; leave it out")]
    Name(usize),
    /// An argument with an unusable name.
    #[error("an argument of `{0}` has a name of more than {MAX_NAME} bytes; leave the tool out")]
    Argument(String),
    /// Two tools of one name.
    #[error("two tools are named `{0}`; leave one out")]
    Twice(String),
    /// The draft would be longer than a manifest file may be.
    #[error("the draft would have more than {MAX_MANIFEST_BYTES} bytes; draft fewer tools at once")]
    TooLong,
}

/// SHA-256 of the canonical JSON (RFC 8785) of a tool's name, description and schema.
///
/// Whatever protocol the tool was announced in, the same three give the same digest. Integers beyond 2⁵³ count
/// as the double nearest to them.
pub fn pin(tool: &Value) -> Digest {
    let Announced { name, description, schema, .. } = Announced::of(tool);
    let pinned = json!({ "name": name, "description": description, "inputSchema": schema });
    let bytes = serde_json_canonicalizer::to_string(&pinned).unwrap_or_else(|_| pinned.to_string());
    Digest::of(bytes.as_bytes())
}

/// Drafts the manifests of a list of tools: the result of MCP `tools/list`, or the `tools` of a chat request
/// in the format of OpenAI or Anthropic.
///
/// # Errors
/// [`DraftError`] when the value is not such a list, or a name in it cannot be used.
pub fn draft(list: &Value) -> Result<Draft, DraftError> {
    let tools =
        [list, &list["tools"], &list["result"]["tools"]].into_iter().find_map(Value::as_array);
    let tools = tools.ok_or(DraftError::NoList)?;
    if tools.is_empty() {
        return Err(DraftError::Empty);
    }
    let mut draft = Draft { toml: HEAD.to_owned(), guesses: Vec::new() };
    let mut names = BTreeSet::new();
    for (number, tool) in (1..).zip(tools) {
        let announced = Announced::of(tool);
        let name =
            announced.name.as_str().filter(|name| is_name(name)).ok_or(DraftError::Name(number))?;
        if !names.insert(name) {
            return Err(DraftError::Twice(one_line(name)));
        }
        draft.tool(name, &announced, pin(tool))?;
        if draft.toml.len() > MAX_MANIFEST_BYTES {
            return Err(DraftError::TooLong);
        }
    }
    Ok(draft)
}

fn is_name(name: &str) -> bool {
    ToolName::parse(name).is_ok()
}

/// A tool as a server announces it.
struct Announced<'a> {
    name: &'a Value,
    description: &'a Value,
    schema: &'a Value,
    annotations: &'a Value,
}

impl<'a> Announced<'a> {
    fn of(tool: &'a Value) -> Self {
        let tool = tool.get("function").filter(|inner| inner.is_object()).unwrap_or(tool);
        let schemas = ["inputSchema", "input_schema", "parameters"];
        let schema = schemas.iter().find_map(|name| tool.get(name)).unwrap_or(&Value::Null);
        let (name, description, annotations) =
            (&tool["name"], &tool["description"], &tool["annotations"]);
        Self { name, description, schema, annotations }
    }

    fn hints(&self, name: &str) -> Option<bool> {
        self.annotations[name].as_bool()
    }

    /// The effect of the tool, and the basis of the guess.
    fn effect(&self, name: &str) -> (ToolEffect, &'static str) {
        let reads_by_name = guess::effect(name) == ToolEffect::Reads;
        match (self.hints("readOnlyHint"), self.hints("destructiveHint")) {
            (Some(true), Some(true)) => {
                (ToolEffect::Writes, "its annotations contradict each other")
            }
            (Some(true), _) if guess::names_writing(name) => {
                (ToolEffect::Writes, "the name says so, although the server claims readOnlyHint")
            }
            (Some(true), _) => {
                (ToolEffect::Reads, "claimed by the server's annotation readOnlyHint")
            }
            (Some(false), _) => (ToolEffect::Writes, "annotation readOnlyHint = false"),
            (None, Some(true)) => (ToolEffect::Writes, "annotation destructiveHint"),
            (None, _) if reads_by_name => (ToolEffect::Reads, "guessed from the name"),
            (None, _) => (ToolEffect::Writes, "the name does not say that it only reads"),
        }
    }
}

impl Draft {
    fn tool(
        &mut self,
        name: &str,
        announced: &Announced<'_>,
        pin: Digest,
    ) -> Result<(), DraftError> {
        let (effect, because) = announced.effect(name);
        let table = format!("tools.{}", key(name));
        self.line(format_args!("\n[{table}]\n# {because}\neffect = \"{}\"", effect.as_str()));
        self.guess(name, None, effect.as_str(), because);
        if effect == ToolEffect::Reads && announced.hints("openWorldHint") == Some(true) {
            let because = "annotation openWorldHint";
            self.line(format_args!("# {because}: what it is asked goes out\ntext_leaves = true"));
            self.guess(name, None, "text_leaves", because);
        }
        self.line(format_args!("description_sha256 = \"{pin}\""));
        let properties: BTreeMap<&String, &Value> =
            announced.schema["properties"].as_object().into_iter().flatten().collect();
        if !properties.is_empty() {
            self.line(format_args!("\n[{table}.arguments]"));
        }
        for (argument, schema) in properties {
            if argument.len() > MAX_NAME {
                return Err(DraftError::Argument(one_line(name)));
            }
            let (sink, because) = sink(argument, schema, effect);
            let mut fields = BTreeSet::new();
            collect_fields(schema, MAX_DEPTH, &mut fields);
            let sink_part = sink.map(|sink| format!("sink = \"{}\"", sink.as_str()));
            let absence = sink.and_then(|sink| absence(argument, schema, announced, sink, effect));
            let is_optional = matches!(absence, Some(Absence::Harmless));
            let optional_part = is_optional.then(|| "optional = true".to_owned());
            let fields: Vec<String> = fields.into_iter().map(quoted).collect();
            let fields_part =
                (!fields.is_empty()).then(|| format!("fields = [{}]", fields.join(", ")));
            let parts = [sink_part, optional_part, fields_part];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            let value = if parts.is_empty() {
                "{}".to_owned()
            } else {
                format!("{{ {} }}", parts.join(", "))
            };
            self.line(format_args!("# {because}"));
            self.guess(name, Some(argument), sink.map_or("no sink", Sink::as_str), because);
            if let Some(absence) = absence {
                let (guess, because) = absence.explained();
                self.line(format_args!("# {because}"));
                self.guess(name, Some(argument), guess, because);
            }
            self.line(format_args!("{} = {value}", key(argument)));
            if self.toml.len() > MAX_MANIFEST_BYTES {
                return Err(DraftError::TooLong);
            }
        }
        Ok(())
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.toml, "{line}");
    }

    fn guess(
        &mut self,
        tool: &str,
        argument: Option<&String>,
        guess: &'static str,
        because: &'static str,
    ) {
        self.guesses.push(Guess {
            tool: tool.to_owned(),
            argument: argument.cloned(),
            guess,
            because,
        });
    }
}

/// The sink of an argument, and the basis of the guess.
fn sink(name: &str, schema: &Value, effect: ToolEffect) -> (Option<Sink>, &'static str) {
    match guess::kind(name) {
        Kind::Sink(sink) => (Some(sink), "guessed from the name"),
        Kind::Text => (None, "guessed from the name: text"),
        Kind::Unclear if effect == ToolEffect::Reads && is_plain(schema) => {
            (None, "guessed from the schema: how much or in which form is read")
        }
        Kind::Unclear => (Some(Sink::Other), "the name does not say what it decides"),
    }
}

/// What a call does that leaves out a sink which its schema does not require.
#[derive(Debug, Clone, Copy)]
enum Absence {
    /// No more than one that gives it.
    Harmless,
    /// Perhaps more: a condition that is left out holds for everything.
    Unclear,
    /// Something else than nothing: the server has a value of its own.
    Default,
}

impl Absence {
    /// The guess, and what it is made from.
    const fn explained(self) -> (&'static str, &'static str) {
        match self {
            Self::Harmless => {
                ("optional", "not required by the schema: left out, nothing more goes out")
            }
            Self::Unclear => (
                "not optional",
                "not required by the schema; add `optional = true` if a call without it does no more",
            ),
            Self::Default => {
                ("not optional", "the schema gives a default: left out, the server chooses it")
            }
        }
    }
}

/// What leaving `name` out comes to; nothing if the schema requires it.
fn absence(
    name: &str,
    schema: &Value,
    announced: &Announced<'_>,
    sink: Sink,
    effect: ToolEffect,
) -> Option<Absence> {
    let required = announced.schema["required"].as_array();
    if required.into_iter().flatten().any(|required| required == name) {
        return None;
    }
    let has_default = match &schema["default"] {
        Value::Null => false,
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    };
    if has_default {
        return Some(Absence::Default);
    }
    // A schema without the list says nothing; a copy to nobody is no copy; a reader sends nothing of what it lacks.
    let is_copy = sink == Sink::Recipient && guess::is_copy(name);
    let is_harmless = required.is_some() && (effect == ToolEffect::Reads || is_copy);
    Some(if is_harmless { Absence::Harmless } else { Absence::Unclear })
}

/// Whether a schema leaves room for a number, a truth or one of a few words, and nothing else.
fn is_plain(schema: &Value) -> bool {
    let is_type = ["integer", "number", "boolean"].iter().any(|plain| schema["type"] == **plain);
    is_type || schema["enum"].is_array()
}

/// The names of all fields that a schema gives to structured values.
fn collect_fields<'a>(schema: &'a Value, depth: usize, fields: &mut BTreeSet<&'a str>) {
    if depth == 0 {
        return;
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        if name.len() <= MAX_NAME {
            fields.insert(name);
        }
        collect_fields(inner, depth - 1, fields);
    }
    let branches = ["anyOf", "oneOf", "allOf", "prefixItems"];
    let inner = branches.iter().filter_map(|name| schema[*name].as_array()).flatten();
    for schema in inner.chain([&schema["items"], &schema["additionalProperties"]]) {
        if schema.is_object() {
            collect_fields(schema, depth - 1, fields);
        }
    }
}

/// A TOML key.
fn key(name: &str) -> String {
    let is_bare = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if is_bare && !name.is_empty() { name.to_owned() } else { quoted(name) }
}

/// A TOML string. Characters that are not visible are escaped.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' ' => quoted.push(c),
            _ if c.is_ascii_graphic() || c.is_alphanumeric() => quoted.push(c),
            _ => {
                let _ = write!(quoted, "\\U{:08X}", u32::from(c));
            }
        }
    }
    quoted.push('"');
    quoted
}
