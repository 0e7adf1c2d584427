//! Which tools count, by name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization;

/// The tools that touch memory: built-in ones, and those an operator adds.
///
/// A name is compared without letter case, with `-` as `_`, and by its last segment
/// after `__`, `.`, `/` or `:`, so that `mcp__notes__memory_write` is `memory_write`.
/// Beyond the table, every tool named `memory_…` counts: it deletes or reads when a
/// word of its name says so, and else writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryTools {
    /// More tools, by last segment or whole name. They go before the built-in ones.
    pub tools: BTreeMap<String, Operation>,
    /// Names of files that are memory, in whatever folder. Replaces the default list.
    pub watched: Vec<String>,
}

/// What a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Reads an item or searches all.
    Read,
    /// Sets an item. Without a key, appends to the item `notes`.
    Write,
    /// Appends to an item, `notes` without a key.
    Append,
    /// Deletes an item.
    Delete,
    /// Does what its `command` says to the item at `path`.
    Commands,
    /// Reads a file; counts for a watched one only, as all that follow.
    ReadFile,
    /// Sets a file.
    WriteFile,
    /// Substitutes text in a file, at one place or several.
    EditFile,
    /// Appends to a file.
    AppendFile,
    /// Deletes a file.
    DeleteFile,
    /// Gives a file another path.
    MoveFile,
    /// Does what its `command` says to the file at `path`.
    FileCommands,
}

/// Names in folded form.
const BUILT_IN: &[(&str, Operation)] = &[
    // Anthropic's memory tool.
    ("memory", Operation::Commands),
    // Plain memory tools, as agents and MCP servers commonly name them.
    ("remember", Operation::Write),
    ("save_memory", Operation::Write),
    ("add_memory", Operation::Write),
    ("store_memory", Operation::Write),
    ("update_memory", Operation::Write),
    ("memory_write", Operation::Write),
    ("memory_save", Operation::Write),
    ("memory_store", Operation::Write),
    ("memory_add", Operation::Write),
    ("memory_append", Operation::Append),
    ("recall", Operation::Read),
    ("read_memory", Operation::Read),
    ("get_memory", Operation::Read),
    ("search_memory", Operation::Read),
    ("forget", Operation::Delete),
    ("delete_memory", Operation::Delete),
    ("remove_memory", Operation::Delete),
    // The knowledge graph of the reference MCP memory server.
    ("create_entities", Operation::Write),
    ("create_relations", Operation::Write),
    ("add_observations", Operation::Write),
    ("delete_entities", Operation::Delete),
    ("delete_relations", Operation::Delete),
    ("delete_observations", Operation::Delete),
    ("read_graph", Operation::Read),
    ("search_nodes", Operation::Read),
    ("open_nodes", Operation::Read),
    // File tools of coding agents and MCP servers.
    ("read", Operation::ReadFile),
    ("read_file", Operation::ReadFile),
    ("write", Operation::WriteFile),
    ("write_file", Operation::WriteFile),
    ("create_file", Operation::WriteFile),
    ("edit", Operation::EditFile),
    ("multiedit", Operation::EditFile),
    ("edit_file", Operation::EditFile),
    ("append_file", Operation::AppendFile),
    ("delete_file", Operation::DeleteFile),
    ("move_file", Operation::MoveFile),
    ("rename_file", Operation::MoveFile),
    ("str_replace_editor", Operation::FileCommands),
    ("str_replace_based_edit_tool", Operation::FileCommands),
];

const WATCHED: [&str; 7] = [
    "SOUL.md",
    "CLAUDE.md",
    "AGENTS.md",
    "GEMINI.md",
    "MEMORY.md",
    ".cursorrules",
    "copilot-instructions.md",
];

/// Words of a `memory_…` tool. One that deletes goes before one that writes, and that
/// before one that reads: `memory_list_add` writes.
const DELETING: [&str; 4] = ["delete", "remove", "forget", "clear"];
const WRITING: [&str; 9] =
    ["write", "save", "add", "store", "set", "put", "update", "create", "append"];
const READING: [&str; 7] = ["get", "read", "search", "recall", "view", "list", "retrieve"];

impl Default for MemoryTools {
    /// No tools but the built-in ones; the instruction files of common coding agents.
    fn default() -> Self {
        Self { tools: BTreeMap::new(), watched: WATCHED.map(str::to_owned).to_vec() }
    }
}

impl MemoryTools {
    /// What the tool of this name does, if it is one that counts.
    pub fn operation(&self, tool: &str) -> Option<Operation> {
        let whole = folded(tool);
        let segments = whole.replace("__", "/");
        let name = segments.rsplit(['/', '.', ':']).find(|segment| !segment.is_empty())?;
        let added = self.tools.iter().find(|(added, _)| {
            let added = folded(added);
            added == whole || added == name
        });
        if let Some((_, &operation)) = added {
            return Some(operation);
        }
        if let Some(&(_, operation)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Some(operation);
        }
        let rest = name.strip_prefix("memory_")?;
        if has_one_of(rest, &DELETING) {
            Some(Operation::Delete)
        } else if has_one_of(rest, &READING) && !has_one_of(rest, &WRITING) {
            Some(Operation::Read)
        } else {
            Some(Operation::Write)
        }
    }
}

fn has_one_of(name: &str, words: &[&str]) -> bool {
    name.split('_').any(|word| words.contains(&word))
}

fn folded(name: &str) -> String {
    name.nfkc().collect::<String>().to_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_known_by_the_last_segment_of_its_name() {
        let cases = [
            ("remember", Some(Operation::Write)),
            ("Save-Memory", Some(Operation::Write)),
            ("memory", Some(Operation::Commands)),
            ("server.memory_write", Some(Operation::Write)),
            ("mcp__memory__create_entities", Some(Operation::Write)),
            ("a/b:memory_save", Some(Operation::Write)),
            ("mcp__fs__Read", Some(Operation::ReadFile)),
            ("memory_write__", Some(Operation::Write)),
            ("ｍemory_write", Some(Operation::Write)),
            ("memory_search", Some(Operation::Read)),
            ("memory_semantic_search", Some(Operation::Read)),
            ("memory_list_add", Some(Operation::Write)),
            ("memory_get_or_delete", Some(Operation::Delete)),
            ("memory_clear", Some(Operation::Delete)),
            ("memory_upsert", Some(Operation::Write)),
            ("memory_", Some(Operation::Write)),
            ("memoryless", None),
            ("in_memory_cache", None),
            ("memory_write.send_mail", None),
            ("send_mail", None),
            ("", None),
            ("__", None),
        ];
        let tools = MemoryTools::default();
        for (name, expected) in cases {
            assert_eq!(tools.operation(name), expected, "{name}");
        }
    }

    #[test]
    fn the_built_in_names_are_folded_and_stand_once() {
        for (index, (name, _)) in BUILT_IN.iter().enumerate() {
            assert_eq!(folded(name), *name);
            assert!(BUILT_IN[..index].iter().all(|(earlier, _)| earlier != name), "{name}");
        }
    }

    #[test]
    fn an_operator_adds_tools_and_chooses_the_watched_files() {
        let tools: MemoryTools = serde_json::from_str(
            r#"{"tools":{"mcp__notes__Save":"write","search_nodes":"delete"},"watched":["RULES.md"]}"#,
        )
        .unwrap();
        assert_eq!(tools.operation("mcp__notes__save"), Some(Operation::Write));
        assert_eq!(tools.operation("save"), None);
        assert_eq!(tools.operation("search_nodes"), Some(Operation::Delete));
        assert_eq!(tools.operation("remember"), Some(Operation::Write));
        assert_eq!(tools.watched, ["RULES.md"]);

        let defaults: MemoryTools = serde_json::from_str("{}").unwrap();
        assert_eq!(defaults, MemoryTools::default());
        assert!(serde_json::from_str::<MemoryTools>(r#"{"tool":{}}"#).is_err());
        assert!(serde_json::from_str::<MemoryTools>(r#"{"tools":{"a":"ignore"}}"#).is_err());
    }
}
