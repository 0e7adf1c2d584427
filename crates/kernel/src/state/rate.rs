//! How many memory changes one principal may make in one namespace, and how many questions it may leave waiting.
//!
//! Each principal has a window of its own in each namespace, so a flood locks out nobody but the
//! flooder (M13). The clock is an argument and never runs backwards within a store.

use std::collections::VecDeque;

use custody_log::Timestamp;

use crate::memory::rate::Limits;

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
