//! One line of JSON on standard error for each exchange, and none of its contents.

use std::io::Write as _;

use custody_gateway::proxy::Outcome;
use custody_runtime::advice::ExchangeUsage;
use serde_json::{Value, json};

use crate::times::Times;

/// Something to know of the service itself.
pub(crate) fn note(text: &str) {
    write(&json!({ "note": text }));
}

/// An exchange that ended, or did not begin.
pub(crate) struct Line<'a> {
    pub(crate) connection: &'a str,
    /// How its client speaks.
    pub(crate) wire: &'a str,
    pub(crate) status: u16,
    pub(crate) times: Times,
    pub(crate) outcome: Option<&'a Outcome>,
    pub(crate) error: Option<String>,
}

impl Line<'_> {
    pub(crate) fn write(&self) {
        write(&self.to_json());
    }

    fn to_json(&self) -> Value {
        let mut line = json!({
            "connection": self.connection,
            "wire": self.wire,
            "status": self.status,
            "us": self.times.to_json(),
        });
        if let Some(outcome) = self.outcome {
            line["coverage"] = json!(outcome.coverage);
            line["undecided"] = json!(outcome.undecided);
            line["calls"] = json!({ "passed": outcome.passed, "removed": outcome.removed });
            let ExchangeUsage { request_bytes, answer_bytes, claimed } = outcome.usage;
            line["bytes"] = json!({ "request": request_bytes, "answer": answer_bytes });
            if !claimed.is_empty() {
                // The vendor's word, which nobody here can check.
                line["claimed_tokens"] = json!(claimed);
            }
        }
        if let Some(error) = &self.error {
            line["error"] = Value::from(error.as_str());
        }
        line
    }
}

fn write(line: &Value) {
    // At once: nothing buffers standard error, and each piece of a line would be a system call.
    let line = format!("{line}\n");
    // Without standard error there is nowhere to write.
    drop(std::io::stderr().lock().write_all(line.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_times_of_an_exchange_in_microseconds() {
        let line = Line {
            connection: "ada",
            wire: "openai-chat",
            status: 200,
            times: Times::begin(),
            outcome: None,
            error: None,
        };
        let line = line.to_json();
        for name in ["total", "upstream", "commit"] {
            assert!(line["us"][name].is_u64(), "{name} in {line}");
        }
        assert_eq!((&line["us"]["upstream"], &line["us"]["commit"]), (&json!(0), &json!(0)));
    }
}
