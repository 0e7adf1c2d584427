//! `custody data`, `train` and `eval`: passed on to the laboratory, and what is said without it.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Prints its arguments and its input, and ends with exit code 7.
const STAND_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/custody-lab");

/// `custody` in a folder of its own, without the laboratory that a build may have put beside it.
struct Installed {
    folder: TempDir,
}

/// Exit code, standard output, standard error.
type Ran = (Option<i32>, String, String);

impl Installed {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for name in ["bin", "other", "work"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let this = Self { folder };
        std::fs::hard_link(env!("CARGO_BIN_EXE_custody"), this.path("bin/custody")).unwrap();
        this
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn with_laboratory_in(self, folder: &str) -> Self {
        symlink(STAND_IN, self.path(folder).join("custody-lab")).unwrap();
        self
    }

    /// Runs `custody ARGS` in `work`, with these folders on `PATH`.
    fn run(&self, args: &str, path: &[&Path], input: &str) -> Ran {
        let system = [Path::new("/usr/bin"), Path::new("/bin")];
        let path = std::env::join_paths(path.iter().chain(&system)).unwrap();
        let mut command = Command::new(self.path("bin/custody"));
        command.args(args.split_whitespace()).current_dir(self.path("work"));
        command.env_clear().env("PATH", path).env("HOME", self.folder.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Who does not read its input may be gone before it is written.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let ran = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (ran.status.code(), text(ran.stdout), text(ran.stderr))
    }
}

#[test]
fn without_the_laboratory_one_line_says_how_to_build_it() {
    // One in the working folder does not count, whatever `PATH` says.
    let here = Installed::new().with_laboratory_in("work");
    for args in
        ["eval", "eval detection --json", "train ngram --check", "data list", "data --data x list"]
    {
        let (code, stdout, stderr) = here.run(args, &[Path::new(""), Path::new(".")], "");
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{args}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{args}: {stderr}");
        assert!(
            stderr.contains("is part of the laboratory, a separate program"),
            "{args}: {stderr}"
        );
        assert!(stderr.contains("`cargo build --release -p custody-lab`"), "{args}: {stderr}");
    }
    let (code, stdout, _) = here.run("--json eval", &[], "");
    assert!(code == Some(2) && stdout.starts_with(r#"{"error":"#), "{stdout}");
}

#[test]
fn without_the_laboratory_help_says_the_same() {
    let here = Installed::new();
    for args in [
        "eval --help",
        "eval detection -h",
        "train --help",
        "data --help",
        "help eval",
        "help train ngram",
    ] {
        let (code, stdout, stderr) = here.run(args, &[], "");
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{args}");
        assert!(stdout.contains("`cargo build --release -p custody-lab`"), "{args}: {stdout}");
        assert!(stdout.contains("Usage: custody "), "{args}: {stdout}");
    }
}

#[test]
fn the_laboratory_gets_the_arguments_and_the_input_and_its_output_and_exit_code_come_back() {
    let beside = Installed::new().with_laboratory_in("bin");
    let on_path = Installed::new().with_laboratory_in("other");
    for here in [beside, on_path] {
        let other = here.path("other");
        for (args, told) in [
            ("eval", "[eval]"),
            ("eval --help", "[eval][--help]"),
            ("help eval route", "[help][eval][route]"),
            (
                "--json --models m eval agent --seed 3",
                "[--json][--models][m][eval][agent][--seed][3]",
            ),
            ("eval --json agent -- --out", "[eval][--json][agent][--][--out]"),
            ("train ngram --unknown", "[train][ngram][--unknown]"),
            ("data --data x list", "[data][--data][x][list]"),
        ] {
            let ran = here.run(args, &[&other], "tokens\n");
            let expected = (Some(7), format!("{told}\ntokens\n"), "a note\n".to_owned());
            assert_eq!(ran, expected, "{args}");
        }
    }
}

#[test]
fn a_laboratory_that_does_not_start_is_said() {
    let here = Installed::new();
    let program = here.path("bin/custody-lab");
    std::fs::write(&program, "no program").unwrap();
    let (code, stdout, stderr) = here.run("eval", &[], "");
    assert_eq!((code, stdout.as_str(), stderr.lines().count()), (Some(2), "", 1), "{stderr}");
    assert!(stderr.contains(&format!("could not run `{}`", program.display())), "{stderr}");
}

#[test]
fn help_and_completions_offer_the_commands_of_the_laboratory() {
    let here = Installed::new();
    for args in ["--help", "completions bash"] {
        let (_, stdout, _) = here.run(args, &[], "");
        let words: Vec<&str> = stdout.split_whitespace().collect();
        for command in ["data", "train", "eval"] {
            assert!(words.contains(&command), "{command} in {args}: {stdout}");
        }
    }
}
