//! Scores: numbers from 0 to 1, kept to nine decimals.
//!
//! Whole billionths compare exactly, so a score that is a tier's bound reaches the tier whatever rounding did on the
//! way, and a plan has the same bytes on every machine.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const ONE: u32 = 1_000_000_000;

/// A number in [0, 1], in billionths.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Score(u32);

/// A number that is no score.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{0} is not a number from 0 to 1")]
pub struct NotAScore(pub f64);

impl Score {
    /// 0.
    pub const ZERO: Self = Self(0);
    /// 1.
    pub const ONE: Self = Self(ONE);

    /// So many thousandths, 1,000 at most.
    pub const fn thousandths(count: u16) -> Self {
        let count = if count > 1_000 { 1_000 } else { count };
        Self(count as u32 * (ONE / 1_000))
    }

    /// The score nearest to `value`.
    ///
    /// # Errors
    /// When `value` is not in [0, 1], or not a number.
    pub fn new(value: f64) -> Result<Self, NotAScore> {
        if !(0.0..=1.0).contains(&value) {
            return Err(NotAScore(value));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and a billion"
        )]
        let billionths = (value * f64::from(ONE)).round() as u32;
        Ok(Self(billionths))
    }

    /// As [`new`](Self::new), with everything above 1 taken for 1. What is below 0 or no number is not known, and
    /// counts as 1 too: unknown is not clean.
    pub fn at_most_one(value: f64) -> Self {
        Self::new(value).unwrap_or(Self::ONE)
    }

    /// `part` of `whole`; 0 of nothing.
    pub fn share(part: u64, whole: u64) -> Self {
        if whole == 0 {
            return Self::ZERO;
        }
        #[expect(clippy::cast_precision_loss, reason = "nine decimals are kept")]
        let share = part as f64 / whole as f64;
        Self::at_most_one(share)
    }

    /// The number.
    pub fn value(self) -> f64 {
        f64::from(self.0) / f64::from(ONE)
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.value(), f)
    }
}

impl fmt::Debug for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Score {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.value())
    }
}

impl<'de> Deserialize<'de> for Score {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(f64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_a_number_from_0_to_1_and_what_is_not_known_counts_as_1() {
        for bad in [-0.1, 1.000_001, f64::NAN, f64::INFINITY] {
            assert!(Score::new(bad).is_err(), "{bad}");
            assert_eq!(Score::at_most_one(bad), Score::ONE, "{bad}");
        }
        assert_eq!(Score::new(0.1 + 0.2), Score::new(0.3), "rounding is no difference");
        assert_eq!(Score::share(1, 8).to_string(), "0.125");
        assert_eq!(Score::share(0, 0), Score::ZERO);
    }

    #[test]
    fn a_score_survives_its_text_form() {
        for billionths in [0, 1, 37_500_000, 333_333_333, 999_999_999, ONE] {
            let text = serde_json::to_string(&Score(billionths)).unwrap();
            assert_eq!(serde_json::from_str::<Score>(&text).unwrap(), Score(billionths), "{text}");
        }
        assert!(serde_json::from_str::<Score>("1.5").is_err());
    }
}
