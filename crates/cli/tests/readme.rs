//! The README, step by step: every fenced block of it is run, in order and in one folder, or is compiled.
//!
//! - `sh` and `console` blocks run in a shell on a terminal, where every question is answered with one passphrase.
//!   After a `$` command of a `console` block stands what it prints: `…` in a line is any text, a line `…` any lines.
//! - A `toml` or `python` block is the file that its first line names.
//! - A `rust` block is part of `examples/embed`, which is compiled and run by a test of its own.
//!
//! `cargo` is replaced by a script, for the program under test is built already. The other pages show commands with
//! names that stand for something; of these the program has to know the command.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use tempfile::TempDir;

const README: &str = include_str!("../../../README.md");
const EXAMPLE: &str = include_str!("../../../examples/embed/src/main.rs");
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// What the README asks of cargo; anything else fails.
const CARGO: &str = r#"#!/bin/sh
case "$*" in
    "run --release -- demo") exec custody demo ;;
    "xtask test") printf 'running\n1 passed, 0 failed, 0 skipped\n' ;;
    "install --path crates/cli") exec test -f "$REPOSITORY/crates/cli/Cargo.toml" ;;
    *) echo "the README asks cargo for \`$*\`, which this test does not know" >&2; exit 1 ;;
esac
"#;

#[test]
fn every_block_of_the_readme_runs_or_is_compiled() {
    if Command::new("python3").arg("--version").output().is_err() {
        return common::skipped("the README has a host in Python, and python3 is not here");
    }
    let reader = Reader::new();
    for (language, text) in blocks(README) {
        match language.as_str() {
            "sh" => drop(reader.runs(&text)),
            "console" => reader.runs_as_printed(&text),
            "toml" | "python" => reader.writes(&text),
            "rust" => assert!(flat(EXAMPLE).contains(&flat(&text)), "not in the example:\n{text}"),
            "text" => {}
            other => panic!("no way to test a block of `{other}`:\n{text}"),
        }
    }
}

#[test]
fn every_command_that_the_documentation_shows_exists() {
    let pages =
        ["docs", "docs/guides", "docs/reference"].map(|folder| Path::new(REPOSITORY).join(folder));
    let files = pages.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let pages = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "md"));
    let texts = pages.map(|path| std::fs::read_to_string(path).unwrap());
    let commands: BTreeSet<Vec<String>> = texts.flat_map(|text| commands(&text)).collect();
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        let output = Command::new(env!("CARGO_BIN_EXE_custody"))
            .args(&command)
            .arg("--help")
            .output()
            .unwrap();
        assert!(output.status.success(), "`custody {}`", command.join(" "));
    }
}

/// The commands of `custody` in the blocks for a shell: up to two words that can be names of commands. What the
/// laboratory runs is not asked: it is another program.
fn commands(text: &str) -> Vec<Vec<String>> {
    let blocks = blocks(text)
        .into_iter()
        .filter(|(language, _)| matches!(language.as_str(), "sh" | "console"));
    let lines: Vec<String> = blocks
        .flat_map(|(_, block)| block.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let commands =
        lines.iter().filter_map(|line| line.trim_start_matches("$ ").strip_prefix("custody "));
    let words = commands.map(|line| {
        let is_name = |word: &&str| {
            word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-')
        };
        line.split(' ').take_while(is_name).take(2).map(str::to_owned).collect::<Vec<String>>()
    });
    words
        .filter(|words| {
            !words.first().is_none_or(|word| matches!(word.as_str(), "eval" | "train" | "data"))
        })
        .collect()
}

#[test]
fn output_is_compared_line_by_line_with_gaps() {
    let cases = [
        ("a\nb\n", "a\nb\n", true),
        ("a\n…\nd\n", "a\nb\nc\nd\n", true),
        ("a … c\n", "a b c\n", true),
        ("…\n", "", true),
        ("a\n", "a\nb\n", false),
        ("b\n", "a\nb\n", false),
        ("a\n…\nd\n", "a\nb\n", false),
        ("a … c\n", "a c\n", false),
    ];
    for (expected, printed, same) in cases {
        assert_eq!(first_missing(expected, printed).is_none(), same, "{expected} and {printed}");
    }
}

/// The fenced blocks of a document: language and text.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut blocks: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for event in Parser::new(text) {
        if let Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) = event {
            blocks.push((language.to_string(), String::new()));
            inside = true;
        } else if let Event::End(TagEnd::CodeBlock) = event {
            inside = false;
        } else if let Event::Text(part) = event
            && inside
        {
            blocks.last_mut().unwrap().1.push_str(&part);
        }
    }
    blocks
}

/// Code without its indentation.
fn flat(code: &str) -> String {
    code.lines().map(|line| format!("{}\n", line.trim_start())).collect()
}

/// Somebody who follows the README, in a home of their own.
struct Reader {
    home: TempDir,
    programs: PathBuf,
}

impl Reader {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let programs = home.path().join("bin");
        std::fs::create_dir(&programs).unwrap();
        symlink(env!("CARGO_BIN_EXE_custody"), programs.join("custody")).unwrap();
        let cargo = programs.join("cargo");
        std::fs::write(&cargo, CARGO).unwrap();
        std::fs::set_permissions(&cargo, PermissionsExt::from_mode(0o755)).unwrap();
        Self { home, programs }
    }

    fn writes(&self, text: &str) {
        let name = text.lines().next().and_then(|line| line.strip_prefix("# "));
        std::fs::write(self.home.path().join(name.expect("a file's name")), text).unwrap();
    }

    /// Runs each `$` command of a block and compares what it prints with what follows it.
    fn runs_as_printed(&self, block: &str) {
        for step in block.split("$ ").skip(1) {
            let (command, expected) = step.split_once('\n').unwrap();
            let printed = self.runs_with_any_end(command);
            if let Some(line) = first_missing(expected, &printed) {
                panic!("`{command}` does not print `{line}`, but:\n{printed}");
            }
        }
    }

    /// What a script prints, which must succeed.
    fn runs(&self, script: &str) -> String {
        let (succeeded, printed) = self.shell(script);
        assert!(succeeded, "{script}\n{printed}");
        printed
    }

    /// What a command prints; one that finds something wrong, as it should, ends with a code of its own.
    fn runs_with_any_end(&self, command: &str) -> String {
        self.shell(command).1
    }

    fn shell(&self, script: &str) -> (bool, String) {
        let (terminal, end_of_child) = pty_process::blocking::open().unwrap();
        let mut command = Command::new("bash");
        command.args(["-e", "-c", script]).current_dir(self.home.path());
        self.prepare(&mut command);
        let mut command = pty_process::blocking::Command::from(command)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn_borrowed(&end_of_child).unwrap();
        let typist = std::thread::spawn(move || answer(terminal));
        let mut errors = child.stderr.take().unwrap();
        let errors = std::thread::spawn(move || text_of(&mut errors));
        let printed = text_of(child.stdout.as_mut().unwrap());
        let succeeded = child.wait().unwrap().success();
        drop(end_of_child);
        typist.join().unwrap();
        (succeeded, printed + &errors.join().unwrap())
    }

    fn prepare(&self, command: &mut Command) {
        let home = self.home.path();
        let path = std::env::var("PATH").unwrap_or_default();
        command.env_clear().env("PATH", format!("{}:{path}", self.programs.display()));
        command.env("HOME", home).env("REPOSITORY", Path::new(REPOSITORY));
        for variable in ["DATA", "STATE", "CONFIG", "CACHE"] {
            command.env(format!("XDG_{variable}_HOME"), home.join(variable.to_lowercase()));
        }
    }
}

fn text_of(output: &mut impl Read) -> String {
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    text
}

/// Types the passphrase at every prompt, until the terminal is closed.
fn answer(mut terminal: pty_process::blocking::Pty) {
    let mut chunk = [0; 1024];
    let mut shown = Vec::new();
    while let Ok(count @ 1..) = terminal.read(&mut chunk) {
        shown.extend_from_slice(&chunk[..count]);
        if shown.ends_with(b": ") {
            shown.clear();
            terminal.write_all(b"correct horse battery\n").unwrap();
        }
    }
}

/// The first line of `expected` that `printed` does not have in its place.
fn first_missing<'a>(expected: &'a str, printed: &str) -> Option<&'a str> {
    let mut printed = printed.lines();
    let mut anywhere = false;
    for line in expected.lines() {
        if line == "…" {
            anywhere = true;
            continue;
        }
        let found = match anywhere {
            true => printed.any(|printed| is_like(line, printed)),
            false => printed.next().is_some_and(|printed| is_like(line, printed)),
        };
        anywhere = false;
        if !found {
            return Some(line);
        }
    }
    (!anywhere && printed.next().is_some()).then_some("(nothing more)")
}

/// Whether a line is what `pattern` says, in which `…` stands for any text.
fn is_like(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.trim_end().split('…');
    let Some(mut rest) = line.trim_end().strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let mut parts = parts.peekable();
    let has_gap = parts.peek().is_some();
    while let Some(part) = parts.next() {
        let at = if parts.peek().is_none() { rest.rfind(part) } else { rest.find(part) };
        let Some(at) = at else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty() || (has_gap && pattern.ends_with('…'))
}
