//! The edge: the one place that reads the clock and draws randomness.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use custody_log::Timestamp;

/// Where a store gets its time from.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The machine's clock.
    #[default]
    System,
    /// A clock that stands still until it is set, in milliseconds. For tests and measurements.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// A manual clock that shows `ms`.
    pub fn manual(ms: u64) -> Self {
        Self::Manual(Arc::new(AtomicU64::new(ms)))
    }

    /// Moves a manual clock forward. Does nothing to the machine's.
    pub fn advance(&self, ms: u64) {
        if let Self::Manual(now) = self {
            now.fetch_add(ms, Ordering::Relaxed);
        }
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::Manual(now) => Timestamp(now.load(Ordering::Relaxed)),
            Self::System => {
                // A clock before 1970 is set back to it; the store never runs backwards anyway.
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
            }
        }
    }
}

/// A moment to measure a duration from. No decision depends on it.
pub fn moment() -> Instant {
    Instant::now()
}

/// Fresh bytes from the operating system.
///
/// # Panics
/// When the operating system has no randomness to give. Nothing safe can be done then.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives randomness");
    bytes
}
