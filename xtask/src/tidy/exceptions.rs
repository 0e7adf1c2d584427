//! `xtask/tidy.toml`: where a check does not apply, and why.

use anyhow::{Context, Result};
use serde::Deserialize;

use super::files::TrackedFiles;

const FILE: &str = "xtask/tidy.toml";

/// The exceptions, by check.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct Exceptions {
    pub(crate) clock: Vec<Exception>,
    pub(crate) machine_paths: Vec<Exception>,
    pub(crate) citations: Vec<Exception>,
}

/// Files to which a check does not apply.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exception {
    /// A file, or a folder if it ends in `/`. A `*` stands for one name.
    path: String,
    /// Read by people only, but there is no exception without one.
    #[expect(dead_code, reason = "required of whoever writes the file, not used by the check")]
    reason: String,
}

impl Exceptions {
    pub(crate) fn read(files: &TrackedFiles) -> Result<Self> {
        toml::from_str(files.required(FILE)?)
            .with_context(|| format!("`{FILE}` is not as expected"))
    }
}

impl Exception {
    /// Whether this exception is for `file`.
    pub(crate) fn covers(&self, file: &str) -> bool {
        let is_folder = self.path.ends_with('/');
        let pattern: Vec<&str> = self.path.trim_end_matches('/').split('/').collect();
        let names: Vec<&str> = file.split('/').collect();
        let long_enough =
            if is_folder { names.len() > pattern.len() } else { names.len() == pattern.len() };
        long_enough && pattern.iter().zip(&names).all(|(part, name)| *part == "*" || part == name)
    }
}

#[cfg(test)]
pub(crate) fn exception(path: &str) -> Exception {
    Exception { path: path.to_owned(), reason: String::from("a test") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_names_a_file_or_a_folder_and_a_star_is_one_name() {
        let cases = [
            ("src/clock.rs", "src/clock.rs", true),
            ("src/clock.rs", "src/clock.rs/x", false),
            ("src/clock.rs", "src/clock", false),
            ("crates/*/benches/", "crates/kernel/benches/a.rs", true),
            ("crates/*/benches/", "crates/kernel/benches/a/b.rs", true),
            ("crates/*/benches/", "crates/benches/a.rs", false),
            ("crates/*/benches/", "crates/kernel/benches", false),
        ];
        for (pattern, file, expected) in cases {
            assert_eq!(exception(pattern).covers(file), expected, "`{pattern}` and `{file}`");
        }
    }

    #[test]
    fn an_exception_without_a_reason_or_for_an_unknown_check_is_refused() {
        let cases = [
            ("[[clock]]\npath = \"a\"\nreason = \"b\"", true),
            ("[[machine-paths]]\npath = \"a\"\nreason = \"b\"", true),
            ("[[clock]]\npath = \"a\"", false),
            ("[[clocks]]\npath = \"a\"\nreason = \"b\"", false),
        ];
        for (text, expected) in cases {
            assert_eq!(toml::from_str::<Exceptions>(text).is_ok(), expected, "{text}");
        }
    }
}
