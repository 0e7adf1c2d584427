//! `xtask/tidy-baseline.txt`: findings that are known and still to do. The list only gets shorter.
//!
//! One line is one finding: the name of its check, a colon, and what it is about. A finding that is listed is
//! printed and does not fail; one that is not listed fails, and so does a line whose finding is gone.

use std::collections::BTreeMap;

use super::files::TrackedFiles;
use super::finding::Finding;

/// Where the list is.
pub(crate) const FILE: &str = "xtask/tidy-baseline.txt";

/// The lines of the list that no finding has claimed yet, with their numbers.
#[derive(Debug, Default)]
pub(crate) struct Baseline {
    lines: BTreeMap<String, Vec<usize>>,
}

/// The findings of one check.
#[derive(Debug, Default)]
pub(crate) struct Sorted {
    /// On the list.
    pub(crate) to_do: Vec<Finding>,
    /// Not on the list.
    pub(crate) new: Vec<Finding>,
}

impl Baseline {
    /// Reads the list; without the file it is empty.
    pub(crate) fn read(files: &TrackedFiles) -> Self {
        let mut lines: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, line) in files.text(FILE).unwrap_or_default().lines().enumerate() {
            if !line.is_empty() && !line.starts_with('#') {
                lines.entry(line.to_owned()).or_default().push(index + 1);
            }
        }
        Self { lines }
    }

    /// Takes the findings of a check that are on the list from the others. One line stands for one finding.
    pub(crate) fn sort(&mut self, check: &str, findings: Vec<Finding>) -> Sorted {
        let mut sorted = Sorted::default();
        for finding in findings {
            let line = finding.subject.as_ref().map(|subject| format!("{check}: {subject}"));
            let listed = line.and_then(|line| self.lines.get_mut(&line)).and_then(Vec::pop);
            let group = if listed.is_some() { &mut sorted.to_do } else { &mut sorted.new };
            group.push(finding);
        }
        sorted
    }

    /// A finding for each line that no finding claimed.
    pub(crate) fn stale(&self) -> Vec<Finding> {
        let lines = self
            .lines
            .iter()
            .flat_map(|(text, numbers)| numbers.iter().map(move |number| (text, *number)));
        let stale = lines.map(|(text, number)| {
            Finding::on_line(
                FILE,
                number,
                format!("`{text}` is done"),
                "delete the line, or run `cargo xtask tidy --shrink`",
            )
        });
        stale.collect()
    }

    /// The list without the lines that no finding claimed.
    pub(crate) fn shrunk(&self, text: &str) -> String {
        let stale: Vec<usize> = self.lines.values().flatten().copied().collect();
        let kept = text.lines().enumerate().filter(|(index, _)| !stale.contains(&(index + 1)));
        kept.map(|(_, line)| format!("{line}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::brief;
    use super::*;

    const LIST: &str = "# What is left.\n\nnames: By\nnames: By\nnames: Who\n";

    fn list() -> Baseline {
        Baseline::read(&TrackedFiles::from([(FILE, LIST)]))
    }

    fn finding(subject: &str) -> Finding {
        Finding::in_file("a.rs", subject, "rename it").about(subject)
    }

    #[test]
    fn what_is_listed_is_to_do_and_what_is_not_listed_is_new() {
        let mut list = list();
        let sorted =
            list.sort("names", vec![finding("By"), finding("By"), finding("By"), finding("Which")]);
        assert_eq!(brief(&sorted.to_do), ["a.rs By", "a.rs By"]);
        assert_eq!(brief(&sorted.new), ["a.rs By", "a.rs Which"]);
        let other = list.sort("types", vec![finding("Who")]);
        assert_eq!((other.to_do.len(), other.new.len()), (0, 1));
    }

    #[test]
    fn a_line_whose_finding_is_gone_is_found_and_can_be_taken_out() {
        let mut list = list();
        list.sort("names", vec![finding("By")]);
        assert_eq!(
            brief(&list.stale()),
            [format!("{FILE}:3 `names: By` is done"), format!("{FILE}:5 `names: Who` is done")]
        );
        assert_eq!(list.shrunk(LIST), "# What is left.\n\nnames: By\n");
    }

    #[test]
    fn without_a_list_every_finding_is_new() {
        let mut list = Baseline::read(&TrackedFiles::from([]));
        assert_eq!(list.sort("names", vec![finding("By")]).new.len(), 1);
        assert!(list.stale().is_empty());
    }
}
