//! Time is an argument: only the edge's clock asks the machine for it.

use super::exceptions::Exception;
use super::files::TrackedFiles;
use super::finding::Finding;
use super::tokens::{begins_with, tokens};

/// The types whose `now` reads the machine's clock.
const CLOCKS: &[&str] = &["SystemTime", "Instant", "Timestamp", "Zoned"];

/// Finds every reading of the clock, tests included: a test that reads it proves something else
/// tomorrow.
pub(crate) fn check(files: &TrackedFiles, exceptions: &[Exception]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in files.ending(".rs") {
        if exceptions.iter().any(|exception| exception.covers(path)) {
            continue;
        }
        match readings(text) {
            Ok(readings) => findings.extend(readings.into_iter().map(|(clock, line)| {
                Finding::on_line(
                    path,
                    line,
                    format!("`{clock}::now` reads the machine's clock"),
                    "take the time as an argument, or add the file to `xtask/tidy.toml`",
                )
            })),
            Err(error) => {
                findings.push(Finding::in_file(path, format!("{error:#}"), "make it parse"));
            }
        }
    }
    findings
}

/// The clocks read in a source file, each with its line.
fn readings(source: &str) -> anyhow::Result<Vec<(&'static str, usize)>> {
    let tokens = tokens(source)?;
    let readings = (0..tokens.len()).filter_map(|at| {
        let clock = CLOCKS.iter().find(|clock| tokens[at].text == **clock)?;
        begins_with(&tokens[at + 1..], &["::", "now"]).then_some((*clock, tokens[at].line))
    });
    Ok(readings.collect())
}

#[cfg(test)]
mod tests {
    use super::super::exceptions::exception;
    use super::super::finding::brief;
    use super::*;

    #[test]
    fn a_clock_read_outside_the_listed_files_is_found() {
        let read = "fn a() {}\nfn b() { std::time::Instant::now(); }";
        let files = TrackedFiles::from([
            ("src/clock.rs", read),
            ("src/store.rs", read),
            ("tests/store.rs", "#[test] fn a() { Timestamp::now(); }"),
        ]);
        assert_eq!(
            brief(&check(&files, &[exception("src/clock.rs")])),
            [
                "src/store.rs:2 `Instant::now` reads the machine's clock",
                "tests/store.rs:1 `Timestamp::now` reads the machine's clock",
            ]
        );
    }

    #[test]
    fn a_clock_that_is_only_named_is_fine() {
        let source = "/// Not `Instant::now`.\n// Instant::now()\nfn a(now: Timestamp) -> Instant;\n\
                      const A: &str = \"Instant::now\";";
        assert_eq!(check(&TrackedFiles::from([("src/a.rs", source)]), &[]), []);
    }
}
