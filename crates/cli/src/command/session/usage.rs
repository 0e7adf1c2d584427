//! What the models of a session took: requests, bytes, and the tokens that vendors say. Summed from the record.

use std::collections::BTreeMap;

use custody_kernel::record::{Author, Record};
use custody_log::{SessionId, Timestamp};
use custody_runtime::Store;
use custody_runtime::advice::{Advice, ClaimedTokens, ExchangeCoverage, ExchangeUsage};
use serde::Serialize;

use crate::output::{count, size};

/// How many records are read at once.
const CHUNK: u64 = 512;

/// The answered requests of one session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct SessionUsage {
    requests: u64,
    /// Those of whose tokens their vendors said nothing.
    requests_without_tokens: u64,
    request_bytes: u64,
    answer_bytes: u64,
    /// By the vendors' count.
    claimed_tokens: ClaimedTokens,
}

impl SessionUsage {
    /// Adds what one request took.
    pub(super) fn add(&mut self, usage: ExchangeUsage) {
        let ExchangeUsage { request_bytes, answer_bytes, claimed } = usage;
        self.requests += 1;
        self.requests_without_tokens += u64::from(claimed.is_empty());
        self.request_bytes = self.request_bytes.saturating_add(request_bytes);
        self.answer_bytes = self.answer_bytes.saturating_add(answer_bytes);
        let sum = &mut self.claimed_tokens;
        sum.input = added(sum.input, claimed.input);
        sum.cached_input = added(sum.cached_input, claimed.cached_input);
        sum.output = added(sum.output, claimed.output);
    }

    /// As in `3 requests`.
    pub(super) fn requests(&self) -> String {
        count(self.requests, "request")
    }

    /// As in `2.1 kB asked, 14.0 kB answered`.
    pub(super) fn bytes(&self) -> String {
        format!("{} asked, {} answered", size(self.request_bytes), size(self.answer_bytes))
    }

    /// As in `1200 in (800 cached), 340 out`; `-` where no vendor says.
    pub(super) fn tokens(&self) -> String {
        let ClaimedTokens { input, cached_input, output } = self.claimed_tokens;
        if self.claimed_tokens.is_empty() {
            return "-".to_owned();
        }
        let cached = cached_input.filter(|cached| *cached > 0);
        let cached = cached.map_or(String::new(), |cached| format!(" ({cached} cached)"));
        format!("{} in{cached}, {} out", input.unwrap_or(0), output.unwrap_or(0))
    }

    /// What the numbers of tokens leave out.
    pub(super) fn missing(&self) -> Option<String> {
        let missing = self.requests_without_tokens;
        (missing > 0 && !self.claimed_tokens.is_empty())
            .then(|| format!("no vendor's count of {}", count(missing, "request")))
    }
}

/// The sum of two numbers, of which either may be unknown.
fn added(sum: Option<u64>, number: Option<u64>) -> Option<u64> {
    match (sum, number) {
        (Some(sum), Some(number)) => Some(sum.saturating_add(number)),
        (known, None) | (None, known) => known,
    }
}

/// What each session took whose requests were recorded since `since`, from the end of the record backwards.
pub(super) fn since(
    store: &Store,
    since: Timestamp,
) -> anyhow::Result<BTreeMap<SessionId, SessionUsage>> {
    let mut found: BTreeMap<SessionId, SessionUsage> = BTreeMap::new();
    backwards(store, |record| {
        if let (Author::Session(session), Some(exchange)) = (&record.by, exchange_of(record)) {
            // Records of before say that there was a request, and nothing of what it took.
            found.entry(*session).or_default().add(exchange.usage.unwrap_or_default());
        }
        record.at >= since
    })?;
    Ok(found)
}

/// What a record says of an answer of a model.
pub(super) fn exchange_of(record: &Record) -> Option<&ExchangeCoverage> {
    record.advice.iter().find_map(|advice| match advice {
        Advice::Exchange(exchange) => Some(exchange),
        Advice::Screening(_)
        | Advice::NotScreened(_)
        | Advice::Anomaly(_)
        | Advice::StageCost(_)
        | Advice::DryRun(_)
        | Advice::Sentence(_) => None,
    })
}

/// Shows `look` one record after the other, the last first, as long as it wants more.
pub(super) fn backwards(
    store: &Store,
    mut look: impl FnMut(&Record) -> bool,
) -> anyhow::Result<()> {
    let (mut end, _) = store.root()?;
    while end > 0 {
        let start = end.saturating_sub(CHUNK);
        if !store.records(start..end)?.iter().rev().all(&mut look) {
            return Ok(());
        }
        end = start;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_vendor_says_is_missing_and_not_nothing() {
        let mut usage = SessionUsage::default();
        let exchange =
            ExchangeUsage { request_bytes: 2_100, answer_bytes: 9, ..Default::default() };
        usage.add(exchange);
        assert_eq!((usage.tokens().as_str(), usage.missing()), ("-", None));
        let claimed =
            ClaimedTokens { input: Some(1_200), cached_input: Some(800), output: Some(340) };
        usage.add(ExchangeUsage { claimed, ..exchange });
        assert_eq!(usage.tokens(), "1200 in (800 cached), 340 out");
        assert_eq!(usage.missing().as_deref(), Some("no vendor's count of 1 request"));
        assert_eq!(usage.bytes(), "4.2 kB asked, 18 B answered");
        assert_eq!(usage.requests(), "2 requests");
    }
}
