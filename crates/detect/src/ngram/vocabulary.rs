//! The n-grams of a model: their choice, their weights, and their lookup.
//!
//! Source: scikit-learn's `TfidfVectorizer` with `sublinear_tf`, `smooth_idf` and `norm="l2"`; MON §5.2, detector D2.

use std::collections::HashMap;

use super::folding::{FoldedText, NgramLengths};
use super::gram::Gram;
use super::{NgramOptions, NgramTrainError};
use crate::exact_math::ln;

/// The largest number of n-grams in a model.
pub(super) const MAX_FEATURES: usize = 1 << 20;
/// The largest number of slots probed for one n-gram. With three of four slots empty, a few are enough.
const MAX_PROBES: usize = 64;
/// The counts whose weights are precomputed.
const CACHED_COUNTS: u32 = 64;

/// N-grams in ascending order, with their inverse document frequencies.
#[derive(Debug, Clone)]
pub(super) struct Vocabulary {
    lengths: NgramLengths,
    grams: Vec<Gram>,
    idf: Vec<f32>,
    /// `1 + ln(count)` for counts from 1.
    frequencies: Vec<f64>,
    /// A hash table with open addressing of indices in `grams`, plus one; 0 is an empty slot.
    slots: Vec<u32>,
    shift: u32,
}

/// More than [`MAX_PROBES`] n-grams share one slot of the table, which only happens with crafted n-grams.
#[derive(Debug)]
pub(super) struct HashCollision;

/// The number of occurrences of each n-gram in one text.
pub(super) struct Counts {
    /// One count per n-gram of the vocabulary.
    counts: Vec<u32>,
    /// The n-grams that occur, in the order of their first occurrence.
    seen: Vec<u32>,
}

impl Vocabulary {
    /// Chooses the n-grams of `texts`: of those in enough texts the most frequent; ties are broken by ascending order.
    ///
    /// scikit-learn breaks ties with an unstable sort, so its choice differs between processors; this order reproduces
    /// the published evaluation on all three corpora.
    pub(super) fn learn(texts: &[&str], options: &NgramOptions) -> Result<Self, NgramTrainError> {
        #[derive(Default)]
        struct Seen {
            times: u64,
            texts: u32,
        }
        let mut all: HashMap<Gram, Seen> = HashMap::new();
        let mut grams = Vec::new();
        for text in texts {
            grams.clear();
            FoldedText::new(text).each_gram(options.lengths, |_, _, gram| grams.push(gram));
            grams.sort_unstable();
            for same in grams.chunk_by(|a, b| a == b) {
                let seen = all.entry(same[0]).or_default();
                seen.times += same.len() as u64;
                seen.texts += 1;
            }
        }
        let mut chosen: Vec<(Gram, Seen)> =
            all.into_iter().filter(|(_, seen)| seen.texts as usize >= options.min_texts).collect();
        chosen.sort_unstable_by(|(a, x), (b, y)| y.times.cmp(&x.times).then(a.cmp(b)));
        chosen.truncate(options.max_features);
        chosen.sort_unstable_by_key(|(gram, _)| *gram);
        let count = as_float(texts.len() as u64);
        let idf = chosen
            .iter()
            .map(|(_, seen)| as_f32(ln((1.0 + count) / (1.0 + f64::from(seen.texts))) + 1.0))
            .collect();
        let grams = chosen.into_iter().map(|(gram, _)| gram).collect();
        Self::new(options.lengths, grams, idf)
            .map_err(|HashCollision| NgramTrainError::HashCollision)
    }

    /// A vocabulary of `grams`, ascending and at most [`MAX_FEATURES`], each with its inverse document frequency.
    pub(super) fn new(
        lengths: NgramLengths,
        grams: Vec<Gram>,
        idf: Vec<f32>,
    ) -> Result<Self, HashCollision> {
        let size = (4 * grams.len()).next_power_of_two().max(64);
        let shift = 64 - size.trailing_zeros();
        let mut slots = vec![0; size];
        for (number, gram) in (1..).zip(&grams) {
            let home = slot(gram.hash(), shift);
            let free = (0..MAX_PROBES)
                .map(|probe| (home + probe) & (size - 1))
                .find(|&slot| slots[slot] == 0);
            slots[free.ok_or(HashCollision)?] = number;
        }
        let frequencies = (1..=CACHED_COUNTS).map(|count| 1.0 + ln(f64::from(count))).collect();
        Ok(Self { lengths, grams, idf, frequencies, slots, shift })
    }

    /// The number of n-grams.
    pub(super) fn len(&self) -> usize {
        self.grams.len()
    }

    pub(super) fn lengths(&self) -> NgramLengths {
        self.lengths
    }

    pub(super) fn grams(&self) -> &[Gram] {
        &self.grams
    }

    pub(super) fn idf(&self) -> &[f32] {
        &self.idf
    }

    /// The index of `gram`.
    #[inline]
    pub(super) fn find(&self, gram: Gram) -> Option<u32> {
        let home = slot(gram.hash(), self.shift);
        for probe in 0..MAX_PROBES {
            let number = self.slots[(home + probe) & (self.slots.len() - 1)].checked_sub(1)?;
            if self.grams[number as usize] == gram {
                return Some(number);
            }
        }
        // No n-gram is further from its home slot, so even a crafted file costs no more probes.
        None
    }

    /// Counts the n-grams of a text.
    pub(super) fn count(&self, text: &FoldedText) -> Counts {
        let mut counts = Counts { counts: vec![0; self.len()], seen: Vec::with_capacity(256) };
        text.each_gram(self.lengths, |_, _, gram| {
            if let Some(feature) = self.find(gram) {
                let count = &mut counts.counts[feature as usize];
                if *count == 0 {
                    counts.seen.push(feature);
                }
                *count = count.saturating_add(1);
            }
        });
        counts
    }

    /// The weight of an n-gram that occurs `count` times, 1 or more: `1 + ln(count)`.
    #[inline]
    pub(super) fn frequency(&self, count: u32) -> f64 {
        match self.frequencies.get(count as usize - 1) {
            Some(&frequency) => frequency,
            None => 1.0 + ln(f64::from(count)),
        }
    }

    /// The row of a text: (n-gram, weight) in ascending order, with a norm of 1 or without cells.
    pub(super) fn row(&self, text: &str) -> Vec<(u32, f64)> {
        let counts = self.count(&FoldedText::new(text));
        let mut row: Vec<(u32, f64)> = counts
            .iter()
            .map(|(feature, count)| {
                (feature, self.frequency(count) * f64::from(self.idf[feature as usize]))
            })
            .collect();
        row.sort_unstable_by_key(|(feature, _)| *feature);
        let norm = row.iter().map(|(_, value)| value * value).sum::<f64>().sqrt();
        row.iter_mut().for_each(|(_, value)| *value /= norm);
        row
    }
}

impl Counts {
    /// The n-grams that occur, with their counts, in the order of first occurrence.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.seen.iter().map(|&feature| (feature, self.counts[feature as usize]))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the highest bits of a hash, fewer than a table has slots"
)]
fn slot(hash: u64, shift: u32) -> usize {
    (hash >> shift) as usize
}

#[expect(clippy::cast_precision_loss, reason = "a number of texts, far below 2^53")]
fn as_float(count: u64) -> f64 {
    count as f64
}

/// Weights have single precision as in the file, so that a trained and a loaded model agree.
#[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest, as intended")]
pub(super) fn as_f32(value: f64) -> f32 {
    value as f32
}
