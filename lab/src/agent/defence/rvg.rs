//! The papers' tool boundary: a flat allowlist of tools, asked before the call (R40) and by its name alone.

use serde_json::Value;

use super::{Defence, Episode, Ruling, Setting, Vanilla, Verdict};
use crate::error::EvalError;

/// What the name of a tool that only reads begins with, or holds as a word.
const READING: [&str; 12] = [
    "get", "search", "read", "list", "view", "find", "check", "navigate", "show", "lookup",
    "fetch", "query",
];

/// Reading tools may be called; no other may.
#[derive(Debug, Clone, Copy)]
pub struct Rvg;

impl Defence for Rvg {
    fn id(&self) -> &'static str {
        "rvg"
    }

    fn open(&self, _: &Setting<'_>) -> Result<Box<dyn Episode>, EvalError> {
        Ok(Box::new(Self))
    }
}

impl Episode for Rvg {
    fn proposes(&mut self, tool: &str, arguments: &Value) -> Result<Ruling, EvalError> {
        let ruling = Vanilla.proposes(tool, arguments)?;
        if words(tool).iter().any(|word| READING.contains(&word.as_str())) {
            return Ok(ruling);
        }
        let because = format!("`{tool}` is not on the list of allowed tools");
        Ok(Ruling { verdict: Verdict::Deny, because, ..ruling })
    }

    fn decides(&mut self, proposal: &str) -> Result<Ruling, EvalError> {
        self.proposes(proposal, &Value::Null)
    }
}

/// The words of a name in snake or camel case, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in name.chars() {
        if !c.is_alphanumeric() || c.is_uppercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_whether_a_tool_reads() {
        for (tool, verdict) in [
            ("get_channels", Verdict::Allow),
            ("GitHubGetRepositoryDetails", Verdict::Allow),
            ("GmailSendEmail", Verdict::Deny),
            ("forget_everything", Verdict::Deny),
        ] {
            assert_eq!(Rvg.proposes(tool, &Value::Null).unwrap().verdict, verdict, "{tool}");
        }
    }
}
