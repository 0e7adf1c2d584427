//! What the checks of unmodified hosts and clients counted: the last line that `integrations/hosts/check.py` prints.

use std::path::Path;

use serde_json::{Map, Value};

use crate::error::EvalError;
use crate::report::Figure;

/// What the names of figures begin with. The others are versions.
const GROUPS: [&str; 3] = ["hosts.", "clients.", "controls."];

/// The figures in a file with the output of the checks, or with its last line.
///
/// # Errors
/// When the file cannot be read or has no such line.
pub fn figures(file: &Path) -> Result<Vec<Figure>, EvalError> {
    let text = std::fs::read_to_string(file).map_err(EvalError::file(file))?;
    let found = counted(&text);
    if found.is_empty() {
        let what = format!("`{}` has no figures of `integrations/hosts/check.py`", file.display());
        return Err(EvalError::Setup(what));
    }
    Ok(found)
}

fn counted(text: &str) -> Vec<Figure> {
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let Ok(found) = serde_json::from_str::<Map<String, Value>>(last) else { return Vec::new() };
    let counts =
        found.iter().filter(|(name, _)| GROUPS.iter().any(|group| name.starts_with(group)));
    counts
        .filter_map(|(name, count)| Some(Figure::count(name, count.as_u64()?, "checks")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_the_checks_is_read_and_versions_are_no_figures() {
        let text = "ok clients.openai_py.x\n{\"clients.openai_py.passed\": 41, \"hosts.claude.denied_ran\": 0, \
                    \"versions.node\": \"20\"}\n\n";
        let found: Vec<(String, Option<f64>)> =
            counted(text).into_iter().map(|figure| (figure.id, figure.value)).collect();
        let expected =
            [("clients.openai_py.passed", Some(41.0)), ("hosts.claude.denied_ran", Some(0.0))];
        assert_eq!(found, expected.map(|(id, value)| (id.to_owned(), value)));
        assert!(counted("ok x\n").is_empty());
    }
}
