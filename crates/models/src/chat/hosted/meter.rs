//! The accumulated usage of a hosted model.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::options::Price;
use crate::chat::Usage;

/// The usage of a model since its creation, over all threads.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UsageTotals {
    /// The number of requests, including retries and failures.
    pub requests: u64,
    /// The number of retries among them.
    pub retries: u64,
    /// Answers without a token count, including stopped ones. They are missing in
    /// the figures below, which are then too low.
    pub uncounted: u64,
    /// The tokens that the server reported.
    pub tokens: Usage,
    /// Their cost, if prices are known.
    pub cost: Option<f64>,
}

/// Accumulates usage.
#[derive(Debug, Default)]
pub(super) struct Meter {
    totals: Mutex<UsageTotals>,
    price: Option<Price>,
}

impl Meter {
    pub(super) fn new(price: Option<Price>) -> Self {
        Self { totals: Mutex::default(), price }
    }

    /// Counts a request.
    pub(super) fn count_request(&self, is_retry: bool) {
        let mut totals = self.locked();
        totals.requests += 1;
        totals.retries += u64::from(is_retry);
    }

    /// Counts an answer, complete or not.
    pub(super) fn count_answer(&self, usage: Option<Usage>) {
        let mut totals = self.locked();
        let Some(usage) = usage else {
            totals.uncounted += 1;
            return;
        };
        // The server's numbers are untrusted.
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

    /// Locks and ignores poisoning; a panic can only lose a count.
    fn locked(&self) -> MutexGuard<'_, UsageTotals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_added_without_overflow_and_priced() {
        let meter = Meter::new(Some(Price { prompt: 2.5, completion: 10.0 }));
        meter.count_request(false);
        meter.count_request(true);
        meter.count_answer(None);
        meter.count_answer(Some(Usage { prompt_tokens: 1_000_000, completion_tokens: 200_000 }));
        let tokens = Usage { prompt_tokens: 1_000_000, completion_tokens: 200_000 };
        let expected =
            UsageTotals { requests: 2, retries: 1, uncounted: 1, tokens, cost: Some(4.5) };
        assert_eq!(meter.totals(), expected);
        meter.count_answer(Some(Usage { prompt_tokens: u64::MAX, completion_tokens: 0 }));
        assert_eq!(meter.totals().tokens.prompt_tokens, u64::MAX);
    }
}
