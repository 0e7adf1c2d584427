//! The edge of the client: the one place of it that reads clocks, sleeps and draws randomness.

use std::time::{Duration, Instant, SystemTime};

/// How long there is for one answer, over all attempts, waits and pauses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    start: Instant,
    limit: Duration,
}

impl Deadline {
    /// `limit` from `start` on.
    pub(super) fn new(start: Instant, limit: Duration) -> Self {
        Self { start, limit }
    }

    /// What is left of it.
    pub(super) fn left(&self, now: Instant) -> Duration {
        self.limit.saturating_sub(now.saturating_duration_since(self.start))
    }
}

/// Now, to measure from.
pub(super) fn now() -> Instant {
    Instant::now()
}

/// Now, as calendars say it.
pub(super) fn date() -> SystemTime {
    SystemTime::now()
}

/// Does nothing for so long.
pub(super) fn sleep(wait: Duration) {
    std::thread::sleep(wait);
}

/// A random number. Where the operating system has none to give it is the highest, which makes every wait the
/// longest one: slower, never a burden.
pub(super) fn random() -> u64 {
    getrandom::u64().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_shrinks_to_nothing_and_a_clock_that_goes_back_gives_no_more() {
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
