//! The server's clocks; no other module of this crate reads one.

use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The moment at which a connection has to be over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline(Option<Instant>);

impl Deadline {
    /// The deadline `limit` from now; none when that is further off than the clock can say.
    pub(super) fn after(limit: Duration) -> Self {
        Self(Instant::now().checked_add(limit))
    }

    /// The time that is left, more than nothing.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] when nothing is left.
    pub(super) fn left(self) -> io::Result<Duration> {
        let Some(end) = self.0 else { return Ok(Duration::MAX) };
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

/// Seconds since 1970-01-01 UTC; 0, which no cosignature may say, when the clock stands before.
pub(super) fn unix_time_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}
