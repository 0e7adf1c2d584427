//! Verdicts that were given before: what a stage said of a text need not be asked again at once.
//!
//! Only answers are kept, never errors, and only answers that hold no text: whoever asks again must bring the same text
//! to learn anything. What decides what a stage says is part of the key, the tenant too, so that nobody learns from the
//! cache what others asked.
//!
//! Source: docs/threats.md P12.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use custody_kernel::route::{RepairResult, StageResult};
use custody_log::Digest;
use custody_runtime::clock::{moment, random};
use lru::LruCache;

/// How many verdicts are kept.
const CAPACITY: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
/// How long one is believed: what stands behind a model's name may change.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);

/// What a verdict is kept under. Digests of secret and question: not even a question's digest stands in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key(Digest);

/// Verdicts of this process, the least recently used forgotten first.
#[derive(Debug)]
pub(crate) struct Verdicts {
    secret: [u8; 32],
    kept: Mutex<LruCache<Key, (StageResult, Instant)>>,
}

impl Default for Verdicts {
    fn default() -> Self {
        Self { secret: random(), kept: Mutex::new(LruCache::new(CAPACITY)) }
    }
}

impl Verdicts {
    /// The key of a question, which is all of `parts` in their order.
    pub(crate) fn key(&self, parts: &[&str]) -> Key {
        let mut whole = self.secret.to_vec();
        for part in parts {
            whole.extend_from_slice(&Digest::of(part.as_bytes()).0);
        }
        Key(Digest::of(&whole))
    }

    /// What was said to the question `key`, not long ago.
    pub(crate) fn find(&self, key: Key) -> Option<StageResult> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (heard, at) = *kept.get(&key)?;
        (moment().saturating_duration_since(at) < MAX_AGE).then_some(heard)
    }

    /// Keeps what was said, if it may be kept.
    pub(crate) fn keep(&self, key: Key, heard: StageResult) {
        if may_be_kept(heard) {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.put(key, (heard, moment()));
        }
    }
}

/// The prefilter and the comparison are quick; a repaired text is a text.
fn may_be_kept(heard: StageResult) -> bool {
    match heard {
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
    fn p12_errors_and_texts_are_never_kept() {
        let verdicts = Verdicts::default();
        let key = verdicts.key(&["a question"]);
        for heard in [
            StageResult::Sandbox(Err(Undecided::Failed)),
            StageResult::Sandbox(Err(Undecided::Refused)),
            StageResult::Repair(Err(Undecided::Unclear)),
            StageResult::Repair(Ok(RepairResult::Text)),
            StageResult::Prefilter(Ok(Screened::Clean)),
            StageResult::Compare(Ok(ComparisonResult::Faithful)),
        ] {
            verdicts.keep(key, heard);
            assert_eq!(verdicts.find(key), None, "{heard:?}");
        }
        for heard in [
            StageResult::Sandbox(Ok(SandboxResult::Untouched)),
            StageResult::Repair(Ok(RepairResult::Nothing)),
        ] {
            verdicts.keep(key, heard);
            assert_eq!(verdicts.find(key), Some(heard));
        }
    }

    #[test]
    fn p12_the_cache_is_bounded() {
        let verdicts = Verdicts::default();
        let key = |number: usize| verdicts.key(&[&number.to_string()]);
        for number in 0..2 * CAPACITY.get() {
            verdicts.keep(key(number), StageResult::Sandbox(Ok(SandboxResult::Untouched)));
        }
        let kept = (0..2 * CAPACITY.get()).filter(|number| verdicts.find(key(*number)).is_some());
        assert_eq!(kept.count(), CAPACITY.get());
    }

    #[test]
    fn p12_no_two_questions_share_a_key_and_no_two_caches_either() {
        let verdicts = Verdicts::default();
        assert_ne!(verdicts.key(&["ab", "c"]), verdicts.key(&["a", "bc"]));
        assert_ne!(verdicts.key(&["a"]), verdicts.key(&["a", ""]));
        assert_ne!(verdicts.key(&["a"]), Verdicts::default().key(&["a"]));
    }
}
