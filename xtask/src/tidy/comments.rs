//! Comments stay narrow enough to read; rustfmt leaves their prose alone.

use super::files::TrackedFiles;
use super::finding::Finding;

/// Characters, indentation included.
const MAX_WIDTH: usize = 120;

/// Finds comment lines that are too long. A link cannot be wrapped and may be.
pub(crate) fn check(files: &TrackedFiles) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in files.ending(".rs") {
        for (index, line) in text.lines().enumerate() {
            let is_comment = line.trim_start().starts_with("//");
            let width = line.chars().count();
            if is_comment && width > MAX_WIDTH && !line.contains("://") {
                findings.push(Finding::on_line(
                    path,
                    index + 1,
                    format!("the comment is {width} characters wide"),
                    format!("wrap it at {MAX_WIDTH}, or better at 100"),
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::finding::brief;
    use super::*;

    #[test]
    fn a_long_comment_is_found_and_a_long_link_or_line_of_code_is_not() {
        let comment = format!("    // {}", "word ".repeat(23).trim_end());
        let just_fits = &comment[..MAX_WIDTH];
        let source = format!(
            "{just_fits}\n{just_fits}s\nlet a = \"{0}\";\n/// <https://example.org/{0}>\n",
            "x".repeat(120)
        );
        let found = brief(&check(&TrackedFiles::from([("src/a.rs", source.as_str())])));
        assert_eq!(found, ["src/a.rs:2 the comment is 121 characters wide"]);
    }
}
