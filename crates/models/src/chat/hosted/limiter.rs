//! The rate limit of one account, shared by all models, threads and requests.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::secret::Secret;
use crate::sha256::Sha256;

/// The limiters of this process, by a digest of address and key; the key itself is not stored.
///
/// A global, because the limit belongs to the account: a limit per object would not work for a program that creates an
/// object per request (P16).
static LIMITERS: Mutex<BTreeMap<Sha256, Arc<Limiter>>> = Mutex::new(BTreeMap::new());

/// The request schedule of one account.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    /// The time of the next request; `None` before the first.
    next: Mutex<Option<Instant>>,
}

impl Limiter {
    /// The limiter of the account with this base URL and key.
    pub(super) fn shared(base: &str, key: Option<&Secret>, now: Instant) -> Arc<Self> {
        let account = Sha256::of(format!("{base}\n{}", key.map_or("", Secret::expose)).as_bytes());
        let mut limiters = locked(&LIMITERS);
        // An unused limiter whose wait is over has no state and can be dropped.
        limiters.retain(|_, limiter| Arc::strong_count(limiter) > 1 || limiter.is_busy(now));
        Arc::clone(limiters.entry(account).or_default())
    }

    /// Reserves the next slot and returns the wait for it; `None`, without a reservation, if the wait
    /// exceeds `patience`. Requests are spread evenly over the minute, without bursts.
    pub(super) fn reserve(
        &self,
        per_minute: NonZeroU32,
        now: Instant,
        patience: Duration,
    ) -> Option<Duration> {
        let mut next = locked(&self.next);
        let place = next.map_or(now, |next| next.max(now));
        let wait = place.saturating_duration_since(now);
        if wait > patience {
            return None;
        }
        *next = place.checked_add(Duration::from_secs(60) / per_minute.get());
        Some(wait)
    }

    fn is_busy(&self, now: Instant) -> bool {
        locked(&self.next).is_some_and(|next| next > now)
    }
}

/// Locks and ignores poisoning, because a panic leaves no partial state.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::clock;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn requests_are_spread_evenly_and_late_slots_are_not_reserved() {
        let (limiter, start) = (Limiter::default(), clock::now());
        let per_minute = NonZeroU32::new(20).unwrap();
        let cases = [
            (0, 9, Some(0)),
            (0, 9, Some(3)),
            (0, 9, Some(6)),
            (0, 8, None),
            (0, 9, Some(9)),
            (10, 2, Some(2)),
            (60, 0, Some(0)),
        ];
        for (at, patience, expected) in cases {
            let wait = limiter.reserve(per_minute, start + SECOND * at, SECOND * patience);
            assert_eq!(wait, expected.map(|wait| SECOND * wait), "at {at} s");
        }
    }

    #[test]
    fn p16_one_account_has_one_limiter_even_after_its_models_are_dropped() {
        let (key, now) = (Secret::new("p16").unwrap(), clock::now());
        let base = "https://p16.invalid/v1";
        let one = Limiter::shared(base, Some(&key), now);
        assert!(Arc::ptr_eq(&one, &Limiter::shared(base, Some(&key), now)));
        assert!(!Arc::ptr_eq(&one, &Limiter::shared(base, None, now)));
        assert!(!Arc::ptr_eq(&one, &Limiter::shared("https://p16.invalid/v2", Some(&key), now)));
        one.reserve(NonZeroU32::MIN, now, SECOND).unwrap();
        drop(one);
        let again = Limiter::shared(base, Some(&key), now);
        assert_eq!(again.reserve(NonZeroU32::MIN, now, SECOND), None);
    }
}
