//! Maps distances to rows of the table of relative positions.
//!
//! Source: He et al. 2021, "DeBERTaV3", section 3; the buckets are those of `transformers`.

use crate::deberta::config::DebertaConfig;

/// The rows of every distance between two tokens of one window.
#[derive(Debug)]
pub(crate) struct Distances {
    /// From `-(max_tokens - 1)` to `max_tokens - 1`; monotonic.
    rows: Vec<usize>,
}

impl Distances {
    pub(crate) fn new(config: &DebertaConfig) -> Self {
        let span = config.span();
        let offsets: Vec<usize> =
            (0..config.max_tokens).map(|distance| bucket(distance, config).min(span)).collect();
        let before = offsets.iter().skip(1).rev().map(|offset| span - offset);
        let after = offsets.iter().map(|offset| (span + offset).min(2 * span - 1));
        Self { rows: before.chain(after).collect() }
    }

    /// The rows for a window of `count` tokens; the row of distance `d` has the index `d + count - 1`.
    pub(crate) fn of_window(&self, count: usize) -> &[usize] {
        let middle = self.rows.len() / 2;
        &self.rows[middle + 1 - count..middle + count]
    }
}

/// Distances up to half the buckets have one each; those beyond share the other half logarithmically.
fn bucket(distance: usize, config: &DebertaConfig) -> usize {
    let Some(buckets) = config.buckets else { return distance };
    let half = buckets / 2;
    if distance <= half {
        return distance;
    }
    // Single precision, as the checkpoints were trained.
    let share = (distance as f32 / half as f32).ln()
        / ((config.max_distance - 1) as f32 / half as f32).ln();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number between 0 and 2^32: both logarithms are positive, the quotient is below 2^16"
    )]
    let beyond = (share * (half - 1) as f32).ceil() as usize;
    half + beyond
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(max_tokens: usize, max_distance: usize, buckets: Option<usize>) -> DebertaConfig {
        let json = include_str!("../../tests/golden/deberta_shared/config.json");
        let config = DebertaConfig::from_json(json.as_bytes()).unwrap();
        DebertaConfig { max_tokens, max_distance, buckets, ..config }
    }

    #[test]
    fn distance_buckets_match_the_published_checkpoints() {
        let json = include_str!("../../tests/golden/deberta_buckets.json");
        let expected: Vec<usize> = serde_json::from_str(json).unwrap();
        let distances = Distances::new(&config(512, 512, Some(256)));
        let rows = distances.of_window(512);
        assert_eq!((rows.len(), expected.len()), (1023, 512));
        for (distance, bucket) in expected.iter().enumerate() {
            assert_eq!(rows[511 + distance], 256 + bucket, "{distance}");
            assert_eq!(rows[511 - distance], 256 - bucket, "-{distance}");
        }
    }

    #[test]
    fn distances_beyond_the_maximum_are_equal() {
        for buckets in [None, Some(8)] {
            let config = config(100, 10, buckets);
            let distances = Distances::new(&config);
            let rows = distances.of_window(100);
            assert_eq!((rows[0], rows[198]), (0, 2 * config.span() - 1));
            assert!(rows.is_sorted());
            assert_eq!(distances.of_window(1), [config.span()]);
        }
    }
}
