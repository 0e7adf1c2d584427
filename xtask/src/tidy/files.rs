//! The files that a clone of the repository has.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Every file tracked by git, by its path from the root. Only tracked files count: a link to one
/// that was never added works here and nowhere else.
#[derive(Debug)]
pub(crate) struct TrackedFiles {
    /// `None` for a file that is not text.
    texts: BTreeMap<String, Option<String>>,
}

impl TrackedFiles {
    /// Reads the files as they are in the working tree; a deleted one is gone.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let output = Command::new("git")
            .args(["ls-files", "-z"])
            .current_dir(root)
            .output()
            .context("could not start `git`")?;
        if !output.status.success() {
            bail!("`git ls-files` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let listing = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
        let mut texts = BTreeMap::new();
        for path in listing.split_terminator('\0').filter(|path| root.join(path).exists()) {
            let bytes = std::fs::read(root.join(path));
            let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
            texts.insert(path.to_owned(), text);
        }
        Ok(Self { texts })
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path)?.as_deref()
    }

    /// The text of a file that tidy cannot do without.
    pub(crate) fn required(&self, path: &str) -> Result<&str> {
        self.text(path).with_context(|| format!("`{path}` is not tracked by git; add it"))
    }

    /// Whether there is such a file, or a folder with files in it.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        path.is_empty()
            || self.texts.contains_key(path)
            || self.texts.keys().any(|file| file.starts_with(&folder))
    }

    /// Every text file whose path ends so, with its text, in the order of the paths.
    pub(crate) fn ending(&self, suffix: &str) -> impl Iterator<Item = (&str, &str)> {
        let texts = self.texts.iter().filter(move |(path, _)| path.ends_with(suffix));
        texts.filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for TrackedFiles {
    fn from(files: [(&str, &str); N]) -> Self {
        let texts = files.map(|(path, text)| (path.to_owned(), Some(text.to_owned())));
        Self { texts: texts.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_exists_when_a_file_is_in_it() {
        let files = TrackedFiles::from([("docs/claims.md", "")]);
        let cases =
            [("docs/claims.md", true), ("docs", true), ("docs/", true), ("", true), ("doc", false)];
        for (path, expected) in cases {
            assert_eq!(files.contains(path), expected, "`{path}`");
        }
    }
}
