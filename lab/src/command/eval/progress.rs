//! How far a suite is: a bar on a terminal, a line a minute everywhere else.

use std::io::IsTerminal;

use custody_lab::stopwatch::Stopwatch;
use indicatif::{ProgressBar, ProgressStyle};

/// Seconds between two lines where there is no terminal.
const QUIET_SECONDS: f64 = 60.0;

/// Shows progress on standard error.
pub(super) enum Progress {
    Bar(ProgressBar),
    Lines(Stopwatch),
}

impl Progress {
    pub(super) fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::Lines(Stopwatch::start());
        }
        let bar = ProgressBar::new(0);
        let template = "{bar:24} {pos}/{len} {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self::Bar(bar)
    }

    /// Before `part` begins, with `done` of `total` behind it.
    pub(super) fn show(&mut self, part: &str, done: usize, total: usize, seconds: Option<f64>) {
        let left = seconds.filter(|_| done < total).map_or(String::new(), left);
        match self {
            Self::Bar(bar) => {
                bar.set_length(total as u64);
                bar.set_position(done as u64);
                bar.set_message(format!("{part}{left}"));
            }
            Self::Lines(since) if since.seconds() >= QUIET_SECONDS => {
                anstream::eprintln!("{done}/{total} {part}{left}");
                *since = Stopwatch::start();
            }
            Self::Lines(_) => {}
        }
    }

    pub(super) fn end(&self) {
        match self {
            Self::Bar(bar) => bar.finish_and_clear(),
            Self::Lines(_) => {}
        }
    }
}

fn left(seconds: f64) -> String {
    if seconds < 90.0 {
        format!(", about {seconds:.0} s left")
    } else {
        format!(", about {:.0} min left", seconds / 60.0)
    }
}
