//! Citations resolve: a source that a comment, a document or a report names is in the repository, or it is public.
//!
//! Four kinds are looked up, line by line: numbered headings (`docs/design.md §3.2`), places in the three papers
//! (`MON §3.3`, `RVU Table 2`, `PIPE step 3`; `docs/papers.md` lists them), numbered weaknesses (`(M7)`, `hole R12`,
//! `docs/threats.md T9`) and decision records (`decision 0011`). Working papers that were never part of the repository
//! cannot be cited at all.

use std::collections::BTreeSet;

use super::exceptions::Exception;
use super::files::TrackedFiles;
use super::finding::Finding;
use super::links;
use super::places::{codes, places};

const PAPERS: &str = "docs/papers.md";
const THREATS: &str = "docs/threats.md";
const CLAIMS: &str = "docs/claims.md";
const DECISIONS: &str = "docs/decisions/";

/// How the papers are cited.
const PAPER_NAMES: &[&str] = &["MON", "RVU", "PIPE"];

/// Working papers that are not in the repository.
const ABSENT: &[&str] =
    &["PRIOR-ART", "FIELD-UPDATE", "DESIGN", "FIELD", "ENGINES", "HOLES", "HOUSE", "STYLE"];

/// What begins a comment; a comment is prose, in which a bare name of a working paper means the paper.
const COMMENT_MARKS: &[&str] = &["//", "#"];

/// What introduces the codes of weaknesses.
const CODE_INTRODUCTIONS: &[&str] =
    &["(", "hole ", "holes ", "closes ", "Closes ", "docs/threats.md ", "docs/threats.md) "];

/// The files in which codes are looked for: models' texts and weights hold anything.
const CODE_FILES: &[&str] = &[".rs", ".md", ".toml", ".py", ".cedar"];

const REMEDY: &str =
    "cite `docs/design.md`, `docs/threats.md`, `docs/papers.md` or a public reference";

/// Finds citations that lead nowhere.
pub(crate) fn check(files: &TrackedFiles, exceptions: &[Exception]) -> Vec<Finding> {
    let listed = Listed::read(files);
    let mut findings = Vec::new();
    for (path, text) in files.ending("") {
        if exceptions.iter().any(|exception| exception.covers(path)) {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            let objections = objections(path, line, files, &listed);
            findings.extend(
                objections.into_iter().map(|what| Finding::on_line(path, index + 1, what, REMEDY)),
            );
        }
    }
    findings
}

/// What our own documents list.
struct Listed {
    /// `MON §3.3`, `RVU table 2`.
    places: BTreeSet<String>,
    /// `M7`.
    codes: BTreeSet<String>,
}

impl Listed {
    fn read(files: &TrackedFiles) -> Self {
        Self {
            places: paper_places(files.text(PAPERS).unwrap_or_default()),
            codes: first_cells(files.text(THREATS).unwrap_or_default()).flat_map(codes).collect(),
        }
    }
}

/// The places that the tables under the headings of the papers list in their first column.
fn paper_places(text: &str) -> BTreeSet<String> {
    let mut listed = BTreeSet::new();
    for section in text.split("\n## ") {
        let heading = section.lines().next().unwrap_or_default();
        let Some(name) = PAPER_NAMES.iter().find(|name| heading.contains(&format!("({name})")))
        else {
            continue;
        };
        let places = first_cells(section).flat_map(places);
        listed.extend(places.map(|place| format!("{name} {place}")));
    }
    listed
}

/// The first cell of each row of a Markdown table.
fn first_cells(text: &str) -> impl Iterator<Item = &str> {
    let rows = text.lines().filter_map(|line| line.strip_prefix('|'));
    rows.filter_map(|row| row.split('|').next()).map(str::trim)
}

/// What is wrong with the citations of one line.
fn objections(path: &str, line: &str, files: &TrackedFiles, listed: &Listed) -> Vec<String> {
    let mut objections = absent_documents(path, line);
    objections.extend(missing_headings(path, line, files));
    objections.extend(missing_places(line, listed));
    objections.extend(missing_decisions(line, files));
    if CODE_FILES.iter().any(|suffix| path.ends_with(suffix)) {
        objections.extend(missing_codes(path, line, listed));
    }
    objections
}

/// The working papers that a line names.
fn absent_documents(path: &str, line: &str) -> Vec<String> {
    let prose_from = if path.ends_with(".md") { Some(0) } else { comment_start(line) };
    let cited = ABSENT.iter().filter(|name| {
        words(line, name).any(|at| {
            let in_prose = prose_from.is_some_and(|from| from <= at);
            name.contains('-') || in_prose || is_place_of_document(&line[at + name.len()..])
        })
    });
    cited.map(|name| format!("`{name}` is a document that is not in the repository")).collect()
}

fn comment_start(line: &str) -> Option<usize> {
    COMMENT_MARKS.iter().filter_map(|mark| line.find(mark)).min()
}

/// Whether what follows a name is a place in a document of that name.
fn is_place_of_document(rest: &str) -> bool {
    let introduced = [".md", " section", " §", " demand"].iter().any(|mark| rest.starts_with(mark));
    let mut characters = rest.chars();
    let lettered = characters.next() == Some(' ')
        && characters.next().is_some_and(|letter| letter.is_ascii_uppercase())
        && characters.next() == Some('.');
    introduced
        || lettered
        || rest.starts_with(' ') && rest[1..].starts_with(|c: char| c.is_ascii_digit())
}

/// Citations of numbered headings: a path that ends in `.md`, and places behind it.
fn missing_headings(path: &str, line: &str, files: &TrackedFiles) -> Vec<String> {
    let mut objections = Vec::new();
    for (at, _) in line.match_indices(".md") {
        let end = at + ".md".len();
        let cited = path_before(line, end);
        let places = places(line[end..].trim_start_matches(['`', ')']).trim_start());
        if places.is_empty() {
            continue;
        }
        let beside = links::resolve(path, cited);
        let Some(text) = files.text(cited).or_else(|| files.text(&beside?)) else {
            objections.push(format!("there is no file `{cited}`"));
            continue;
        };
        let numbers = heading_numbers(text);
        let missing = places.into_iter().filter(|place| !numbers.contains(place.as_str()));
        objections.extend(missing.map(|place| format!("`{cited}` has no heading `{place}`")));
    }
    objections
}

/// The path that ends at `end`.
fn path_before(line: &str, end: usize) -> &str {
    let start = line[..end].trim_end_matches(is_path_character).len();
    &line[start..end]
}

/// Every number of a heading of a document, as it is cited: `§3.2` for `### 3.2 Labels`.
fn heading_numbers(text: &str) -> BTreeSet<String> {
    let titles = text.lines().filter(|line| line.starts_with('#'));
    let titles = titles.map(|line| line.trim_start_matches('#').trim_start());
    titles.flat_map(|title| places(&format!("§{title}"))).collect()
}

/// Citations of the papers that `docs/papers.md` does not list.
fn missing_places(line: &str, listed: &Listed) -> Vec<String> {
    let mut objections = Vec::new();
    for name in PAPER_NAMES {
        for at in words(line, name) {
            let rest = &line[at + name.len()..];
            let rest = [" v1", " v2", "'s"]
                .iter()
                .find_map(|mark| rest.strip_prefix(mark))
                .unwrap_or(rest);
            let rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
            let cited = places(rest).into_iter().map(|place| format!("{name} {place}"));
            let missing = cited.filter(|place| !listed.places.contains(place));
            objections.extend(missing.map(|place| format!("`{PAPERS}` does not list `{place}`")));
        }
    }
    objections
}

/// Citations of decision records that nobody wrote.
fn missing_decisions(line: &str, files: &TrackedFiles) -> Vec<String> {
    let numbers = line
        .match_indices("decision ")
        .filter_map(|(at, word)| line.get(at + word.len()..)?.get(..4));
    let numbers = numbers.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    let missing = numbers.filter(|number| {
        !files.ending(".md").any(|(path, _)| path.starts_with(&format!("{DECISIONS}{number}-")))
    });
    missing.map(|number| format!("there is no decision {number}")).collect()
}

/// Citations of weaknesses that `docs/threats.md` has no row for.
fn missing_codes(path: &str, line: &str, listed: &Listed) -> Vec<String> {
    let mut cited = labels(path, line);
    for introduction in CODE_INTRODUCTIONS {
        cited.extend(
            line.match_indices(introduction)
                .flat_map(|(at, _)| codes(&line[at + introduction.len()..])),
        );
    }
    let missing = cited.into_iter().filter(|code| !listed.codes.contains(code));
    missing.map(|code| format!("`{THREATS}` has no row `{code}`")).collect()
}

/// Codes that label a test (`/// M7: …`) or stand as the source of a claim (`| R1, R2 |`).
fn labels(path: &str, line: &str) -> BTreeSet<String> {
    if path == CLAIMS {
        return line.split('|').map(str::trim).flat_map(codes).collect();
    }
    let comment = line.trim_start().strip_prefix("//").unwrap_or_default();
    let comment = comment.trim_start_matches(['/', '!']).trim_start();
    let label = comment.split_once(": ").map(|(label, _)| label).unwrap_or_default();
    codes(label).into_iter().collect()
}

/// Where a word stands whole.
fn words<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    line.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = line[..*at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_path_character) && !after.is_some_and(is_word_character)
    })
}

fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '-')
}

fn is_path_character(character: char) -> bool {
    is_word_character(character) || matches!(character, '.' | '/')
}

#[cfg(test)]
mod tests {
    use super::super::finding::brief;
    use super::*;

    const DESIGN_TEXT: &str = "# Design\n\n## 3. The law\n\n### 3.2 Labels\n";
    const THREATS_TEXT: &str = "# Threats\n\n## 2. Weaknesses\n\n| no. | what |\n|---|---|\n| M7 | a |\n| R1 | b |\n| T9 | c |\n";
    const PAPERS_TEXT: &str = "# Papers\n\n## 2. A Monitor (MON)\n\n| place | what |\n|---|---|\n| §3.3 | rules |\n\
         | rules 1–9 | rules |\n| Table 6 | results |\n\n## 3. Recovery (RVU)\n\n| §5.2 | closure |\n| Theorem 4 | x |\n\n\
         ## 4. Pipeline (PIPE)\n\n| step 3 | sandbox |\n";

    fn found_in(path: &str, line: &str) -> Vec<String> {
        let files = TrackedFiles::from([
            ("docs/design.md", DESIGN_TEXT),
            (THREATS, THREATS_TEXT),
            (PAPERS, PAPERS_TEXT),
            ("docs/decisions/0011-spared.md", "# Spared\n"),
            (path, line),
        ]);
        brief(&check(&files, &[]))
    }

    #[test]
    fn a_citation_that_leads_somewhere_is_fine() {
        let lines = [
            "//! Source: MON §3.3 rules 2–5; docs/design.md §3.2 and §3.",
            "//! What holds (M7), and hole R1; docs/threats.md T9.",
            "/// M7: check and write are one step. RVU Theorem 4, PIPE step 3.",
            "const E2: &str = \"RVU v2 §5.2\";",
            "const STYLE: &str = include_str!(\"page.css\"); // decision 0011",
            "stdout=subprocess.PIPE, stdin=1",
            "//! RFC 9162 §2.1.3 and other.md of somebody else",
            "//! MON's content check; 50 (P is the chance).",
            "see [the design](../docs/design.md) §3.2",
        ];
        for line in lines {
            assert_eq!(found_in("src/a.rs", line), [""; 0], "{line}");
        }
    }

    #[test]
    fn a_citation_that_leads_nowhere_is_found() {
        let cases = [
            ("//! docs/design.md §3.4", "`docs/design.md` has no heading `§3.4`"),
            ("//! docs/law.md §3", "there is no file `docs/law.md`"),
            ("//! MON §3.9", "`docs/papers.md` does not list `MON §3.9`"),
            ("//! MON rule 10", "`docs/papers.md` does not list `MON rule 10`"),
            ("//! RVU §3.3", "`docs/papers.md` does not list `RVU §3.3`"),
            ("\"PIPE step 7\"", "`docs/papers.md` does not list `PIPE step 7`"),
            ("/// (M8)", "`docs/threats.md` has no row `M8`"),
            ("/// Closes R2.", "`docs/threats.md` has no row `R2`"),
            ("/// R1 and M9: a test", "`docs/threats.md` has no row `M9`"),
            ("/// docs/threats.md T9 and T10", "`docs/threats.md` has no row `T10`"),
            ("/// decision 0012", "there is no decision 0012"),
        ];
        for (line, expected) in cases {
            assert_eq!(found_in("src/a.rs", line), [format!("src/a.rs:1 {expected}")], "{line}");
        }
    }

    #[test]
    fn the_source_of_a_claim_is_looked_up() {
        let found = found_in(CLAIMS, "| a claim | R1, R2 | `f` | `t` |");
        assert_eq!(found, ["docs/claims.md:1 `docs/threats.md` has no row `R2`"]);
    }

    #[test]
    fn a_document_that_is_not_in_the_repository_cannot_be_cited() {
        // Put together here, so that this file passes its own check.
        let [design, prior_art, field] = [ABSENT[2], ABSENT[0], ABSENT[3]];
        let cases = [
            ("src/a.rs", format!("//! Source: {design}, the law"), Some(design)),
            ("src/a.rs", format!("let text = \"{design} section 3\";"), Some(design)),
            ("a.json", format!("\"source\": \"{prior_art} 3.2\""), Some(prior_art)),
            ("a.toml", format!("# after {prior_art}"), Some(prior_art)),
            ("a.md", format!("as {field} says"), Some(field)),
            ("a.py", format!("x = \"{field} A.4\""), Some(field)),
            ("src/a.rs", format!("const {field}: &str = \"field\";"), None),
            ("a.md", String::from("DESIGNED fields"), None),
        ];
        for (path, line, expected) in cases {
            let expected: Vec<String> = expected
                .map(|name| {
                    format!("{path}:1 `{name}` is a document that is not in the repository")
                })
                .into_iter()
                .collect();
            assert_eq!(found_in(path, &line), expected, "{line}");
        }
    }
}
