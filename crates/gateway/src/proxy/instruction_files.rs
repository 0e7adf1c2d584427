//! Which calls write the files that tell an agent what to do: instructions, memory and settings.
//!
//! Such a call is judged under a name of its own, [`INSTRUCTIONS`] before the tool's, whose manifest holds each text
//! for a sink. So what untrusted text says does not get into such a file because the user named the file. What a
//! shell would do to one cannot be read with certainty, so every command that mentions one and does not plainly only
//! read is such a call, and no manifest describes it: a human is asked.

use serde_json::Value;

/// What stands before the name of a tool whose call writes an instruction file.
pub const INSTRUCTIONS: &str = "instructions";

/// The tools that write a file, by the last part of their names in small letters.
const WRITERS: [&str; 14] = [
    "write",
    "edit",
    "multiedit",
    "notebookedit",
    "strreplace",
    "str_replace",
    "delete",
    "write_file",
    "replace",
    "create",
    "create_file",
    "edit_file",
    "apply_patch",
    "move_file",
];
/// The arguments of these that name the file.
const PATHS: [&str; 8] = [
    "path",
    "file_path",
    "filepath",
    "notebook_path",
    "target_file",
    "filename",
    "destination",
    "file",
];
/// The tools that run a command.
const SHELLS: [&str; 6] =
    ["bash", "shell", "run_shell_command", "exec_command", "shell_command", "local_shell"];

/// The names of instruction files, in small letters.
const NAMES: [&str; 9] = [
    "claude.md",
    "claude.local.md",
    "agents.md",
    "agents.override.md",
    "gemini.md",
    "copilot-instructions.md",
    ".cursorrules",
    ".mcp.json",
    "soul.md",
];
/// The folders in which everything is an instruction, memory or a setting.
const FOLDERS: [&str; 6] = [".claude", ".codex", ".gemini", ".copilot", ".cursor", ".custody"];

/// The programs that only read, whatever their arguments.
const READERS: [&str; 17] = [
    "cat", "head", "tail", "less", "more", "grep", "egrep", "fgrep", "rg", "ls", "wc", "diff",
    "cmp", "stat", "file", "cd", "pwd",
];

/// The name under which a call is judged. `is_watched` says of a path whether the owner adopted the file there.
pub(super) fn judged_name(
    tool: String,
    arguments: &str,
    is_watched: impl Fn(&str) -> bool,
) -> String {
    let last = tool.rsplit('/').next().unwrap_or_default().to_lowercase();
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let writes = if WRITERS.contains(&last.as_str()) {
        let named = arguments.as_object().into_iter().flatten();
        let named = named.filter(|(name, _)| PATHS.contains(&name.to_lowercase().as_str()));
        let named = named.filter_map(|(_, path)| path.as_str()).map(str::to_owned);
        let mut paths = named.chain(patched(&arguments));
        paths.any(|path| is_instruction_file(&path) || is_watched(&path))
    } else if SHELLS.contains(&last.as_str()) {
        commands(&arguments)
            .iter()
            .any(|command| may_write(command, |path| is_instruction_file(path) || is_watched(path)))
    } else {
        false
    };
    if writes { format!("{INSTRUCTIONS}/{}", tool.replace('/', ".")) } else { tool }
}

/// Whether a file at `path` tells some agent what to do, going by its name and folders.
pub fn is_instruction_file(path: &str) -> bool {
    let path = path.to_lowercase().replace('\\', "/");
    let mut parts = path.split('/').rev().filter(|part| !part.is_empty() && *part != ".");
    let name = parts.next().unwrap_or_default();
    let folders: Vec<&str> = parts.collect();
    NAMES.contains(&name)
        || FOLDERS.contains(&name)
        || FOLDERS.iter().any(|folder| folders.contains(folder))
        || (name.ends_with(".md") && folders.contains(&"memory"))
        || (folders.contains(&".github")
            && (name.ends_with(".instructions.md") || folders.contains(&"hooks")))
}

/// The files that a patch in any of the arguments changes.
fn patched(arguments: &Value) -> Vec<String> {
    const HEADS: [&str; 4] =
        ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];
    let mut found = Vec::new();
    for text in texts(arguments) {
        let paths = text
            .lines()
            .filter_map(|line| HEADS.iter().find_map(|head| line.trim_start().strip_prefix(head)));
        found.extend(paths.map(|path| path.trim().to_owned()));
    }
    found
}

/// The commands in the arguments of a shell.
fn commands(arguments: &Value) -> Vec<String> {
    let named = ["command", "cmd", "script"].iter().filter_map(|name| arguments.get(name));
    let texts = named.map(|value| texts(value).join(" "));
    texts.filter(|text| !text.is_empty()).collect()
}

/// All texts in a value.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(fields) => fields.values().flat_map(texts).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

/// Whether a command may write an instruction file: it mentions one, and is not made of programs that only read.
fn may_write(command: &str, is_instruction: impl Fn(&str) -> bool) -> bool {
    // Quotes and escapes within a name do not hide it.
    let plain: String = command.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
    let mut words = plain.split(|c: char| c.is_whitespace() || "<>|&;()`=,:{}$".contains(c));
    let is_mentioned = words.any(|word| !word.is_empty() && is_instruction(word));
    is_mentioned && !only_reads(&plain)
}

/// Whether a command without quotes consists of programs that only read, and puts nothing into a file.
fn only_reads(command: &str) -> bool {
    let quiet = ["2>&1", "2>/dev/null", ">/dev/null", "> /dev/null"]
        .iter()
        .fold(command.to_owned(), |command, quiet| command.replace(quiet, " "));
    if quiet.contains(['>', '`', '$', '(']) {
        return false;
    }
    let mut parts =
        quiet.split(['|', ';', '&', '\n']).map(str::trim).filter(|part| !part.is_empty());
    parts.all(|part| {
        let program = part.split_whitespace().next().unwrap_or_default();
        READERS.contains(&program.rsplit('/').next().unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn instruction_files_are_known_by_their_names_and_folders() {
        let instructions = [
            "CLAUDE.md",
            "/w/CLAUDE.md",
            "./sub/claude.MD",
            "CLAUDE.local.md",
            "AGENTS.md",
            "GEMINI.md",
            ".github/copilot-instructions.md",
            ".github/instructions/a.instructions.md",
            ".github/hooks/x.json",
            ".cursorrules",
            ".cursor/rules/a.mdc",
            ".claude/settings.json",
            "/w/a/.codex/config.toml",
            ".gemini/settings.json",
            "~/.copilot/hooks/x.json",
            "/w/a/.claude/projects/x/memory/MEMORY.md",
            "notes/memory/day.md",
            ".mcp.json",
            ".claude",
            "w\\CLAUDE.md",
        ];
        let others = [
            "README.md",
            "src/claude.rs",
            "docs/agents.html",
            "claude.md.txt",
            "memory.md",
            "memory/data.json",
            "",
            ".github/workflows/ci.yml",
        ];
        for path in instructions {
            assert!(is_instruction_file(path), "{path}");
        }
        for path in others {
            assert!(!is_instruction_file(path), "{path}");
        }
    }

    #[test]
    fn a_call_that_writes_one_is_judged_under_a_name_of_its_own() {
        let patch = "*** Begin Patch\n*** Update File: AGENTS.md\n@@\n+x\n*** End Patch";
        let cases = [
            ("Write", json!({"file_path": "/w/CLAUDE.md", "content": "x"}), true),
            ("Write", json!({"file_path": "/w/notes.md", "content": "see CLAUDE.md"}), false),
            ("Edit", json!({"file_path": ".claude/settings.json"}), true),
            ("NotebookEdit", json!({"notebook_path": ".codex/a.ipynb"}), true),
            ("Read", json!({"file_path": "CLAUDE.md"}), false),
            ("apply_patch", json!({"command": patch}), true),
            ("apply_patch", json!({"command": "*** Add File: a.rs"}), false),
            ("write_file", json!({"file_path": "GEMINI.md"}), true),
            ("create", json!({"path": ".github/copilot-instructions.md"}), true),
            ("files/write_file", json!({"path": "AGENTS.md"}), true),
            ("Write", json!({"file_path": "/srv/policy.txt"}), true),
            ("Bash", json!({"command": "echo x >> CLAUDE.md"}), true),
            ("Bash", json!({"command": "printf x > /srv/policy.txt"}), true),
            ("Bash", json!({"command": "cat page.html | tee -a ./CLAUDE.md"}), true),
            ("Bash", json!({"command": "sed -i s/a/b/ AGENTS.md"}), true),
            ("Bash", json!({"command": "cp page.html CLA\"UDE\".md"}), true),
            ("Bash", json!({"command": "mv x .claude/settings.json && ls"}), true),
            ("Bash", json!({"command": "python3 -c \"open('GEMINI.md','w')\""}), true),
            ("Bash", json!({"command": "rm -rf .codex"}), true),
            ("Bash", json!({"command": "cat CLAUDE.md > out.txt"}), true),
            ("Bash", json!({"command": "cat $(echo x > AGENTS.md)"}), true),
            ("Bash", json!({"command": "cat CLAUDE.md"}), false),
            (
                "Bash",
                json!({"command": "grep -n x CLAUDE.md AGENTS.md 2>/dev/null | head -5"}),
                false,
            ),
            ("Bash", json!({"command": "cd sub && cat AGENTS.md; wc -l GEMINI.md"}), false),
            ("Bash", json!({"command": "cargo test > out.txt"}), false),
            ("bash", json!({"command": "ls .claude"}), false),
            ("run_shell_command", json!({"command": "echo x>GEMINI.md"}), true),
            ("exec_command", json!({"cmd": "echo x > AGENTS.md"}), true),
            ("shell", json!({"command": ["bash", "-lc", "echo x > AGENTS.md"]}), true),
        ];
        for (tool, arguments, writes) in cases {
            let name = judged_name(tool.to_owned(), &arguments.to_string(), |path| {
                path == "/srv/policy.txt"
            });
            let expected = format!("instructions/{}", tool.replace('/', "."));
            let expected = if writes { expected.as_str() } else { tool };
            assert_eq!(name, expected, "{arguments}");
        }
    }
}
