//! Files that are compiled in stand in a `static`: a `const` is stored again wherever it is used.

use super::files::TrackedFiles;
use super::finding::Finding;
use super::tokens::{Token, begins_with, shipped_tokens};

/// Finds constants of the product that hold a file: any given by `include_bytes!`, and weights given by
/// `include_str!`.
pub(crate) fn check(files: &TrackedFiles) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in files.ending(".rs").filter(|(path, _)| path.contains("/src/")) {
        match constants(text) {
            Ok(constants) => findings.extend(constants.into_iter().map(|(name, line)| {
                Finding::on_line(
                    path,
                    line,
                    format!("the constant `{name}` holds a file"),
                    "write `static`, which is stored once",
                )
            })),
            Err(error) => {
                findings.push(Finding::in_file(path, format!("{error:#}"), "make it parse"));
            }
        }
    }
    findings
}

/// The names of the constants that hold a file, each with its line.
fn constants(source: &str) -> anyhow::Result<Vec<(String, usize)>> {
    let tokens = shipped_tokens(source)?;
    let starts = tokens.windows(3).enumerate();
    let starts = starts.filter(|(_, window)| window[0].text == "const" && window[2].text == ":");
    Ok(starts
        .filter(|(start, _)| holds_file(until_semicolon(&tokens[*start..])))
        .map(|(_, window)| (window[1].text.clone(), window[1].line))
        .collect())
}

/// The tokens of an item up to its semicolon; those of an array type stand in brackets.
fn until_semicolon(tokens: &[Token]) -> &[Token] {
    let mut depth = 0usize;
    let end = tokens.iter().position(|token| {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && token.text == ";"
    });
    &tokens[..end.unwrap_or(tokens.len())]
}

fn holds_file(item: &[Token]) -> bool {
    (0..item.len()).any(|at| {
        begins_with(&item[at..], &["include_bytes", "!"])
            || begins_with(&item[at..], &["include_str", "!", "("])
                && item.get(at + 3).is_some_and(|path| path.text.contains("weights/"))
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::brief;
    use super::*;

    #[test]
    fn a_constant_that_holds_a_file_is_found() {
        let sources = [
            "const A: &[u8] = include_bytes!(\"a\");",
            "impl B { pub const B: &'static [u8; 3] = include_bytes!(\"b\"); }",
            "const C: &str = include_str!(\"../weights/c.json\");",
        ];
        for source in sources {
            let found = brief(&check(&TrackedFiles::from([("crates/a/src/b.rs", source)])));
            assert_eq!(found.len(), 1, "{source}: {found:?}");
        }
    }

    #[test]
    fn statics_small_texts_and_tests_are_fine() {
        let source = "static A: &[u8] = include_bytes!(\"a\");\nconst B: [u8; 3] = [0; 3];\n\
                      const fn c(d: u8) -> u8 { d }\nconst E: &str = include_str!(\"e.sql\");\n\
                      #[cfg(test)] mod tests { const F: &[u8] = include_bytes!(\"f\"); }";
        let golden = "const A: &[u8] = include_bytes!(\"a\");";
        let files = [("crates/a/src/b.rs", source), ("crates/a/tests/c.rs", golden)];
        assert_eq!(check(&TrackedFiles::from(files)), []);
    }
}
