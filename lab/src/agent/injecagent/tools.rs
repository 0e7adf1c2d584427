//! The tools of InjecAgent: which parameters each requires.

use std::collections::BTreeMap;
use std::path::Path;

use custody_log::Digest;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::data::DataError;
use crate::error::EvalError;
use crate::report::DataFile;

const FILE: &str = "injecagent/tools.json";

/// A parameter that must be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Required {
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    String,
    Number,
    Integer,
    Boolean,
    Array,
    Object,
}

impl Kind {
    /// `word` as a value of this type.
    pub(super) fn value(self, word: String) -> Value {
        match self {
            Self::String => Value::String(word),
            Self::Number | Self::Integer => {
                let digits: String = word.chars().filter(char::is_ascii_digit).take(9).collect();
                json!(digits.parse::<u64>().unwrap_or(1))
            }
            Self::Boolean => Value::Bool(true),
            Self::Array => json!([word]),
            Self::Object => json!({ "value": word }),
        }
    }
}

#[derive(Deserialize)]
struct Toolkit {
    name_for_model: String,
    tools: Vec<Tool>,
}

#[derive(Deserialize)]
struct Tool {
    name: String,
    parameters: Vec<Parameter>,
}

#[derive(Deserialize)]
struct Parameter {
    name: String,
    #[serde(rename = "type")]
    kind: Kind,
    /// Some say nothing; then it is not.
    #[serde(default)]
    required: bool,
}

/// The required parameters of every tool, by the tool's full name.
pub(super) type Tools = BTreeMap<String, Vec<Required>>;

/// Reads the required parameters of all tools.
pub(super) fn required_parameters(data: &Path) -> Result<(Tools, Vec<DataFile>), EvalError> {
    let path = data.join(FILE);
    let bytes = std::fs::read(&path).map_err(EvalError::file(&path))?;
    let toolkits: Vec<Toolkit> = serde_json::from_slice(&bytes)
        .map_err(|cause| DataError::file(&path, format!("not a list of toolkits: {cause}")))?;
    let mut tools = BTreeMap::new();
    for toolkit in toolkits {
        for Tool { name, parameters } in toolkit.tools {
            let required = parameters.into_iter().filter(|parameter| parameter.required);
            let required =
                required.map(|Parameter { name, kind, .. }| Required { name, kind }).collect();
            tools.insert(format!("{}{name}", toolkit.name_for_model), required);
        }
    }
    let (sha256, rows) = (Digest::of(&bytes).to_string(), tools.len() as u64);
    Ok((tools, vec![DataFile { file: FILE.to_owned(), sha256, rows }]))
}
