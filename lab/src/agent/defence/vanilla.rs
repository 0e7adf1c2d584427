//! No defence: every call runs, everything is read.

use serde_json::Value;

use super::{Defence, Episode, Ruling, Setting, Verdict};
use crate::error::EvalError;

/// What an agent does by itself.
#[derive(Debug, Clone, Copy)]
pub struct Vanilla;

impl Defence for Vanilla {
    fn id(&self) -> &'static str {
        "vanilla"
    }

    fn open(&self, _: &Setting<'_>) -> Result<Box<dyn Episode>, EvalError> {
        Ok(Box::new(Self))
    }
}

impl Episode for Vanilla {
    fn propose(&mut self, tool: &str, arguments: &Value) -> Result<Ruling, EvalError> {
        Ok(Ruling {
            verdict: Verdict::Allow,
            proposal: tool.to_owned(),
            tool: tool.to_owned(),
            arguments: arguments.clone(),
            because: String::new(),
            again: false,
        })
    }

    fn decide(&mut self, proposal: &str) -> Result<Ruling, EvalError> {
        self.propose(proposal, &Value::Null)
    }
}
