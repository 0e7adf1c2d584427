//! Time that work takes: the one place where the suites read the machine's clock.

use std::time::Instant;

/// Runs from its start on.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// What `work` gives, and the seconds it took.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let watch = Stopwatch::start();
    let found = work();
    (found, watch.seconds())
}
