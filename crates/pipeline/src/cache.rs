//! A cache of stage results.
//!
//! Only results are cached, never errors, and only results without text: a caller must present the same text to get
//! one. The key covers everything that a stage depends on, and the tenant, so that no tenant learns from the cache what
//! another one routed.
//!
//! Source: docs/threats.md P12.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use custody_kernel::route::{RepairResult, StageResult};
use custody_log::Digest;
use custody_runtime::clock::{moment, random};
use lru::LruCache;

/// The largest number of cached results.
const CAPACITY: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
/// How long a result is valid: the model behind a name may change.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);

/// A keyed digest of a stage's input, so that memory does not hold even the plain digest of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key(Digest);

/// The results of this process; the least recently used one is evicted first.
#[derive(Debug)]
pub(crate) struct StageCache {
    secret: [u8; 32],
    results: Mutex<LruCache<Key, (StageResult, Instant)>>,
}

impl Default for StageCache {
    fn default() -> Self {
        Self { secret: random(), results: Mutex::new(LruCache::new(CAPACITY)) }
    }
}

impl StageCache {
    /// The key of an input that consists of `parts`, in this order.
    pub(crate) fn key(&self, parts: &[&str]) -> Key {
        let mut whole = self.secret.to_vec();
        for part in parts {
            whole.extend_from_slice(&Digest::of(part.as_bytes()).0);
        }
        Key(Digest::of(&whole))
    }

    /// The cached result under `key`, if it is still valid.
    pub(crate) fn find(&self, key: Key) -> Option<StageResult> {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        let (result, cached_at) = *results.get(&key)?;
        (moment().saturating_duration_since(cached_at) < MAX_AGE).then_some(result)
    }

    /// Caches `result` if it may be cached.
    pub(crate) fn insert(&self, key: Key, result: StageResult) {
        if is_cacheable(result) {
            let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
            results.put(key, (result, moment()));
        }
    }
}

/// The prefilter and the comparison are fast and need no cache; the result of a repair is a text.
fn is_cacheable(result: StageResult) -> bool {
    match result {
        StageResult::Sandbox(Ok(_)) | StageResult::Repair(Ok(RepairResult::Nothing)) => true,
        StageResult::Repair(Ok(RepairResult::Text))
        | StageResult::Prefilter(_)
        | StageResult::Compare(_)
        | StageResult::Sandbox(Err(_))
        | StageResult::Repair(Err(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use custody_kernel::route::{ComparisonResult, SandboxResult, Screened, Undecided};

    use super::*;

    #[test]
    fn p12_errors_and_texts_are_never_cached() {
        let cache = StageCache::default();
        let key = cache.key(&["an input"]);
        for result in [
            StageResult::Sandbox(Err(Undecided::Failed)),
            StageResult::Sandbox(Err(Undecided::Refused)),
            StageResult::Repair(Err(Undecided::Unclear)),
            StageResult::Repair(Ok(RepairResult::Text)),
            StageResult::Prefilter(Ok(Screened::Clean)),
            StageResult::Compare(Ok(ComparisonResult::Faithful)),
        ] {
            cache.insert(key, result);
            assert_eq!(cache.find(key), None, "{result:?}");
        }
        for result in [
            StageResult::Sandbox(Ok(SandboxResult::Untouched)),
            StageResult::Repair(Ok(RepairResult::Nothing)),
        ] {
            cache.insert(key, result);
            assert_eq!(cache.find(key), Some(result));
        }
    }

    #[test]
    fn p12_the_cache_is_bounded() {
        let cache = StageCache::default();
        let keys: Vec<Key> =
            (0..2 * CAPACITY.get()).map(|number| cache.key(&[&number.to_string()])).collect();
        for key in &keys {
            cache.insert(*key, StageResult::Sandbox(Ok(SandboxResult::Untouched)));
        }
        let cached = keys.iter().filter(|key| cache.find(**key).is_some());
        assert_eq!(cached.count(), CAPACITY.get());
    }

    #[test]
    fn p12_different_inputs_and_different_caches_have_different_keys() {
        let cache = StageCache::default();
        assert_ne!(cache.key(&["ab", "c"]), cache.key(&["a", "bc"]));
        assert_ne!(cache.key(&["a"]), cache.key(&["a", ""]));
        assert_ne!(cache.key(&["a"]), StageCache::default().key(&["a"]));
    }
}
