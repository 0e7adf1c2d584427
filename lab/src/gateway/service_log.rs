//! What the log of `custody serve` says that exchanges took.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::error::EvalError;
use crate::stopwatch::Stopwatch;

/// How long a line may come after the answer, in seconds.
const LATEST_SECONDS: f64 = 20.0;

/// The log of a running service, read on from where it was read last.
pub(super) struct ServiceLog {
    path: PathBuf,
    read: u64,
}

/// The times of one exchange, in microseconds.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct LoggedTimes {
    total: f64,
    pub(super) upstream: f64,
    pub(super) commit: f64,
}

/// A line of an exchange. Other lines have no times.
#[derive(Debug, Deserialize)]
struct LoggedExchange {
    us: LoggedTimes,
    coverage: Option<String>,
    error: Option<String>,
}

impl LoggedTimes {
    /// What was neither the vendor's nor a commit's.
    pub(super) fn inside(&self) -> f64 {
        (self.total - self.upstream - self.commit).max(0.0)
    }
}

impl ServiceLog {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, read: 0 }
    }

    /// The next `count` exchanges, each of which was decided. Waits for those that are not written yet.
    pub(super) fn next(&mut self, count: usize) -> Result<Vec<LoggedTimes>, EvalError> {
        let waiting = Stopwatch::start();
        loop {
            let mut file = File::open(&self.path).map_err(EvalError::file(&self.path))?;
            let mut text = String::new();
            file.seek(SeekFrom::Start(self.read))
                .and_then(|_| file.read_to_string(&mut text))
                .map_err(EvalError::file(&self.path))?;
            let whole = text.rfind('\n').map_or("", |end| text.get(..=end).unwrap_or_default());
            let times = exchanges(whole)?;
            if times.len() >= count {
                self.read += whole.len() as u64;
                return Ok(times);
            }
            if waiting.seconds() > LATEST_SECONDS {
                return Err(EvalError::Setup(format!(
                    "the log of `custody serve` has {} exchanges where {count} were made",
                    times.len()
                )));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn exchanges(text: &str) -> Result<Vec<LoggedTimes>, EvalError> {
    let lines = text.lines().filter_map(|line| serde_json::from_str::<LoggedExchange>(line).ok());
    lines
        .map(|line| match (line.error, line.coverage.as_deref()) {
            (None, None | Some("checked")) => Ok(line.us),
            (error, coverage) => Err(EvalError::Setup(format!(
                "an exchange was not decided ({}): {}",
                coverage.unwrap_or("no answer"),
                error.unwrap_or_default()
            ))),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_inside_is_what_neither_the_vendor_nor_a_commit_took() {
        let line =
            "{\"us\":{\"total\":100,\"upstream\":30,\"commit\":50},\"coverage\":\"checked\"}\n";
        let note = "{\"note\":\"x\"}\nListening on http://127.0.0.1:1.\n";
        let times = exchanges(&format!("{note}{line}{line}")).unwrap();
        assert_eq!(times.len(), 2);
        assert_eq!(times[0].inside(), 20.0);
        let failed = line.replace("checked", "partly");
        assert!(exchanges(&failed).unwrap_err().to_string().contains("not decided (partly)"));
    }
}
