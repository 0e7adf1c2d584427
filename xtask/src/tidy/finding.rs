//! One thing that is not as we promise.

use std::fmt;

/// Where it is, what it is, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Relative to the workspace root.
    pub(crate) file: String,
    /// Counted from one; absent when the whole file is meant.
    pub(crate) line: Option<usize>,
    pub(crate) what: String,
    pub(crate) remedy: String,
    /// What `xtask/tidy-baseline.txt` calls it, where a check lets findings be listed there: independent of lines.
    pub(crate) subject: Option<String>,
}

impl Finding {
    /// A finding about a whole file, or about its absence.
    pub(crate) fn in_file(file: &str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: None,
            what: what.into(),
            remedy: remedy.into(),
            subject: None,
        }
    }

    /// The same finding, with a name that `xtask/tidy-baseline.txt` can list.
    pub(crate) fn about(self, subject: impl Into<String>) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }

    /// A finding about one line.
    pub(crate) fn on_line(
        file: &str,
        line: usize,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { line: Some(line), ..Self::in_file(file, what, remedy) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}; {}", self.what, self.remedy)
    }
}

/// `file:line what`, one each: how the tests of the checks state what they expect.
#[cfg(test)]
pub(crate) fn brief(findings: &[Finding]) -> Vec<String> {
    let lines = findings.iter().map(|found| {
        let line = found.line.map(|line| format!(":{line}")).unwrap_or_default();
        format!("{}{line} {}", found.file, found.what)
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_reads_as_place_what_and_remedy() {
        let whole = Finding::in_file("CHANGELOG.md", "the file is missing", "write it");
        let line = Finding::on_line("a.rs", 3, "the line is long", "wrap it");
        assert_eq!(whole.to_string(), "CHANGELOG.md: the file is missing; write it");
        assert_eq!(line.to_string(), "a.rs:3: the line is long; wrap it");
    }
}
