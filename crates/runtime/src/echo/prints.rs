//! Fingerprints of one text.

use std::collections::VecDeque;

use custody_kernel::namespace::Tenant;
use custody_log::Digest;
use custody_store::Fingerprint;

use super::MIN_RUN;
use super::voice::Voice;

/// The length of what is hashed, in canonical characters. Shorter coincidences are never looked at.
pub(super) const GRAM: usize = 48;
const WINDOW: usize = MIN_RUN - GRAM + 1;
/// The length of the blocks around it, two on either side. Whoever shares a run of 64 shares a block next to the
/// gram.
const BLOCK: usize = 8;

/// A Mersenne prime: residues of it multiply fast.
const MODULUS: u64 = (1 << 61) - 1;

/// Hashes of one store. Without its key nobody can choose texts that collide.
#[derive(Debug, Clone, Copy)]
pub struct StoreHasher {
    base: u64,
    /// `base` to the power of [`GRAM`].
    leaving: u64,
    mix: u64,
    key: [u8; 16],
}

/// The hash of [`GRAM`] characters from `at` on, and of what is around them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Print {
    pub(crate) hash: u64,
    pub(crate) around: u64,
    pub(crate) at: usize,
}

impl StoreHasher {
    /// The hashes of a store with this key.
    pub fn new(key: [u8; 16]) -> Self {
        let digest = Digest::of(&[b"custody.echo/1 ".as_slice(), &key].concat()).0;
        let word = |at: usize| -> u64 {
            digest.iter().skip(at).take(8).fold(0, |word, byte| word << 8 | u64::from(*byte))
        };
        let base = word(0) % (MODULUS - 1) + 1;
        let leaving = (0..GRAM).fold(1, |power, _| times(power, base));
        Self { base, leaving, mix: word(8) | 1, key }
    }

    /// What tells the fingerprints of one voice in one tenant from all others.
    pub(super) fn salt(&self, tenant: &Tenant, voice: Voice) -> u64 {
        let voice = match voice {
            Voice::Untrusted => vec![0],
            Voice::System => vec![1],
            Voice::User(principal) => [&[2], principal.as_bytes().as_slice()].concat(),
        };
        let salted = [self.key.as_slice(), &voice, tenant.as_str().as_bytes()].concat();
        Digest::of(&salted).0.iter().take(8).fold(0, |word, byte| word << 8 | u64::from(*byte))
    }

    /// The fingerprints by which `chars` is recognised: in every window of [`WINDOW`] grams the smallest hash, the
    /// last of equals. Which these are in a part of a text does not depend on the rest, but for a repetition in the
    /// same surroundings, which is selected once. None when the text is shorter than [`MIN_RUN`].
    pub(crate) fn prints(&self, chars: &[char]) -> Vec<Print> {
        if chars.len() < MIN_RUN {
            return Vec::new();
        }
        let mut selected: Vec<Print> = Vec::with_capacity(chars.len() / 8);
        let mut last_at = None;
        // The candidates of the window, hashes rising: its smallest is in front.
        let mut window: VecDeque<(u64, usize)> = VecDeque::with_capacity(WINDOW);
        let mut rolling = 0;
        for (end, c) in chars.iter().enumerate() {
            rolling = plus(times(rolling, self.base), value(*c));
            let Some(at) = (end + 1).checked_sub(GRAM) else { continue };
            if let Some(gone) = at.checked_sub(1).and_then(|gone| chars.get(gone)) {
                rolling = minus(rolling, times(value(*gone), self.leaving));
            }
            let hash = self.mixed(rolling);
            while window.back().is_some_and(|(last, _)| *last >= hash) {
                window.pop_back();
            }
            window.push_back((hash, at));
            while window.front().is_some_and(|(_, first)| first + WINDOW <= at) {
                window.pop_front();
            }
            if at + 1 < WINDOW {
                continue;
            }
            let Some((hash, at)) = window.front().copied().filter(|(_, at)| last_at != Some(*at))
            else {
                continue;
            };
            last_at = Some(at);
            let is_repeated = selected
                .last()
                .is_some_and(|last| last.hash == hash && have_same_sides(chars, last.at, at));
            if !is_repeated {
                selected.push(Print { hash, around: self.around(chars, at), at });
            }
        }
        selected
    }

    /// Four hashes of 16 bits: of the blocks before the gram, the nearer one first, and of those after it. Zero where
    /// the text ends within the block.
    fn around(&self, chars: &[char], at: usize) -> u64 {
        let starts = [
            at.checked_sub(BLOCK),
            at.checked_sub(2 * BLOCK),
            Some(at + GRAM),
            Some(at + GRAM + BLOCK),
        ];
        starts.into_iter().fold(0, |around, start| {
            let block = start.and_then(|start| chars.get(start..start + BLOCK));
            around << 16 | block.map_or(0, |block| self.block(block))
        })
    }

    fn block(&self, block: &[char]) -> u64 {
        let hash = block.iter().fold(1, |hash, c| plus(times(hash, self.base), value(*c)));
        self.mixed(hash) >> 48 | 1
    }

    /// Low bits of a polynomial are weak; the smallest is chosen among well-mixed values.
    fn mixed(&self, hash: u64) -> u64 {
        let mixed = (hash ^ (hash >> 32)).wrapping_mul(self.mix);
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        mixed ^ (mixed >> 32)
    }
}

impl Print {
    /// What the index knows it by, for one voice in one tenant.
    pub(super) fn key(&self, salt: u64) -> u64 {
        let salted = (self.hash ^ salt).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        salted ^ (salted >> 32)
    }

    pub(super) fn fingerprint(&self, salt: u64, form: u32) -> Fingerprint {
        let at = u32::try_from(self.at).unwrap_or(u32::MAX);
        Fingerprint { print: self.key(salt), around: self.around, form, at }
    }
}

/// Whether texts with the same gram in these surroundings can have a run of [`MIN_RUN`] in common. If they do, they
/// share eight characters before or after it.
pub(super) fn may_be_long(around: u64, other: u64) -> bool {
    [48_u32, 16].into_iter().any(|shift| {
        let (near, others) = (around >> shift & 0xFFFF, other >> shift & 0xFFFF);
        near == others && near != 0
    })
}

/// Whether the same characters stand around the grams at both places.
fn have_same_sides(chars: &[char], a: usize, b: usize) -> bool {
    sides(chars, a).is_some_and(|of_a| sides(chars, b) == Some(of_a))
}

/// The gram at a place, with the blocks around it.
fn sides(chars: &[char], at: usize) -> Option<&[char]> {
    chars.get(at.checked_sub(2 * BLOCK)?..at + GRAM + 2 * BLOCK)
}

fn value(c: char) -> u64 {
    u64::from(u32::from(c)) + 1
}

fn plus(a: u64, b: u64) -> u64 {
    let sum = a + b;
    if sum >= MODULUS { sum - MODULUS } else { sum }
}

fn minus(a: u64, b: u64) -> u64 {
    if a >= b { a - b } else { a + MODULUS - b }
}

fn times(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    let low = u64::try_from(product & u128::from(MODULUS)).unwrap_or(0);
    let high = u64::try_from(product >> 61).unwrap_or(0);
    plus(low, high)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::compare::common_run;
    use super::*;

    const KEYS: [[u8; 16]; 3] = [[0; 16], [7; 16], [0xA5; 16]];

    fn chars(text: &str) -> Vec<char> {
        text.chars().collect()
    }

    /// Whether a shared fingerprint, of those that the index would hold and offer, leads to the whole of `run`.
    fn is_found(here: &[char], there: &[char], hasher: &StoreHasher) -> bool {
        let (ours, theirs) = (hasher.prints(here), hasher.prints(there));
        ours.iter().any(|a| {
            let same =
                theirs.iter().filter(|b| a.hash == b.hash && may_be_long(a.around, b.around));
            same.into_iter().any(|b| common_run(here, a.at, there, b.at).len() >= MIN_RUN)
        })
    }

    proptest! {
        #[test]
        fn every_common_run_of_64_characters_shares_a_fingerprint(
            run in prop_oneof!["[a-z]{64,120}", "(ab|a|b{9}){64,90}", "a{30}[a-z]{40}a{30}"],
            sides in prop::array::uniform4("[A-Z0-9]{0,90}"),
        ) {
            let [before, after, other_before, other_after] = sides;
            let here = chars(&format!("{before}{run}{after}"));
            let there = chars(&format!("{other_before}{run}{other_after}"));
            for key in KEYS {
                prop_assert!(is_found(&here, &there, &StoreHasher::new(key)), "{run}");
            }
        }

        #[test]
        fn g8_fingerprints_of_a_part_are_those_of_the_whole_there(
            text in "[a-z]{200,400}", from in 0_usize..100, length in 64_usize..100,
        ) {
            let (hasher, text) = (StoreHasher::new(KEYS[1]), chars(&text));
            let whole: Vec<u64> = hasher.prints(&text).iter().map(|print| print.hash).collect();
            for print in hasher.prints(&text[from..from + length]) {
                prop_assert!(whole.contains(&print.hash));
            }
        }
    }

    #[test]
    fn g8_repetition_makes_few_fingerprints() {
        let hasher = StoreHasher::new(KEYS[0]);
        assert!(hasher.prints(&['a'; 100_000]).len() < 64);
        let words = chars(&"ab".repeat(50_000));
        assert!(hasher.prints(&words).len() < 128);
    }

    #[test]
    fn fingerprints_depend_on_the_key_of_the_store_the_tenant_and_the_voice() {
        let text =
            chars(&"the quick brown fox jumps over the lazy dog ".repeat(3).replace(' ', ""));
        let [a, b] = [KEYS[0], KEYS[1]].map(StoreHasher::new);
        assert_ne!(a.prints(&text), b.prints(&text));
        let (main, other) = (Tenant::main(), "other".parse::<Tenant>().unwrap());
        let salts = [(&main, Voice::Untrusted), (&main, Voice::System), (&other, Voice::System)];
        let salts: Vec<u64> = salts.iter().map(|(tenant, voice)| a.salt(tenant, *voice)).collect();
        assert!(salts[0] != salts[1] && salts[1] != salts[2]);
    }
}
