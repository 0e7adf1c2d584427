//! One line of JSON on standard error for each exchange, and none of its contents.

use std::io::Write as _;

use custody_gateway::proxy::Outcome;
use custody_gateway::wire::Dialect;
use serde_json::{Value, json};

/// Something to know of the service itself.
pub(crate) fn note(text: &str) {
    write(&json!({ "note": text }));
}

/// An exchange that ended, or did not begin.
pub(crate) struct Line<'a> {
    pub(crate) connection: &'a str,
    pub(crate) dialect: Dialect,
    pub(crate) status: u16,
    pub(crate) outcome: Option<&'a Outcome>,
    pub(crate) error: Option<String>,
}

impl Line<'_> {
    pub(crate) fn write(&self) {
        let mut line = json!({
            "connection": self.connection,
            "wire": self.dialect.as_str(),
            "status": self.status,
        });
        if let Some(outcome) = self.outcome {
            line["coverage"] = json!(outcome.coverage);
            line["undecided"] = json!(outcome.undecided);
            line["calls"] = json!({ "passed": outcome.passed, "removed": outcome.removed });
        }
        if let Some(error) = &self.error {
            line["error"] = Value::from(error.as_str());
        }
        write(&line);
    }
}

fn write(line: &Value) {
    // Without standard error there is nowhere to write.
    drop(writeln!(std::io::stderr().lock(), "{line}"));
}
