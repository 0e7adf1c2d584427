//! What a witness's checkpoints say about the log that is there.

use custody_log::{Checkpoint, Hash};

use crate::client::LatestError;
use crate::state::LatestCosigned;

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

/// Why the log could not be compared with what a witness saw. It is then *not checked*, which is not the same as fine.
#[derive(Debug, thiserror::Error)]
pub enum WitnessDoubt {
    /// The witness gave no answer that counts.
    #[error(transparent)]
    NoAnswer(#[from] LatestError),
    /// The witness saw nothing of this log.
    #[error("the witness has cosigned nothing of this log")]
    Nothing,
    /// The witness cosigned a larger log than it says it saw.
    #[error("the witness once cosigned `{cosigned}` records, and now knows of `{latest}`")]
    Forgetful {
        /// The size in a cosignature of the witness's that is kept.
        cosigned: u64,
        /// The size that it gives now.
        latest: u64,
    },
}

impl WitnessVerdict {
    /// Compares a log of `size` records with what a witness cosigned. `root_at` gives the log's root over its first
    /// records, for any number up to `size`; where it gives none, the log counts as another.
    pub fn of(witnessed: &Checkpoint, size: u64, root_at: impl Fn(u64) -> Option<Hash>) -> Self {
        let seen = witnessed.size;
        if seen > size {
            Self::RolledBack { witnessed: seen, size }
        } else if root_at(seen) == Some(witnessed.root) {
            Self::Extends { witnessed: seen, size }
        } else {
            Self::Forked { witnessed: seen, size }
        }
    }

    /// Compares a log with what its witness just answered, and with the cosignature of the same witness that is kept
    /// beside the log, if there is one.
    ///
    /// A kept cosignature can only tell against the log: whoever rolls a log back brings the older one with it.
    ///
    /// # Errors
    /// [`WitnessDoubt`] when the answer shows nothing, or the witness contradicts itself.
    pub fn of_answer(
        latest: Option<&LatestCosigned>,
        kept: Option<&LatestCosigned>,
        size: u64,
        root_at: impl Fn(u64) -> Option<Hash>,
    ) -> Result<Self, WitnessDoubt> {
        let (latest, kept) = (latest.map(checkpoint), kept.map(checkpoint));
        if let Some(kept) = kept {
            let verdict = Self::of(kept, size, &root_at);
            if !verdict.extends() {
                return Ok(verdict);
            }
            let latest = latest.map_or(0, |latest| latest.size);
            if latest < kept.size {
                return Err(WitnessDoubt::Forgetful { cosigned: kept.size, latest });
            }
        }
        Ok(Self::of(latest.ok_or(WitnessDoubt::Nothing)?, size, root_at))
    }

    /// Whether the log holds all that the witness saw.
    pub const fn extends(self) -> bool {
        matches!(self, Self::Extends { .. })
    }
}

const fn checkpoint(cosigned: &LatestCosigned) -> &Checkpoint {
    &cosigned.cosigned.checkpoint
}
