//! The limits of a store.

use serde::{Deserialize, Serialize};

/// The limits of a store, kept in its record and changed by an owner only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Accepted or queued changes per window; `None` for no limit.
    pub changes: Option<u32>,
    /// Length of the window in milliseconds.
    pub window_ms: u64,
    /// How long a queued proposal may wait for a reviewer, in milliseconds.
    pub proposal_ttl_ms: u64,
    /// How many bits one session may take out of outputs that it does not read (closed-schema extraction).
    #[serde(default = "default_extracted_bits")]
    pub extracted_bits: u32,
    /// How many tool calls of one principal may wait for a human at once, over all its sessions.
    #[serde(default = "default_waiting", skip_serializing_if = "is_default_waiting")]
    pub waiting_calls: u32,
    /// How many memory changes of one principal may wait for a human at once, over all its sessions.
    #[serde(default = "default_waiting", skip_serializing_if = "is_default_waiting")]
    pub waiting_changes: u32,
}

/// More than anybody reviews in one go, and few enough that the questions of others are found among them.
const fn default_waiting() -> u32 {
    64
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_default_waiting(limit: &u32) -> bool {
    *limit == default_waiting()
}

/// A dozen amounts, or a hundred words of short lists: enough for a task, and no page of instructions.
const fn default_extracted_bits() -> u32 {
    256
}

impl Limits {
    /// No limit on changes.
    pub const UNLIMITED: Self = Self { changes: None, ..Self::STANDARD };

    const STANDARD: Self = Self {
        changes: Some(10),
        window_ms: 60_000,
        proposal_ttl_ms: 86_400_000,
        extracted_bits: default_extracted_bits(),
        waiting_calls: default_waiting(),
        waiting_changes: default_waiting(),
    };
}

impl Default for Limits {
    /// 10 changes in 60 s (docs/papers.md §2.4); a proposal waits a day, 64 calls and 64 changes at once.
    fn default() -> Self {
        Self::STANDARD
    }
}
