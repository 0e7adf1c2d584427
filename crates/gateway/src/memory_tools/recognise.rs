//! A call of a memory tool into what it wants of memory.

use serde_json::{Map, Value};

use super::call::{Edit, MemoryCall, MemoryCallError};
use super::table::{MemoryTools, Operation};
use super::watched::watched_name;
use crate::excerpt::excerpt;
use crate::trace::ToolCall;

/// Arguments by their meaning. The first that is present counts.
const KEYS: &[&str] = &["key", "name", "title", "path", "file", "topic"];
const VALUES: &[&str] = &[
    "value",
    "content",
    "text",
    "memory",
    "fact",
    "data",
    "file_text",
    "contents",
    "entities",
    "relations",
    "observations",
];
const PATHS: &[&str] = &["path", "file_path", "filename", "target_file"];
const OLD_PATHS: &[&str] = &["old_path", "source"];
const NEW_PATHS: &[&str] = &["new_path", "destination"];
const OLD_TEXTS: &[&str] = &["old_str", "old_string", "oldText"];
const NEW_TEXTS: &[&str] = &["new_str", "new_string", "newText"];
const INSERTED_TEXTS: &[&str] = &["insert_text", "new_str"];

/// Where a write without a key goes.
const DEFAULT_KEY: &str = "notes";

impl MemoryTools {
    /// What a call wants of memory; `None` when it does not touch memory.
    ///
    /// # Errors
    /// The call is one of a memory tool, or of a file tool on a watched file, and it
    /// cannot be told what it would do.
    pub fn recognise(&self, call: &ToolCall) -> Option<Result<MemoryCall, MemoryCallError>> {
        let operation = self.operation(&call.name)?;
        let arguments = Arguments { tool: &call.name, fields: &call.arguments };
        let request = Request { arguments, watched: &self.watched };
        request.meaning(operation).transpose()
    }
}

/// A call that may touch memory.
struct Request<'a> {
    arguments: Arguments<'a>,
    watched: &'a [String],
}

/// What the paths of a call are paths in.
#[derive(Clone, Copy)]
enum Place {
    /// Memory: every path counts.
    Memory,
    /// The file system: watched files count.
    Files,
}

impl Request<'_> {
    fn meaning(&self, operation: Operation) -> Result<Option<MemoryCall>, MemoryCallError> {
        let arguments = &self.arguments;
        match operation {
            Operation::Read => Ok(Some(read(self.item(KEYS)?))),
            Operation::Write => {
                let value = arguments.value()?;
                Ok(Some(match self.item(KEYS)? {
                    Some(key) => self.write(key, Edit::Replace(value)),
                    // Replacing would lose what was noted before.
                    None => self.write(DEFAULT_KEY.to_owned(), Edit::Append(value)),
                }))
            }
            Operation::Append => {
                let key = self.item(KEYS)?.unwrap_or_else(|| DEFAULT_KEY.to_owned());
                Ok(Some(self.write(key, Edit::Append(arguments.value()?))))
            }
            Operation::Delete => {
                let key = self.item(KEYS)?.ok_or_else(|| arguments.missing(KEYS))?;
                Ok(Some(self.delete(key)))
            }
            Operation::Commands => self.command(Place::Memory),
            Operation::ReadFile => Ok(self.watched_file()?.map(|key| read(Some(key)))),
            Operation::WriteFile => self.write_file(|| arguments.value().map(Edit::Replace)),
            Operation::EditFile => self.write_file(|| arguments.substitutions()),
            Operation::AppendFile => self.write_file(|| arguments.value().map(Edit::Append)),
            Operation::DeleteFile => Ok(self.watched_file()?.map(|key| self.delete(key))),
            Operation::MoveFile => self.rename(Place::Files),
            Operation::FileCommands => self.command(Place::Files),
        }
    }

    /// A tool that names its operation in `command`.
    fn command(&self, place: Place) -> Result<Option<MemoryCall>, MemoryCallError> {
        let arguments = &self.arguments;
        let key = match place {
            Place::Memory => self.item(PATHS)?,
            Place::Files => self.watched_file()?,
        };
        let command = arguments.text(&["command"])?;
        if command == Some("rename") {
            return self.rename(place);
        }
        if let (Place::Files, None) = (place, &key) {
            return Ok(None);
        }
        let command = command.ok_or_else(|| arguments.missing(&["command"]))?;
        Ok(Some(match command {
            "view" => read(key),
            "create" => {
                self.write(arguments.required(key, PATHS)?, Edit::Replace(arguments.value()?))
            }
            "str_replace" => self.write(arguments.required(key, PATHS)?, arguments.substitution()?),
            "insert" => self.write(arguments.required(key, PATHS)?, arguments.insertion()?),
            "delete" => self.delete(arguments.required(key, PATHS)?),
            unknown => {
                return Err(MemoryCallError::UnknownCommand {
                    tool: excerpt(arguments.tool),
                    command: excerpt(unknown),
                });
            }
        }))
    }

    fn rename(&self, place: Place) -> Result<Option<MemoryCall>, MemoryCallError> {
        let arguments = &self.arguments;
        let from = arguments.text(OLD_PATHS)?;
        let to = arguments.text(NEW_PATHS)?;
        let mut paths = from.into_iter().chain(to);
        let watched = paths.any(|path| watched_name(path, self.watched).is_some());
        match place {
            Place::Files if !watched => Ok(None),
            Place::Files | Place::Memory => Ok(Some(MemoryCall::Rename {
                from: from
                    .map(|path| self.key_at(place, path))
                    .ok_or_else(|| arguments.missing(OLD_PATHS))?,
                to: to
                    .map(|path| self.key_at(place, path))
                    .ok_or_else(|| arguments.missing(NEW_PATHS))?,
                watched,
            })),
        }
    }

    /// The item that a path means.
    fn key_at(&self, place: Place, path: &str) -> String {
        match (place, watched_name(path, self.watched)) {
            (Place::Files, Some(name)) => name.to_owned(),
            (Place::Files, None) | (Place::Memory, _) => item_key(path).to_owned(),
        }
    }

    fn write_file(
        &self,
        edit: impl FnOnce() -> Result<Edit, MemoryCallError>,
    ) -> Result<Option<MemoryCall>, MemoryCallError> {
        let Some(key) = self.watched_file()? else {
            return Ok(None);
        };
        Ok(Some(self.write(key, edit()?)))
    }

    /// The key that the call gives an item.
    fn item(&self, names: &[&str]) -> Result<Option<String>, MemoryCallError> {
        Ok(self.arguments.text(names)?.map(|key| item_key(key).to_owned()))
    }

    /// The watched file that the call names, by whichever of its paths.
    fn watched_file(&self) -> Result<Option<String>, MemoryCallError> {
        let arguments = &self.arguments;
        for name in PATHS {
            let path = arguments.text(&[name])?;
            if let Some(watched) = path.and_then(|path| watched_name(path, self.watched)) {
                return Ok(Some(watched.to_owned()));
            }
        }
        Ok(None)
    }

    fn write(&self, key: String, value: Edit) -> MemoryCall {
        let watched = watched_name(&key, self.watched).is_some();
        MemoryCall::Write { key, value, watched }
    }

    fn delete(&self, key: String) -> MemoryCall {
        let watched = watched_name(&key, self.watched).is_some();
        MemoryCall::Delete { key, watched }
    }
}

/// Reads `key`; the root folder is no item.
fn read(key: Option<String>) -> MemoryCall {
    MemoryCall::Read { key: key.filter(|key| !key.is_empty()) }
}

/// A path within memory, without what only says that it is one.
fn item_key(path: &str) -> &str {
    let relative = without_leading(path);
    if !path.starts_with('/') {
        return relative;
    }
    match relative.strip_prefix("memories") {
        Some("") => "",
        Some(rest) if rest.starts_with('/') => without_leading(rest),
        Some(_) | None => relative,
    }
}

/// Strips every leading `/` and `./`.
fn without_leading(mut path: &str) -> &str {
    while let Some(rest) = path.strip_prefix('/').or_else(|| path.strip_prefix("./")) {
        path = rest;
    }
    path
}

/// The arguments of a call, or of one edit within it.
struct Arguments<'a> {
    tool: &'a str,
    fields: &'a Map<String, Value>,
}

impl<'a> Arguments<'a> {
    /// The first of these that is present; null is the same as absent.
    fn first<'n>(&self, names: &[&'n str]) -> Option<(&'n str, &'a Value)> {
        names.iter().find_map(|name| {
            let value = self.fields.get(*name)?;
            (!value.is_null()).then_some((*name, value))
        })
    }

    fn text(&self, names: &[&str]) -> Result<Option<&'a str>, MemoryCallError> {
        match self.first(names) {
            None => Ok(None),
            Some((_, Value::String(text))) => Ok(Some(text)),
            Some((name, _)) => Err(self.wrong(name, "a string")),
        }
    }

    fn require_text(&self, names: &[&str]) -> Result<String, MemoryCallError> {
        self.text(names)?.map(str::to_owned).ok_or_else(|| self.missing(names))
    }

    /// The value to write: a string as it is, anything else as JSON.
    fn value(&self) -> Result<String, MemoryCallError> {
        match self.first(VALUES) {
            Some((_, Value::String(text))) => Ok(text.clone()),
            Some((_, other)) => Ok(other.to_string()),
            None => Err(self.missing(VALUES)),
        }
    }

    /// One substitution, or the list of them in `edits`.
    fn substitutions(&self) -> Result<Edit, MemoryCallError> {
        const EDITS: &str = "a list of edits";
        match self.first(&["edits"]) {
            None => self.substitution(),
            Some((_, Value::Array(edits))) => {
                let edits = edits.iter().map(|edit| {
                    let fields = edit.as_object().ok_or_else(|| self.wrong("edits", EDITS))?;
                    Arguments { tool: self.tool, fields }.substitution()
                });
                edits.collect::<Result<_, _>>().map(Edit::Sequence)
            }
            Some((name, _)) => Err(self.wrong(name, EDITS)),
        }
    }

    fn substitution(&self) -> Result<Edit, MemoryCallError> {
        let all = match self.first(&["replace_all"]) {
            None => false,
            Some((_, Value::Bool(all))) => *all,
            Some((name, _)) => return Err(self.wrong(name, "true or false")),
        };
        let old = self.require_text(OLD_TEXTS)?;
        // Editors take an absent replacement as a deletion.
        let new = self.text(NEW_TEXTS)?.unwrap_or_default().to_owned();
        Ok(Edit::Substitute { old, new, all })
    }

    fn insertion(&self) -> Result<Edit, MemoryCallError> {
        let names = &["insert_line"];
        let (name, line) = self.first(names).ok_or_else(|| self.missing(names))?;
        let line = line.as_u64().ok_or_else(|| self.wrong(name, "a line number"))?;
        Ok(Edit::Insert { line, text: self.require_text(INSERTED_TEXTS)? })
    }

    /// `key`, or the error that none of `names` is there.
    fn required(&self, key: Option<String>, names: &[&str]) -> Result<String, MemoryCallError> {
        key.ok_or_else(|| self.missing(names))
    }

    fn missing(&self, names: &[&str]) -> MemoryCallError {
        let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        MemoryCallError::MissingArgument { tool: excerpt(self.tool), wanted: names.join(" or ") }
    }

    fn wrong(&self, argument: &str, wanted: &'static str) -> MemoryCallError {
        let argument = argument.to_owned();
        MemoryCallError::WrongArgument { tool: excerpt(self.tool), argument, wanted }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What the call means, in short; a `!` marks a watched file.
    fn meaning(name: &str, arguments: &Value) -> String {
        let call = ToolCall {
            id: None,
            name: name.to_owned(),
            arguments: arguments.as_object().unwrap().clone(),
            arguments_raw: arguments.to_string(),
        };
        let mark = |watched: bool| if watched { "!" } else { "" };
        match MemoryTools::default().recognise(&call) {
            None => "none".to_owned(),
            Some(Err(error)) => error.to_string(),
            Some(Ok(MemoryCall::Read { key })) => format!("read {key:?}"),
            Some(Ok(MemoryCall::Write { key, value, watched })) => {
                format!("write{} {key}: {value:?}", mark(watched))
            }
            Some(Ok(MemoryCall::Delete { key, watched })) => {
                format!("delete{} {key}", mark(watched))
            }
            Some(Ok(MemoryCall::Rename { from, to, watched })) => {
                format!("rename{} {from} -> {to}", mark(watched))
            }
        }
    }

    fn assert_meanings(cases: &[(&str, Value, &str)]) {
        for (name, arguments, expected) in cases {
            assert_eq!(&meaning(name, arguments), expected, "{name} {arguments}");
        }
    }

    #[test]
    fn a_plain_memory_tool_writes_its_value_at_its_key() {
        assert_meanings(&[
            ("remember", json!({"key": "tea", "value": "green"}), r#"write tea: Replace("green")"#),
            ("remember", json!({"fact": "tea"}), r#"write notes: Append("tea")"#),
            ("memory_add", json!({"memory": "x", "topic": "t"}), r#"write t: Replace("x")"#),
            (
                "memory_write",
                json!({"name": "a", "key": "b", "content": "", "text": "x"}),
                r#"write b: Replace("")"#,
            ),
            (
                "memory_write",
                json!({"key": null, "title": "t", "data": {"a": 1}}),
                r#"write t: Replace("{\"a\":1}")"#,
            ),
            ("memory_append", json!({"key": "log", "text": "x"}), r#"write log: Append("x")"#),
            (
                "memory_save",
                json!({"path": "/memories/a/SOUL.md", "value": "x"}),
                r#"write! a/SOUL.md: Replace("x")"#,
            ),
            (
                "mcp__memory__create_entities",
                json!({"entities": [{"name": "Ada"}]}),
                r#"write notes: Append("[{\"name\":\"Ada\"}]")"#,
            ),
        ]);
    }

    #[test]
    fn a_plain_memory_tool_reads_and_deletes() {
        assert_meanings(&[
            ("memory_get", json!({"key": "tea"}), r#"read Some("tea")"#),
            ("memory_search", json!({"query": "tea"}), "read None"),
            ("memory_list", json!({}), "read None"),
            ("memory_forget", json!({"key": "./tea"}), "delete tea"),
            ("memory_delete", json!({"path": "soul.MD"}), "delete! soul.MD"),
        ]);
    }

    #[test]
    fn the_memory_tool_with_commands_does_what_its_command_says() {
        let path = "/memories/a/b.txt";
        assert_meanings(&[
            ("memory", json!({"command": "view", "path": "/memories"}), "read None"),
            ("memory", json!({"command": "view", "path": "/memories/"}), "read None"),
            ("memory", json!({"command": "view", "path": path}), r#"read Some("a/b.txt")"#),
            (
                "memory",
                json!({"command": "create", "path": path, "file_text": "x"}),
                r#"write a/b.txt: Replace("x")"#,
            ),
            (
                "memory",
                json!({"command": "str_replace", "path": path, "old_str": "x", "new_str": "y"}),
                r#"write a/b.txt: Substitute { old: "x", new: "y", all: false }"#,
            ),
            (
                "memory",
                json!({"command": "str_replace", "path": path, "old_str": "x"}),
                r#"write a/b.txt: Substitute { old: "x", new: "", all: false }"#,
            ),
            (
                "memory",
                json!({"command": "insert", "path": path, "insert_line": 0, "insert_text": "x"}),
                r#"write a/b.txt: Insert { line: 0, text: "x" }"#,
            ),
            ("memory", json!({"command": "delete", "path": path}), "delete a/b.txt"),
            (
                "memory",
                json!({"command": "rename", "old_path": path, "new_path": "/memories/AGENTS.md"}),
                "rename! a/b.txt -> AGENTS.md",
            ),
        ]);
    }

    #[test]
    fn a_file_tool_counts_for_a_watched_file_only() {
        let edit = json!({"file_path": "/p/CLAUDE.md", "old_string": "x", "new_string": "y", "replace_all": true});
        let edits = json!({"path": "AGENTS.md", "edits": [{"oldText": "x", "newText": "y"}, {"old_string": "z"}]});
        assert_meanings(&[
            ("Write", json!({"file_path": "/p/notes.txt", "content": "x"}), "none"),
            ("Write", json!({"content": "x"}), "none"),
            (
                "Write",
                json!({"file_path": "/p/SOUL.md", "content": "x"}),
                r#"write! SOUL.md: Replace("x")"#,
            ),
            (
                "write_file",
                json!({"path": "a.txt", "filename": "soul.MD", "content": "x"}),
                r#"write! soul.MD: Replace("x")"#,
            ),
            (
                "create_file",
                json!({"target_file": r"C:\.cursorrules", "contents": "x"}),
                r#"write! .cursorrules: Replace("x")"#,
            ),
            (
                "append_file",
                json!({"path": "MEMORY.md", "text": "x"}),
                r#"write! MEMORY.md: Append("x")"#,
            ),
            (
                "Edit",
                edit.clone(),
                r#"write! CLAUDE.md: Substitute { old: "x", new: "y", all: true }"#,
            ),
            (
                "MultiEdit",
                edits,
                r#"write! AGENTS.md: Sequence([Substitute { old: "x", new: "y", all: false }, Substitute { old: "z", new: "", all: false }])"#,
            ),
            ("Read", json!({"file_path": "/p/GEMINI.md"}), r#"read Some("GEMINI.md")"#),
            ("Read", json!({"file_path": "/p/main.rs"}), "none"),
            (
                "delete_file",
                json!({"path": ".github/copilot-instructions.md"}),
                "delete! copilot-instructions.md",
            ),
            (
                "move_file",
                json!({"source": "/tmp/x", "destination": "/p/SOUL.md"}),
                "rename! tmp/x -> SOUL.md",
            ),
            ("move_file", json!({"source": "a", "destination": "b"}), "none"),
            (
                "str_replace_editor",
                json!({"command": "create", "path": "a.txt", "file_text": "x"}),
                "none",
            ),
            ("str_replace_editor", json!({"path": "a.txt"}), "none"),
            (
                "str_replace_based_edit_tool",
                json!({"command": "insert", "path": "/p/SOUL.md", "insert_line": 2, "new_str": "x"}),
                r#"write! SOUL.md: Insert { line: 2, text: "x" }"#,
            ),
            ("send_mail", json!({"path": "SOUL.md", "content": "x"}), "none"),
        ]);
    }

    #[test]
    fn a_memory_call_that_cannot_be_understood_is_an_error() {
        let cases = [
            ("memory_write", json!({"key": "a"})),
            ("memory_write", json!({"key": 7, "value": "x"})),
            ("memory_delete", json!({})),
            ("memory", json!({"path": "/memories/a"})),
            ("memory", json!({"command": "undo\nedit", "path": "/memories/a"})),
            ("memory", json!({"command": "delete"})),
            ("memory", json!({"command": "rename", "old_path": "/memories/a"})),
            ("memory", json!({"command": "insert", "path": "a", "insert_line": -1})),
            ("Write", json!({"path": ["SOUL.md"], "content": "x"})),
            ("Write", json!({"path": "SOUL.md"})),
            ("edit_file", json!({"target_file": "SOUL.md", "code_edit": "…"})),
            ("MultiEdit", json!({"path": "SOUL.md", "edits": ["x"]})),
            ("Edit", json!({"path": "SOUL.md", "old_string": "x", "replace_all": "yes"})),
        ];
        let messages: Vec<_> =
            cases.iter().map(|(name, arguments)| meaning(name, arguments)).collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        `memory_write` has no argument `value` or `content` or `text` or `memory` or `fact` or `data` or `file_text` or `contents` or `entities` or `relations` or `observations`; call it with one
        `memory_write` has an argument `key` that is not a string; call it with one
        `memory_delete` has no argument `key` or `name` or `title` or `path` or `file` or `topic`; call it with one
        `memory` has no argument `command`; call it with one
        `memory` knows no command `undo\nedit`; use `view`, `create`, `str_replace`, `insert`, `delete` or `rename`
        `memory` has no argument `path` or `file_path` or `filename` or `target_file`; call it with one
        `memory` has no argument `new_path` or `destination`; call it with one
        `memory` has an argument `insert_line` that is not a line number; call it with one
        `Write` has an argument `path` that is not a string; call it with one
        `Write` has no argument `value` or `content` or `text` or `memory` or `fact` or `data` or `file_text` or `contents` or `entities` or `relations` or `observations`; call it with one
        `edit_file` has no argument `old_str` or `old_string` or `oldText`; call it with one
        `MultiEdit` has an argument `edits` that is not a list of edits; call it with one
        `Edit` has an argument `replace_all` that is not true or false; call it with one
        "#);
    }

    #[test]
    fn a_key_loses_only_what_says_that_it_is_a_path() {
        let cases = [
            ("/memories/a/b.txt", "a/b.txt"),
            ("//memories/./a", "a"),
            ("/memories", ""),
            ("/memories-old/a", "memories-old/a"),
            ("memories/a", "memories/a"),
            ("./a", "a"),
            ("/a", "a"),
            ("../a", "../a"),
            ("/memories/../a", "../a"),
            (".cursorrules", ".cursorrules"),
        ];
        for (path, expected) in cases {
            assert_eq!(item_key(path), expected, "{path}");
        }
    }
}
