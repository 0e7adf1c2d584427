//! Clocks, sleeping and randomness; no other module of the client uses them.

use std::time::{Duration, Instant, SystemTime};

/// The deadline of one answer, including all attempts and delays.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    start: Instant,
    limit: Duration,
}

impl Deadline {
    /// The deadline `limit` after `start`.
    pub(super) fn new(start: Instant, limit: Duration) -> Self {
        Self { start, limit }
    }

    /// The remaining time.
    pub(super) fn left(&self, now: Instant) -> Duration {
        self.limit.saturating_sub(now.saturating_duration_since(self.start))
    }
}

/// The monotonic time.
pub(super) fn now() -> Instant {
    Instant::now()
}

/// The calendar time.
pub(super) fn date() -> SystemTime {
    SystemTime::now()
}

/// Sleeps.
pub(super) fn sleep(wait: Duration) {
    std::thread::sleep(wait);
}

/// A random number. If the operating system has none it is the maximum, which makes every delay
/// the longest one.
pub(super) fn random() -> u64 {
    getrandom::u64().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_falls_to_zero_and_never_grows() {
        let earlier = now();
        let start = earlier + Duration::from_secs(10);
        let deadline = Deadline::new(start, Duration::from_secs(5));
        let cases = [(0, 5), (10, 5), (12, 3), (15, 0), (99, 0)];
        for (at, left) in cases {
            let at = earlier + Duration::from_secs(at);
            assert_eq!(deadline.left(at), Duration::from_secs(left));
        }
    }
}
