//! How many memory changes one principal may make in one namespace, and how many questions it may leave waiting.
//!
//! Each principal has a window of its own in each namespace, so a flood locks out nobody but the
//! flooder (M13). The clock is an argument and never runs backwards within a store.

use std::collections::VecDeque;

use custody_log::Timestamp;
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

/// When one principal last changed one namespace.
#[derive(Debug, Clone, Default)]
pub struct RateWindow {
    stamps: VecDeque<Timestamp>,
}

impl RateWindow {
    /// When the next change is allowed, if not now.
    pub(crate) fn wait_until(&self, limits: &Limits, now: Timestamp) -> Option<Timestamp> {
        let changes = usize::try_from(limits.changes?).unwrap_or(usize::MAX);
        // The stamps are in order, so only the one `changes` back can hold this change up.
        let oldest_that_counts = match self.stamps.len().checked_sub(changes) {
            None => return None,
            Some(index) => self.stamps.get(index),
        };
        match oldest_that_counts {
            None => Some(now.plus_ms(limits.window_ms)),
            Some(stamp) => {
                let free = stamp.plus_ms(limits.window_ms);
                (free > now).then_some(free)
            }
        }
    }

    /// Counts a change at `now`, forgetting those that no longer matter.
    pub(crate) fn count(&mut self, limits: &Limits, now: Timestamp) {
        let Some(changes) = limits.changes else { return };
        while self.stamps.front().is_some_and(|stamp| stamp.plus_ms(limits.window_ms) <= now) {
            self.stamps.pop_front();
        }
        self.stamps.push_back(now);
        while self.stamps.len() > usize::try_from(changes).unwrap_or(usize::MAX).max(1) {
            self.stamps.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_slides_and_zero_means_never() {
        let limits = Limits { changes: Some(2), window_ms: 100, ..Limits::default() };
        let mut window = RateWindow::default();
        for at in [0, 50] {
            assert_eq!(window.wait_until(&limits, Timestamp(at)), None);
            window.count(&limits, Timestamp(at));
        }
        assert_eq!(window.wait_until(&limits, Timestamp(99)), Some(Timestamp(100)));
        assert_eq!(window.wait_until(&limits, Timestamp(100)), None);
        let never = Limits { changes: Some(0), ..limits };
        assert!(RateWindow::default().wait_until(&never, Timestamp(0)).is_some());
        let free = Limits { changes: None, ..limits };
        assert_eq!(window.wait_until(&free, Timestamp(51)), None);
    }
}
