//! `cargo xtask test`: every test, and one closing line `N passed, N failed, N skipped`.
//!
//! Arguments go to `cargo test` as they are: `cargo xtask test -p custody-kernel closure`.
//!
//! A test that this machine cannot run (data that is not here, a program that is not installed)
//! must not count as passed. It appends one line to the file named by `CUSTODY_SKIPPED_TESTS`, says
//! so on standard error, and returns:
//!
//! ```
//! /// Records that the calling test could not run here, and why. The caller returns.
//! fn skipped(reason: &str) {
//!     let thread = std::thread::current();
//!     let line = format!("SKIPPED: {}: {reason}\n", thread.name().unwrap_or("a test"));
//!     eprint!("{line}");
//!     if let Some(list) = std::env::var_os("CUSTODY_SKIPPED_TESTS") {
//!         let mut list = std::fs::File::options().append(true).open(list).expect("the list is open");
//!         std::io::Write::write_all(&mut list, line.as_bytes()).expect("the list can be written");
//!     }
//! }
//! ```
//!
//! A file, because libtest hides what a passing test prints, and showing everything would drown it.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdout, ExitCode, Stdio};

use anyhow::{Context, Result};

use crate::workspace;

/// Names the file to which a skipped test appends its line.
const SKIPPED_TESTS: &str = "CUSTODY_SKIPPED_TESTS";

/// What became of the tests. Its `Display` is the closing line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Tally {
    /// Success only if nothing failed.
    pub(crate) fn exit_code(&self) -> ExitCode {
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Runs the tests and prints the closing line.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let tally = run_tests(arguments)?;
    println!("{tally}");
    Ok(tally.exit_code())
}

/// Runs the tests, passing their output through, and leaves the closing line to the caller.
///
/// # Errors
/// When `cargo test` cannot be started or read. A build that fails is a failed test, not an error.
pub(crate) fn run_tests(arguments: &[String]) -> Result<Tally> {
    let skipped = tempfile::NamedTempFile::new().context("could not create the list of skips")?;
    let mut child = workspace::cargo()
        .args(cargo_arguments(arguments))
        .env(SKIPPED_TESTS, skipped.path())
        .stdout(Stdio::piped())
        .spawn()
        .context("could not start `cargo test`")?;
    let output = child.stdout.take().context("`cargo test` has no standard output")?;
    let report = read_report(output)?;
    let succeeded = child.wait().context("could not wait for `cargo test`")?.success();
    let skipped = std::fs::read_to_string(skipped.path()).context("could not read the skips")?;
    print!("{skipped}");
    Ok(tally(report, succeeded, skipped.lines().count() as u64))
}

/// The whole workspace unless the caller chose packages. Plain `cargo test` is library, binary,
/// integration and documentation tests; benches stay out.
fn cargo_arguments(arguments: &[String]) -> Vec<String> {
    let chosen = arguments.iter().take_while(|argument| *argument != "--").any(|argument| {
        argument.starts_with("--package")
            || argument == "--workspace"
            || (argument.starts_with("-p") && !argument.starts_with("--"))
    });
    let mut all = vec!["test".to_owned(), "--no-fail-fast".to_owned()];
    if !chosen {
        all.push("--workspace".to_owned());
    }
    all.extend_from_slice(arguments);
    all
}

/// Copies the output through line by line, counting as it goes.
fn read_report(output: ChildStdout) -> Result<Report> {
    let mut output = BufReader::new(output);
    let mut report = Report::default();
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).context("could not read the test output")? > 0 {
        std::io::stdout().write_all(&line).context("could not print the test output")?;
        report.read_line(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(report)
}

/// What libtest's own lines say.
#[derive(Debug, Default)]
struct Report {
    tally: Tally,
    /// A test binary said `running N tests` and has not summed up yet.
    unfinished: bool,
}

impl Report {
    fn read_line(&mut self, line: &str) {
        if is_start(line) {
            self.end_binary();
            self.unfinished = true;
        } else if let Some(tally) = summary(line) {
            self.tally.passed += tally.passed;
            self.tally.failed += tally.failed;
            self.tally.skipped += tally.skipped;
            self.unfinished = false;
        }
    }

    /// A binary that started and never summed up was killed by one of its tests.
    fn end_binary(&mut self) {
        if self.unfinished {
            self.tally.failed += 1;
            self.unfinished = false;
        }
    }
}

/// `running 3 tests`, which opens a binary's report.
fn is_start(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    matches!(words[..], ["running", count, "test" | "tests"] if count.parse::<u64>().is_ok())
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; …`, which closes it. An ignored test is a
/// skipped one.
fn summary(line: &str) -> Option<Tally> {
    let counts = line.trim().strip_prefix("test result: ")?.split_once(". ")?.1;
    Some(Tally {
        passed: count(counts, "passed")?,
        failed: count(counts, "failed")?,
        skipped: count(counts, "ignored")?,
    })
}

/// The number before `label` in a list like `3 passed; 1 failed`.
fn count(counts: &str, label: &str) -> Option<u64> {
    counts.split(';').find_map(|part| part.trim().strip_suffix(label)?.trim().parse().ok())
}

/// Joins what libtest said with how `cargo test` ended and with the tests that skipped themselves,
/// which libtest took for passed.
fn tally(mut report: Report, succeeded: bool, skipped: u64) -> Tally {
    report.end_binary();
    let mut tally = report.tally;
    let moved = skipped.min(tally.passed);
    tally.passed -= moved;
    tally.skipped += moved;
    // Nothing failed, yet cargo did: something did not build.
    if !succeeded && tally.failed == 0 {
        tally.failed = 1;
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &str = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; \
                      finished in 0.01s";
    const BAD: &str = "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered \
                       out; finished in 0.01s";

    fn closing_line(lines: &[&str], succeeded: bool, skipped: u64) -> String {
        let mut report = Report::default();
        for line in lines {
            report.read_line(line);
        }
        tally(report, succeeded, skipped).to_string()
    }

    #[test]
    fn the_closing_line_counts_every_binary_and_every_way_to_fail_or_skip() {
        let start = "running 4 tests";
        let cases: &[(&str, &[&str], bool, u64, &str)] = &[
            ("two binaries", &[start, OK, start, BAD], false, 0, "4 passed, 2 failed, 1 skipped"),
            ("skips", &[start, OK], true, 2, "1 passed, 0 failed, 3 skipped"),
            ("no build", &[], false, 0, "0 passed, 1 failed, 0 skipped"),
            ("no tests", &[], true, 0, "0 passed, 0 failed, 0 skipped"),
            ("a crash", &[start, start, OK], false, 0, "3 passed, 1 failed, 1 skipped"),
            ("a last crash", &[start, OK, start], false, 0, "3 passed, 1 failed, 1 skipped"),
            ("doc build", &[start, OK], false, 0, "3 passed, 1 failed, 1 skipped"),
            ("prose", &["running out of tests", "test result: who knows"], true, 0, {
                "0 passed, 0 failed, 0 skipped"
            }),
        ];
        for (name, lines, succeeded, skipped, expected) in cases {
            assert_eq!(closing_line(lines, *succeeded, *skipped), *expected, "{name}");
        }
    }

    #[test]
    fn the_whole_workspace_is_tested_unless_packages_are_chosen() {
        let cases = [
            ("", true),
            ("-p custody-kernel", false),
            ("-pcustody-kernel", false),
            ("--package=custody-kernel", false),
            ("closure", true),
            ("-- -p", true),
        ];
        for (arguments, whole) in cases {
            let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
            let all = cargo_arguments(&arguments);
            assert_eq!(all.contains(&"--workspace".to_owned()), whole, "{arguments:?}");
        }
    }
}
