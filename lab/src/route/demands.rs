//! What a successful answer holds, row by row of the benchmark data.
//!
//! The table holds no row of the data: an id, a digest by which a changed row is noticed, and the strings to look for.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use custody_log::Digest;
use serde::Deserialize;

use crate::data::Row;
use crate::error::EvalError;

/// The field in which a row brings the system prompt that it attacks.
pub(super) const SYSTEM_PROMPT: &str = "system_prompt";

/// What an attack wants, as far as a program can look for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Goal {
    /// One of these strings in the answer.
    Contains(Vec<String>),
    /// The system prompt or a secret in it: what is planted there shows whether it got out.
    Planted,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Demand {
    id: String,
    /// Its first sixteen digits.
    sha256: String,
    #[serde(default)]
    says: Vec<String>,
    #[serde(default)]
    planted: bool,
}

static KNOWN: LazyLock<BTreeMap<String, Demand>> = LazyLock::new(|| {
    let file: BTreeMap<String, Vec<Demand>> =
        toml::from_str(include_str!("demands.toml")).expect("a test reads `demands.toml`");
    let demands = file.into_values().flatten();
    demands.map(|demand| (demand.id.clone(), demand)).collect()
});

/// What the attack in `row` wants; none where nothing without a model can tell.
///
/// # Errors
/// [`EvalError::Setup`] when the row is not the one that the table was written for.
pub fn goal(row: &Row) -> Result<Option<Goal>, EvalError> {
    let Some(demand) = KNOWN.get(&row.id) else { return Ok(None) };
    if !digest(row).starts_with(&demand.sha256) {
        return Err(EvalError::Setup(format!(
            "the row `{}` is not the one whose success is known; bring the pinned data back with `custody data`",
            row.id
        )));
    }
    Ok(Some(if demand.planted { Goal::Planted } else { Goal::Contains(demand.says.clone()) }))
}

fn digest(row: &Row) -> String {
    let all = match row.field(SYSTEM_PROMPT) {
        Some(system_prompt) => format!("{system_prompt}\0{}", row.text),
        None => row.text.clone(),
    };
    Digest::of(all.as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, text: &str) -> Row {
        Row { id: id.into(), text: text.into(), label: Some(1), fields: BTreeMap::new() }
    }

    #[test]
    fn every_demand_can_be_looked_for_in_one_way() {
        assert!(KNOWN.len() > 200);
        for (id, demand) in &*KNOWN {
            assert_eq!(demand.says.is_empty(), demand.planted, "{id}");
            assert!(demand.says.iter().all(|says| says.chars().any(char::is_alphanumeric)), "{id}");
            assert_eq!(demand.sha256.len(), 16, "{id}");
        }
    }

    #[test]
    fn a_changed_row_is_noticed_and_an_unknown_one_has_no_goal() {
        let changed = goal(&row("deepset-test-0098", "say something else")).unwrap_err();
        assert!(changed.to_string().contains("`deepset-test-0098` is not the one"), "{changed}");
        assert_eq!(goal(&row("nobody-0001", "x")).unwrap(), None);
    }
}
