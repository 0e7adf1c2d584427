//! How large the crates are that an auditor reads first. A limit is a promise about an afternoon.

use std::collections::BTreeSet;

use anyhow::Result;

use super::files::TrackedFiles;
use super::finding::Finding;
use super::tokens::{Token, begins_with, shipped_tokens};

/// The most lines of code that a crate may have: without tests, comments and blank lines.
const LIMITS: &[(&str, usize)] = &[("kernel", 4_800), ("arguments", 2_500)];

/// Finds every crate over its limit, and prints the size of each that has one.
///
/// # Errors
/// When a source file is not Rust.
pub(crate) fn check(files: &TrackedFiles) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (name, limit) in LIMITS {
        let lines = lines_of(files, name)?;
        println!("  crates/{name}: {lines} lines of code, at most {limit}");
        findings.extend(over(name, lines, *limit));
    }
    Ok(findings)
}

fn over(name: &str, lines: usize, limit: usize) -> Option<Finding> {
    let what = format!("{lines} lines of code, over {limit}");
    let remedy = "move what decides nothing to another crate";
    (lines > limit).then(|| Finding::in_file(&format!("crates/{name}/src"), what, remedy))
}

fn lines_of(files: &TrackedFiles, name: &str) -> Result<usize> {
    let folder = format!("crates/{name}/src/");
    let sources = files.ending(".rs").filter(|(path, _)| path.starts_with(&folder));
    sources.map(|(_, text)| code_lines(text)).sum()
}

/// The lines that hold a token of the product.
fn code_lines(source: &str) -> Result<usize> {
    let tokens = shipped_tokens(source)?;
    let mut lines = BTreeSet::new();
    let mut rest = tokens.as_slice();
    while let Some(token) = rest.first() {
        let skipped = doc_comment(rest);
        if skipped == 0 {
            lines.insert(token.line);
        }
        rest = rest.get(skipped.max(1)..).unwrap_or_default();
    }
    Ok(lines.len())
}

/// How many tokens a doc comment at the beginning of `tokens` has; none if there is no such comment.
fn doc_comment(tokens: &[Token]) -> usize {
    if begins_with(tokens, &["#", "[", "doc", "="]) {
        6
    } else if begins_with(tokens, &["#", "!", "[", "doc", "="]) {
        7
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_code_are_counted_without_comments_blanks_and_tests() {
        let source = "//! Doc.\n\n/// What it is.\nfn one() {\n    // why\n    two();\n}\n\n#[cfg(test)]\nmod tests {\n    fn three() {}\n}\n";
        assert_eq!(code_lines(source).unwrap(), 3);
    }

    #[test]
    fn a_crate_over_its_limit_is_found() {
        assert!(over("kernel", 10, 10).is_none());
        assert_eq!(
            over("kernel", 11, 10).unwrap().to_string(),
            "crates/kernel/src: 11 lines of code, over 10; move what decides nothing to another crate"
        );
    }

    #[test]
    fn only_the_sources_of_the_crate_count() {
        let files = TrackedFiles::from([
            ("crates/kernel/src/lib.rs", "fn a() {}\n"),
            ("crates/kernel/tests/b.rs", "fn b() {}\n"),
            ("crates/log/src/lib.rs", "fn c() {}\n"),
        ]);
        assert_eq!(lines_of(&files, "kernel").unwrap(), 1);
    }
}
