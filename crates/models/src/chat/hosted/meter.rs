//! What a hosted model has cost so far.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::options::Price;
use crate::chat::Usage;

/// Everything that was asked of a model since it was made, by all threads.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UsageTotals {
    /// Requests, retries included, whether or not anybody was there.
    pub requests: u64,
    /// How many of them were retries.
    pub retries: u64,
    /// Answers that came without a count of their tokens, among them the broken off ones. What they cost is not in
    /// the figures below, which are then too low.
    pub uncounted: u64,
    /// Tokens, as the server counted them.
    pub tokens: Usage,
    /// What they cost, where prices are known.
    pub cost: Option<f64>,
}

/// Counts.
#[derive(Debug, Default)]
pub(super) struct Meter {
    totals: Mutex<UsageTotals>,
    price: Option<Price>,
}

impl Meter {
    pub(super) fn new(price: Option<Price>) -> Self {
        Self { totals: Mutex::default(), price }
    }

    /// A request goes out.
    pub(super) fn asked(&self, is_retry: bool) {
        let mut totals = self.locked();
        totals.requests += 1;
        totals.retries += u64::from(is_retry);
    }

    /// An answer came, whole or not.
    pub(super) fn answered(&self, usage: Option<Usage>) {
        let mut totals = self.locked();
        let Some(usage) = usage else {
            totals.uncounted += 1;
            return;
        };
        // The server says these numbers, and may say anything.
        let tokens = &mut totals.tokens;
        tokens.prompt_tokens = tokens.prompt_tokens.saturating_add(usage.prompt_tokens);
        tokens.completion_tokens = tokens.completion_tokens.saturating_add(usage.completion_tokens);
    }

    pub(super) fn totals(&self) -> UsageTotals {
        let totals = *self.locked();
        let cost = self.price.map(|price| {
            let Usage { prompt_tokens, completion_tokens } = totals.tokens;
            (prompt_tokens as f64 * price.prompt + completion_tokens as f64 * price.completion)
                / 1e6
        });
        UsageTotals { cost, ..totals }
    }

    /// A thread that panics while it holds the lock leaves at worst a number uncounted.
    fn locked(&self) -> MutexGuard<'_, UsageTotals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_added_up_without_overflow_and_priced() {
        let meter = Meter::new(Some(Price { prompt: 2.5, completion: 10.0 }));
        meter.asked(false);
        meter.asked(true);
        meter.answered(None);
        meter.answered(Some(Usage { prompt_tokens: 1_000_000, completion_tokens: 200_000 }));
        let tokens = Usage { prompt_tokens: 1_000_000, completion_tokens: 200_000 };
        let expected =
            UsageTotals { requests: 2, retries: 1, uncounted: 1, tokens, cost: Some(4.5) };
        assert_eq!(meter.totals(), expected);
        meter.answered(Some(Usage { prompt_tokens: u64::MAX, completion_tokens: 0 }));
        assert_eq!(meter.totals().tokens.prompt_tokens, u64::MAX);
    }
}
