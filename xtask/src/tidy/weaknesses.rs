//! `docs/threats.md` lists every numbered weakness once, in order, each with the test that closes it or with what
//! is open.

use std::collections::BTreeMap;

use super::files::TrackedFiles;
use super::finding::Finding;

const FILE: &str = "docs/threats.md";

/// The series of numbers and how many each has.
const SERIES: &[(&str, usize)] = &[("R", 43), ("P", 18), ("M", 20), ("T", 9), ("G", 30)];

/// What the state of a weakness that no test closes begins with.
const NOT_CLOSED: [&str; 2] = ["open", "partly closed"];

/// Finds numbers that are missing or listed twice, and rows without a state.
pub(crate) fn check(files: &TrackedFiles) -> Vec<Finding> {
    let rows = rows(files.text(FILE).unwrap_or_default());
    let mut findings = Vec::new();
    for (series, count) in SERIES {
        for number in 1..=*count {
            let code = format!("{series}{number}");
            let listed = rows.get(&code).map(Vec::as_slice).unwrap_or_default();
            if listed.len() != 1 {
                let what = format!("{code} stands in {} rows", listed.len());
                findings.push(Finding::in_file(FILE, what, "each weakness has one row"));
            }
            for (line, state) in listed.iter().filter(|(_, state)| !has_state(state)) {
                let what = format!("the state of {code} is `{state}`");
                let remedy =
                    "name the test that closes it, or begin with `open` or `partly closed`";
                findings.push(Finding::on_line(FILE, *line, what, remedy));
            }
        }
    }
    findings
}

/// The rows of the tables by the number in their first cell: line and last cell.
fn rows(text: &str) -> BTreeMap<String, Vec<(usize, String)>> {
    let mut rows: BTreeMap<String, Vec<(usize, String)>> = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let Some(cells) = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) else {
            continue;
        };
        let code = cells.split('|').next().unwrap_or_default().trim();
        let state = cells.rsplit('|').next().unwrap_or_default().trim();
        rows.entry(code.to_owned()).or_default().push((index + 1, state.to_owned()));
    }
    rows
}

fn has_state(state: &str) -> bool {
    let names_a_test = state.starts_with('`') && state.len() > 2;
    names_a_test || NOT_CLOSED.iter().any(|word| state.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::super::finding::brief;
    use super::*;

    fn table() -> String {
        let rows = SERIES.iter().flat_map(|(series, count)| {
            (1..=*count).map(move |number| format!("| {series}{number} | what | `a_test` |\n"))
        });
        format!("| no. | weakness | state |\n|---|---|---|\n{}", rows.collect::<String>())
    }

    fn found(text: &str) -> Vec<String> {
        brief(&check(&TrackedFiles::from([(FILE, text)])))
    }

    #[test]
    fn every_number_stands_in_one_row_with_its_state() {
        assert_eq!(found(&table()), [""; 0]);
        let open = table().replace("| M7 | what | `a_test` |", "| M7 | what | open: planned |");
        assert_eq!(found(&open), [""; 0]);
    }

    #[test]
    fn a_number_that_is_missing_or_has_no_state_is_found() {
        let missing = table().replace("| P15 | what | `a_test` |\n", "");
        assert_eq!(found(&missing), [format!("{FILE} P15 stands in 0 rows")]);
        let without = table().replace("| R1 | what | `a_test` |", "| R1 | what | |");
        assert_eq!(found(&without), [format!("{FILE}:3 the state of R1 is ``")]);
        let vague = table().replace("| R1 | what | `a_test` |", "| R1 | what | soon |");
        assert_eq!(found(&vague), [format!("{FILE}:3 the state of R1 is `soon`")]);
    }
}
