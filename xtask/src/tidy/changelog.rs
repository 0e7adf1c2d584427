//! Users can read what changed before it is released.

use super::files::TrackedFiles;
use super::finding::Finding;

const FILE: &str = "CHANGELOG.md";

/// Finds a changelog that is missing or has nowhere to put the next change.
pub(crate) fn check(files: &TrackedFiles) -> Vec<Finding> {
    let Some(text) = files.text(FILE) else {
        return vec![Finding::in_file(FILE, "the file is missing", "write what users get")];
    };
    if text.lines().any(|line| matches!(line.trim(), "## Unreleased" | "## [Unreleased]")) {
        return Vec::new();
    }
    vec![Finding::in_file(FILE, "no section `## Unreleased`", "add it at the top")]
}

#[cfg(test)]
mod tests {
    use super::super::finding::brief;
    use super::*;

    #[test]
    fn the_changelog_exists_and_has_an_unreleased_section() {
        let fine = TrackedFiles::from([(FILE, "# Changelog\n\n## Unreleased\n")]);
        let released = TrackedFiles::from([(FILE, "# Changelog\n\n## 0.1.0\nUnreleased\n")]);
        assert_eq!(check(&fine), []);
        assert_eq!(brief(&check(&released)), ["CHANGELOG.md no section `## Unreleased`"]);
        assert_eq!(brief(&check(&TrackedFiles::from([]))), ["CHANGELOG.md the file is missing"]);
    }
}
