//! A tool filter: the agent gets only the tools that the user's task needs.
//!
//! A perfect one. Products let a model guess; what a guess can reach at best is measured here.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Defence, Episode, Ruling, Setting, Vanilla, Verdict};
use crate::error::EvalError;

/// Knows what the user's task needs.
#[derive(Debug, Clone, Copy)]
pub struct ToolFilter;

impl Defence for ToolFilter {
    fn id(&self) -> &'static str {
        "tool_filter"
    }

    fn open(&self, setting: &Setting<'_>) -> Result<Box<dyn Episode>, EvalError> {
        Ok(Box::new(Filtered { wanted: setting.wanted.iter().cloned().collect() }))
    }
}

struct Filtered {
    wanted: BTreeSet<String>,
}

impl Episode for Filtered {
    fn propose(&mut self, tool: &str, arguments: &Value) -> Result<Ruling, EvalError> {
        let ruling = Vanilla.propose(tool, arguments)?;
        if self.wanted.contains(tool) {
            return Ok(ruling);
        }
        let because = format!("there is no tool `{tool}`");
        Ok(Ruling { verdict: Verdict::Deny, because, ..ruling })
    }

    fn decide(&mut self, proposal: &str) -> Result<Ruling, EvalError> {
        self.propose(proposal, &Value::Null)
    }
}
