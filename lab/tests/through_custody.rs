//! The laboratory as people call it: through `custody`, which stands beside it.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../crates/cli/tests/common/mod.rs"]
mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const LABORATORY: &str = env!("CARGO_BIN_EXE_custody-lab");

/// `custody`, where the whole workspace was built; without it the calling test is skipped.
fn custody() -> Option<PathBuf> {
    let beside = Path::new(LABORATORY).with_file_name("custody");
    if beside.is_file() {
        return Some(beside);
    }
    common::skipped(
        "`custody` is not built; test the whole workspace, or `cargo build -p custody-cli`",
    );
    None
}

fn run(program: &Path, args: &str, home: &Path) -> Output {
    let mut command = Command::new(program);
    command.args(args.split_whitespace()).env_clear().env("HOME", home);
    command.current_dir(home).output().unwrap()
}

#[test]
fn custody_prints_what_the_laboratory_prints_and_ends_as_it_does() {
    let Some(custody) = custody() else { return };
    for (args, code) in [
        ("eval detection --json", 0),
        ("--json eval recovery", 0),
        ("eval detection --out here", 2),
        ("eval baseline --size smoke", 2),
        ("train behaviour --collect transcripts.jsonl", 2),
        ("data verify", 0),
        ("data fetch nothing.jsonl", 2),
    ] {
        let home = tempfile::tempdir().unwrap();
        let programs = [&custody, Path::new(LABORATORY)];
        let [through, alone] = programs.map(|program| run(program, args, home.path()));
        assert_eq!(through.status.code(), Some(code), "{args}: {through:?}");
        assert_eq!(through.status, alone.status, "{args}");
        assert_eq!(through.stdout, alone.stdout, "{args}");
        // Usage lines name the program.
        let alone = String::from_utf8_lossy(&alone.stderr).replace("custody-lab", "custody");
        assert_eq!(String::from_utf8_lossy(&through.stderr), alone, "{args}");
    }
}

#[test]
fn usage_names_the_command_that_was_typed() {
    let Some(custody) = custody() else { return };
    let home = tempfile::tempdir().unwrap();
    for args in ["eval --help", "help eval", "eval detection --help", "train --help", "data --help"]
    {
        let said = String::from_utf8(run(&custody, args, home.path()).stdout).unwrap();
        assert!(said.contains("Usage: custody "), "{args}: {said}");
        let said = String::from_utf8(run(Path::new(LABORATORY), args, home.path()).stdout).unwrap();
        assert!(said.contains("Usage: custody-lab "), "{args}: {said}");
    }
}
