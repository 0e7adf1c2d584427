//! The intents of AgentDojo's user tasks, and how much they leave to choose.
//!
//! The file names values by where they stand in a prompt, and is checked and resolved by the package
//! (`integrations/agentdojo/custody_agentdojo/intents.py`). Here its digest is taken, and its breadth counted.

use std::collections::BTreeMap;

use custody_log::Digest;
use serde::Deserialize;
use serde_json::Value;

use crate::error::EvalError;
use crate::report::{Figure, FigureIds};

/// The file, which was written from the prompts and the tools' schemas and manifests alone.
pub const INTENTS: &str = include_str!("../../../../integrations/agentdojo/intents.json");

/// By suite and user task.
type File = BTreeMap<String, BTreeMap<String, Vec<Declared>>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Declared {
    #[serde(rename = "tool")]
    _tool: String,
    #[serde(default, rename = "count")]
    _count: Option<u32>,
    #[serde(default)]
    sinks: BTreeMap<String, Value>,
}

/// How much the intents leave to whoever writes what is read: how many there are, how many of them bind no sink, and
/// how many sinks may have more than one value.
///
/// # Errors
/// When the file cannot be read.
pub fn breadth(defence: &str) -> Result<Vec<Figure>, EvalError> {
    breadth_of(INTENTS, defence)
}

fn breadth_of(text: &str, defence: &str) -> Result<Vec<Figure>, EvalError> {
    let file: File = serde_json::from_str(text)
        .map_err(|error| EvalError::Setup(format!("the intents of AgentDojo's tasks: {error}")))?;
    let ids = FigureIds::new(format!("agentdojo.{defence}.intents"));
    let tasks: usize = file.values().map(BTreeMap::len).sum();
    let all: Vec<&Declared> = file.values().flat_map(BTreeMap::values).flatten().collect();
    let sinks: Vec<&Value> = all.iter().flat_map(|intent| intent.sinks.values()).collect();
    let unbound = all.iter().filter(|intent| intent.sinks.is_empty());
    let digest = Digest::of(text.as_bytes());
    let declared = ids.count("declared", all.len() as u64, "intents");
    Ok(vec![
        ids.count("tasks", tasks as u64, "tasks"),
        Figure { why: Some(format!("SHA-256 of the file of intents: {digest}")), ..declared },
        ids.count("unbound", unbound.count() as u64, "intents"),
        ids.count("sinks", sinks.len() as u64, "sinks"),
        ids.count("sinks_with_a_choice", count(&sinks, has_choice), "sinks"),
        ids.count("prefixes", count(&sinks, |sink| sink.get("under").is_some()), "sinks"),
        ids.count("wildcards", count(&sinks, |sink| sink.get("any").is_some()), "sinks"),
    ])
}

fn count(sinks: &[&Value], is: fn(&Value) -> bool) -> u64 {
    sinks.iter().filter(|sink| is(sink)).count() as u64
}

/// Whether a sink may have more than one value.
fn has_choice(sink: &Value) -> bool {
    let values = sink.get("any_of_spans").unwrap_or(sink).as_array();
    let is_open = ["under", "any", "at_most"].iter().any(|shape| sink.get(shape).is_some());
    is_open || values.is_some_and(|values| values.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_of_leaving_a_choice_is_counted() {
        let file = r#"{"bank": {"t1": [
            {"tool": "pay", "sinks": {"to": {"span": [0, 3]}, "amount": {"at_most": 5, "currency": "EUR"}}},
            {"tool": "note"},
            {"tool": "tag", "count": 2, "sinks": {"id": {"any": true}, "to": [{"span": [0, 3]}]}}
        ], "t2": [{"tool": "copy", "sinks": {"to": {"any_of_spans": [[0, 3], [4, 9]]}, "from": {"under": "/a"},
            "cc": null}}]}}"#;
        let figures = breadth_of(file, "x").unwrap();
        let counts: Vec<Option<f64>> = figures.iter().map(|figure| figure.value).collect();
        assert_eq!(counts, [2.0, 4.0, 1.0, 7.0, 4.0, 1.0, 1.0].map(Some));
        assert!(figures[1].why.as_ref().unwrap().starts_with("SHA-256"));
    }

    #[test]
    fn the_file_that_ships_can_be_read() {
        assert!(breadth("custody_intents").is_ok());
    }
}
