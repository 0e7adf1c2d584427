//! What a witness's latest checkpoint says about the log that is there.

use custody_log::{Checkpoint, Hash};

/// The log that is there, beside the largest that a witness saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WitnessVerdict {
    /// The log holds what the witness saw, and perhaps more.
    Extends {
        /// How many records the witness saw.
        witnessed: u64,
        /// How many there are.
        size: u64,
    },
    /// The witness saw a larger log.
    RolledBack {
        /// How many records the witness saw.
        witnessed: u64,
        /// How many there are.
        size: u64,
    },
    /// The first records are others than those that the witness saw.
    Forked {
        /// How many records the witness saw.
        witnessed: u64,
        /// How many there are.
        size: u64,
    },
}

impl WitnessVerdict {
    /// Compares a log of `size` records with what a witness cosigned. `root_at` gives the log's root over its first
    /// records, for any number up to `size`; where it gives none, the log counts as another.
    pub fn of(
        witnessed: &Checkpoint,
        size: u64,
        root_at: impl FnOnce(u64) -> Option<Hash>,
    ) -> Self {
        let seen = witnessed.size;
        if seen > size {
            Self::RolledBack { witnessed: seen, size }
        } else if root_at(seen) == Some(witnessed.root) {
            Self::Extends { witnessed: seen, size }
        } else {
            Self::Forked { witnessed: seen, size }
        }
    }
}
