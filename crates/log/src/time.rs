//! Moments.

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01 UTC. Always an argument: nothing below the edge reads a clock.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// This moment plus `ms` milliseconds, saturating.
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}
