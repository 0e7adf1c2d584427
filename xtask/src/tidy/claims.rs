//! `docs/claims.md` names only what exists: a claim whose function or test is gone is found. So is a test that the
//! tables of `docs/threats.md` and `docs/papers.md` name.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::files::TrackedFiles;
use super::finding::Finding;
use super::tokens::tokens;
use crate::chores::CHORES;

const FILE: &str = "docs/claims.md";

/// Other documents whose tables name tests and commands.
const ALSO: &[&str] = &["docs/threats.md", "docs/papers.md"];

/// The name of a test is a sentence: it has at least so many underscores.
const MIN_UNDERSCORES: usize = 3;

/// The verbs of `custody`.
const VERBS: &[&str] = &[
    "demo",
    "replay",
    "session",
    "screen",
    "route",
    "memory",
    "ledger",
    "keys",
    "principal",
    "incident",
    "adapter",
    "cert",
    "serve",
    "mcp",
    "hook",
    "policy",
    "models",
    "data",
    "train",
    "eval",
    "doctor",
    "witness",
    "completions",
];

/// The verbs of `cargo` that a claim may be shown by.
const CARGO_VERBS: &[&str] = &["bench", "build", "clippy", "doc", "run", "test", "tree", "xtask"];

/// The words before a name that introduce it.
const KEYWORDS: &[&str] =
    &["fn", "struct", "enum", "mod", "const", "trait", "type", "static", "macro_rules"];

/// Finds names in the tables of the claims that stand for nothing. A name is an inline code span:
/// `path/to/file.rs`, `path/to/file.py::test`, `custody …`, `cargo …` or the name of a test; other spans are prose.
pub(crate) fn check(files: &TrackedFiles) -> Vec<Finding> {
    let Some(text) = files.text(FILE) else {
        return vec![Finding::in_file(
            FILE,
            "the file is missing",
            "list each claim with the function and the test that show it",
        )];
    };
    let also = ALSO.iter().filter_map(|path| Some((*path, files.text(path)?)));
    let mut findings = Vec::new();
    for (path, text) in std::iter::once((FILE, text)).chain(also) {
        for (span, line) in spans_in_tables(text) {
            if let Some(what) = objection(&span, files) {
                let remedy = "correct the claim, or withdraw it";
                findings.push(Finding::on_line(path, line, what, remedy));
            }
        }
    }
    findings
}

/// The inline code of every table, each with its line.
fn spans_in_tables(text: &str) -> Vec<(String, usize)> {
    let mut spans = Vec::new();
    let mut in_table = false;
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        if matches!(event, Event::Start(Tag::Table(_))) {
            in_table = true;
        } else if matches!(event, Event::End(TagEnd::Table)) {
            in_table = false;
        } else if let Event::Code(span) = event
            && in_table
        {
            spans.push((span.to_string(), text[..range.start].matches('\n').count() + 1));
        }
    }
    spans
}

/// What is wrong with a span, if anything is.
fn objection(span: &str, files: &TrackedFiles) -> Option<String> {
    let words: Vec<&str> = span.split_whitespace().collect();
    match words[..] {
        ["custody", verb, ..] => unknown_verb("custody", verb, VERBS),
        ["cargo", "xtask", chore, ..] => {
            let chores: Vec<&str> = CHORES.iter().map(|chore| chore.name).collect();
            unknown_verb("cargo xtask", chore, &chores)
        }
        ["cargo", verb, ..] => unknown_verb("cargo", verb, CARGO_VERBS),
        [name] if is_test_name(name) => missing_test(name, files),
        [path] => missing_item(path, files),
        _ => None,
    }
}

fn unknown_verb(program: &str, verb: &str, known: &[&str]) -> Option<String> {
    let is_known = verb.starts_with('-') || known.contains(&verb);
    (!is_known).then(|| format!("`{program}` has no command `{verb}`"))
}

fn missing_item(path: &str, files: &TrackedFiles) -> Option<String> {
    let (file, items) = match path.split_once("::") {
        Some((file, items)) => (file, items.split("::").collect()),
        None => (path, Vec::new()),
    };
    if !is_path(file) {
        return None;
    }
    if items.is_empty() && files.contains(file) {
        return None;
    }
    let Some(text) = files.text(file) else {
        return Some(format!("there is no file `{file}`"));
    };
    let defines = if file.ends_with(".rs") { defines } else { defines_in_python };
    let absent = items.into_iter().find(|item| !defines(text, item))?;
    Some(format!("`{file}` defines no `{absent}`"))
}

/// Whether a span names a file or a folder: it has a `/`, and its last name an extension or none.
fn is_path(span: &str) -> bool {
    let last = span.rsplit('/').next().unwrap_or_default();
    let has_path_characters =
        span.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '_' | '-'));
    span.ends_with(".rs")
        || span.contains('/') && has_path_characters && (last.is_empty() || last.contains('.'))
}

fn is_test_name(span: &str) -> bool {
    let is_snake_case =
        span.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    is_snake_case && span.matches('_').count() >= MIN_UNDERSCORES
}

fn missing_test(name: &str, files: &TrackedFiles) -> Option<String> {
    let rust = files.ending(".rs").any(|(_, text)| text.contains(&format!("fn {name}(")));
    let is_defined = rust || files.ending(".py").any(|(_, text)| defines_in_python(text, name));
    (!is_defined).then(|| format!("there is no test `{name}`"))
}

fn defines_in_python(source: &str, item: &str) -> bool {
    let lines = source.lines().map(str::trim_start);
    let mut names = lines.filter_map(|line| {
        let definition = line.strip_prefix("def ").or_else(|| line.strip_prefix("class "))?;
        definition.split(['(', ':']).next()
    });
    names.any(|name| name.trim() == item)
}

fn defines(source: &str, item: &str) -> bool {
    let Ok(tokens) = tokens(source) else {
        return false;
    };
    tokens.iter().enumerate().any(|(at, token)| {
        let name = match tokens.get(at + 1) {
            Some(bang) if token.text == "macro_rules" && bang.text == "!" => tokens.get(at + 2),
            name => name,
        };
        KEYWORDS.contains(&token.text.as_str()) && name.is_some_and(|name| name.text == item)
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::brief;
    use super::*;

    const SOURCE: &str = "// fn commented() {}\npub struct Key;\nimpl Key { fn parse() {} }\n\
                          mod tests { fn a_key_is_short() {} }";

    const PYTHON: &str = "class Kept:\n    def test_it(self):\n        pass\n";

    fn found(span: &str) -> Vec<String> {
        let table =
            format!("# Claims\n\n`x.rs`\n\n| claim | shown by |\n|---|---|\n| a | `{span}` |\n");
        brief(&check(&TrackedFiles::from([
            (FILE, table.as_str()),
            ("src/key.rs", SOURCE),
            ("it/test_a.py", PYTHON),
        ])))
    }

    #[test]
    fn a_claim_names_files_items_and_commands_that_exist() {
        let spans = [
            "src/key.rs",
            "src/key.rs::Key",
            "src/key.rs::Key::parse",
            "src/key.rs::tests::a_key_is_short",
            "custody eval rules --json",
            "custody --help",
            "cargo xtask tidy",
            "cargo test -p custody-kernel",
            "decide_write",
            "a_key_is_short",
            "it/test_a.py",
            "it/test_a.py::Kept::test_it",
            "it/",
            "any other prose",
            "and/or",
        ];
        for span in spans {
            assert_eq!(found(span), [""; 0], "`{span}`");
        }
    }

    #[test]
    fn a_claim_that_names_nothing_is_found() {
        let cases = [
            ("src/lock.rs", "there is no file `src/lock.rs`"),
            ("src/lock.rs::Lock", "there is no file `src/lock.rs`"),
            ("src/key.rs::Lock", "`src/key.rs` defines no `Lock`"),
            ("src/key.rs::Key::render", "`src/key.rs` defines no `render`"),
            ("src/key.rs::commented", "`src/key.rs` defines no `commented`"),
            ("it/test_b.py", "there is no file `it/test_b.py`"),
            ("it/seeds.jsonl", "there is no file `it/seeds.jsonl`"),
            ("it/test_a.py::test_this", "`it/test_a.py` defines no `test_this`"),
            ("a_key_is_never_long", "there is no test `a_key_is_never_long`"),
            ("custody conquer", "`custody` has no command `conquer`"),
            ("cargo xtask conquer", "`cargo xtask` has no command `conquer`"),
            ("cargo conquer", "`cargo` has no command `conquer`"),
        ];
        for (span, expected) in cases {
            assert_eq!(found(span), [format!("{FILE}:7 {expected}")], "`{span}`");
        }
    }

    #[test]
    fn a_test_that_another_document_names_is_looked_up_too() {
        let table = "| no. | closed by |\n|---|---|\n| M1 | `a_key_is_never_long` |\n";
        let files = TrackedFiles::from([(FILE, ""), ("docs/threats.md", table)]);
        let found = brief(&check(&files));
        assert_eq!(found, ["docs/threats.md:3 there is no test `a_key_is_never_long`"]);
    }

    #[test]
    fn claims_that_nobody_wrote_down_are_found() {
        let found = brief(&check(&TrackedFiles::from([])));
        assert_eq!(found, [format!("{FILE} the file is missing")]);
    }
}
