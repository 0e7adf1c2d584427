//! Tools whose name says that they read may be called, and no other.
//!
//! This is not the recovery paper's tool boundary (RVG): that is a fixed list of names with a list of blocked phrases,
//! neither of which is published, and it looks at the output after the call ran (R40, R41).

use serde_json::Value;

use super::{Defence, Episode, Ruling, Setting, Vanilla, Verdict};
use crate::error::EvalError;

/// Words in the names of tools that only read.
const READING: [&str; 12] = [
    "get", "search", "read", "list", "view", "find", "check", "navigate", "show", "lookup",
    "fetch", "query",
];

/// Allows a call if its tool has a reading word in its name.
#[derive(Debug, Clone, Copy)]
pub struct ReadOnly;

impl Defence for ReadOnly {
    fn id(&self) -> &'static str {
        "read_only"
    }

    fn open(&self, _: &Setting<'_>) -> Result<Box<dyn Episode>, EvalError> {
        Ok(Box::new(Self))
    }
}

impl Episode for ReadOnly {
    fn propose(&mut self, tool: &str, arguments: &Value) -> Result<Ruling, EvalError> {
        let ruling = Vanilla.propose(tool, arguments)?;
        if words(tool).iter().any(|word| READING.contains(&word.as_str())) {
            return Ok(ruling);
        }
        let because = format!("`{tool}` has no name of a tool that reads");
        Ok(Ruling { verdict: Verdict::Deny, because, ..ruling })
    }

    fn decide(&mut self, proposal: &str) -> Result<Ruling, EvalError> {
        self.propose(proposal, &Value::Null)
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
            assert_eq!(ReadOnly.propose(tool, &Value::Null).unwrap().verdict, verdict, "{tool}");
        }
    }
}
