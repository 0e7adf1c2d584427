//! Thresholds from calibration rows: attack, clean, or unsure.
//!
//! A threshold is an order statistic of the benign scores, chosen so that a benign text from the distribution of the
//! calibration rows is flagged with at most the stated probability; no distribution of the scores is assumed. (The
//! split-conformal quantile: Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World, 2005.)

use std::collections::BTreeMap;

use crate::language::Language;

/// The error rates of a calibration.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// The share of benign texts that may be classified as attacks, in (0, 1).
    pub false_positive: f64,
    /// The share of attacks that may be classified as clean, in (0, 1).
    pub miss: f64,
}

/// One calibration row, scored by a detector that was not trained on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoredRow {
    /// The language of the text.
    pub language: Language,
    /// The detector's score; higher is more suspicious. Use decision values: probabilities crowd near 0 and 1.
    pub score: f64,
    /// Whether the row is an attack.
    pub is_attack: bool,
}

/// Two thresholds, `lower <= upper`.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Band {
    /// Scores below are clean.
    pub lower: f64,
    /// Scores from this one on are attacks.
    pub upper: f64,
    /// The number of benign rows that `upper` was calibrated on.
    pub benign_rows: usize,
    /// The number of attacks that `lower` was calibrated on.
    pub attack_rows: usize,
}

/// The classification of a calibrated score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Classification {
    /// Below the band.
    Clean,
    /// Within the band; left to the next detector.
    Unsure,
    /// Above the band.
    Attack,
}

/// A band for every language with enough rows, and one for all others.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Parts")]
pub struct Calibration {
    rates: Rates,
    pooled: Band,
    languages: BTreeMap<Language, Band>,
}

/// Rows that support no threshold, or invalid stored thresholds.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CalibrationError {
    /// A rate outside (0, 1).
    #[error("the rate is `{rate}`; it must be above 0 and below 1")]
    Rate {
        /// The rate given.
        rate: f64,
    },
    /// Too few rows for the rate.
    #[error("{rows} {class} rows are too few for a rate of {rate}; it needs at least {needed}")]
    TooFewRows {
        /// `benign` or `attack`.
        class: &'static str,
        /// The number of rows given.
        rows: usize,
        /// The rate given.
        rate: f64,
        /// The fewest rows for the rate.
        needed: u64,
    },
    /// A score that is NaN, infinite or beyond single precision.
    #[error("the score of row {row} is not a finite number of single precision")]
    Score {
        /// The row among those of its class, from 0.
        row: usize,
    },
    /// A stored band is not finite or not in order.
    #[error("the stored thresholds are not finite and in order")]
    Stored,
}

/// The rows beyond a threshold that a language needs for a band of its own: the single worst row may be an outlier.
const MIN_ALLOWED: usize = 2;

/// The lowest threshold that a benign text reaches with a probability of at most `rate`, from `benign` scores.
///
/// A score is flagged when it is *at least* the threshold. Of `n` rows it is just above the `(n + 1 - k)`-th lowest
/// score, `k = ⌊rate · (n + 1)⌋`: fewer than `k` rows are flagged, and rows tied with that score are not. "Just above"
/// is the next number of single precision, so that a threshold survives storage unchanged.
///
/// # Errors
/// [`CalibrationError`]; too few rows when `k` is 0.
pub fn threshold(benign: &[f64], rate: f64) -> Result<f64, CalibrationError> {
    let (sorted, allowed) = order(benign, rate, "benign")?;
    Ok(just_above(sorted[sorted.len() - allowed]))
}

/// The highest threshold that an attack stays below with a probability of at most `rate`, from the scores of `attacks`.
///
/// A score is clean when it is *below* the threshold: the `k`-th lowest score, `k = ⌊rate · (n + 1)⌋`.
///
/// # Errors
/// [`CalibrationError`]; too few rows when `k` is 0.
pub fn clearance(attacks: &[f64], rate: f64) -> Result<f64, CalibrationError> {
    let (sorted, allowed) = order(attacks, rate, "attack")?;
    Ok(at_most(sorted[allowed - 1]))
}

impl Calibration {
    /// Calibrates on `rows`. A language with too few benign rows for the rate uses the band of all rows; one with too
    /// few attacks uses the lower threshold of all rows.
    ///
    /// # Errors
    /// [`CalibrationError`], if all rows together do not support the rates.
    pub fn new(rows: &[ScoredRow], rates: Rates) -> Result<Self, CalibrationError> {
        let (benign, attacks) = (scores(rows, None, false), scores(rows, None, true));
        let upper = threshold(&benign, rates.false_positive)?;
        let lower = clearance(&attacks, rates.miss)?;
        let pooled = Band::new(lower, upper, benign.len(), attacks.len());
        let mut languages = BTreeMap::new();
        for language in [Language::English, Language::German] {
            let benign = scores(rows, Some(language), false);
            let attacks = scores(rows, Some(language), true);
            if allowed(benign.len(), rates.false_positive) < MIN_ALLOWED {
                continue;
            }
            let upper = threshold(&benign, rates.false_positive)?;
            let (lower, attack_rows) = match clearance(&attacks, rates.miss) {
                Ok(lower) => (lower, attacks.len()),
                Err(_) => (lower, pooled.attack_rows),
            };
            languages.insert(language, Band::new(lower, upper, benign.len(), attack_rows));
        }
        Ok(Self { rates, pooled, languages })
    }

    /// The same calibration with every upper threshold at least `upper`.
    #[must_use]
    pub fn raised_to(mut self, upper: f64) -> Self {
        for band in std::iter::once(&mut self.pooled).chain(self.languages.values_mut()) {
            band.upper = band.upper.max(upper);
        }
        self
    }

    /// The classification of a text in `language` with this score; `Unsure` for NaN.
    #[must_use]
    pub fn classify(&self, language: Language, score: f64) -> Classification {
        let band = self.band(language);
        if score >= band.upper {
            Classification::Attack
        } else if score < band.lower {
            Classification::Clean
        } else {
            Classification::Unsure
        }
    }

    /// The band of `language`, or of all rows if it has none.
    #[must_use]
    pub fn band(&self, language: Language) -> &Band {
        self.languages.get(&language).unwrap_or(&self.pooled)
    }

    /// The languages with a band of their own.
    pub fn languages(&self) -> impl Iterator<Item = Language> {
        self.languages.keys().copied()
    }

    /// The rates it was made for.
    #[must_use]
    pub fn rates(&self) -> Rates {
        self.rates
    }
}

impl Band {
    /// If the thresholds cross, the classes are separated better than the rates ask for, and one threshold keeps both.
    fn new(lower: f64, upper: f64, benign_rows: usize, attack_rows: usize) -> Self {
        Self { lower: lower.min(upper), upper, benign_rows, attack_rows }
    }
}

/// A calibration as it is stored, before its order is checked.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    rates: Rates,
    pooled: Band,
    languages: BTreeMap<Language, Band>,
}

impl TryFrom<Parts> for Calibration {
    type Error = CalibrationError;

    fn try_from(mut parts: Parts) -> Result<Self, CalibrationError> {
        check_rate(parts.rates.false_positive)?;
        check_rate(parts.rates.miss)?;
        for band in parts.languages.values_mut().chain([&mut parts.pooled]) {
            // A JSON number may differ in its last bit after parsing; the thresholds are of single precision.
            (band.lower, band.upper) =
                (f64::from(nearest(band.lower)), f64::from(nearest(band.upper)));
            if !(band.lower.is_finite() && band.upper.is_finite() && band.lower <= band.upper) {
                return Err(CalibrationError::Stored);
            }
        }
        let Parts { rates, pooled, languages } = parts;
        Ok(Self { rates, pooled, languages })
    }
}

/// The scores of the rows of one class, of one language or of all.
fn scores(rows: &[ScoredRow], language: Option<Language>, attack: bool) -> Vec<f64> {
    rows.iter()
        .filter(|row| row.is_attack == attack)
        .filter(|row| language.is_none_or(|language| row.language == language))
        .map(|row| row.score)
        .collect()
}

/// The scores in ascending order, and how many of them may be on the wrong side, counting the one at the threshold.
fn order(
    scores: &[f64],
    rate: f64,
    class: &'static str,
) -> Result<(Vec<f64>, usize), CalibrationError> {
    check_rate(rate)?;
    if let Some(row) = scores.iter().position(|&score| !is_usable(score)) {
        return Err(CalibrationError::Score { row });
    }
    let allowed = allowed(scores.len(), rate);
    if allowed == 0 {
        return Err(CalibrationError::TooFewRows {
            class,
            rows: scores.len(),
            rate,
            needed: needed(rate),
        });
    }
    let mut sorted = scores.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Ok((sorted, allowed))
}

/// Within half the range of single precision: a next number exists, and no sum of two overflows.
fn is_usable(score: f64) -> bool {
    score.abs() < f64::from(f32::MAX) / 2.0
}

fn check_rate(rate: f64) -> Result<(), CalibrationError> {
    if rate > 0.0 && rate < 1.0 { Ok(()) } else { Err(CalibrationError::Rate { rate }) }
}

/// `⌊rate · (rows + 1)⌋`, at most `rows`. The small term keeps 0.01 of 99 rows at 1 in spite of rounding.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a number of rows: not negative, and below 2^53"
)]
fn allowed(rows: usize, rate: f64) -> usize {
    let share = rate * (rows as f64 + 1.0);
    ((share + 1e-9) as usize).min(rows)
}

/// The fewest rows for `rate`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and is above 0"
)]
fn needed(rate: f64) -> u64 {
    (1.0 / rate - 1e-9).ceil() as u64 - 1
}

fn just_above(score: f64) -> f64 {
    let near = nearest(score);
    f64::from(if f64::from(near) > score { near } else { near.next_up() })
}

fn at_most(score: f64) -> f64 {
    let near = nearest(score);
    f64::from(if f64::from(near) > score { near.next_down() } else { near })
}

#[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest")]
fn nearest(score: f64) -> f32 {
    score as f32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scored(language: Language, attack: bool, scores: &[f64]) -> Vec<ScoredRow> {
        scores.iter().map(|&score| ScoredRow { language, score, is_attack: attack }).collect()
    }

    /// `count` scores spread evenly from `from` upwards.
    fn ladder(from: f64, count: u32) -> Vec<f64> {
        (0..count).map(|step| from + f64::from(step) / 256.0).collect()
    }

    #[test]
    fn ninety_nine_rows_support_one_percent_and_ninety_eight_do_not() {
        let rows = ladder(0.0, 99);
        let at = threshold(&rows, 0.01).unwrap();
        assert!(at > rows[98] && at < rows[98] + 1e-6, "above every row: {at}");
        let error = threshold(&rows[1..], 0.01).unwrap_err();
        assert_eq!(
            error,
            CalibrationError::TooFewRows { class: "benign", rows: 98, rate: 0.01, needed: 99 }
        );
        assert_eq!(
            error.to_string(),
            "98 benign rows are too few for a rate of 0.01; it needs at least 99"
        );
        let at = threshold(&ladder(0.0, 199), 0.01).unwrap();
        assert!(at > 197.0 / 256.0 && at < 198.0 / 256.0, "one row is flagged: {at}");
    }

    #[test]
    fn rows_tied_at_the_threshold_are_not_flagged() {
        let mut rows = vec![0.5; 60];
        rows.extend(ladder(0.0, 40));
        let at = threshold(&rows, 0.1).unwrap();
        assert!(rows.iter().all(|score| *score < at), "{at}");
    }

    #[test]
    fn scores_and_rates_out_of_range_are_refused() {
        assert_eq!(threshold(&[0.1, f64::NAN], 0.5), Err(CalibrationError::Score { row: 1 }));
        assert_eq!(clearance(&[f64::INFINITY], 0.5), Err(CalibrationError::Score { row: 0 }));
        for rate in [0.0, 1.0, -0.1, 2.0, f64::NAN] {
            assert!(matches!(threshold(&[0.1, 0.2], rate), Err(CalibrationError::Rate { .. })));
        }
        assert!(matches!(threshold(&[], 0.5), Err(CalibrationError::TooFewRows { rows: 0, .. })));
    }

    #[test]
    fn a_language_with_too_few_rows_uses_the_band_of_all() {
        let mut rows = scored(Language::English, false, &ladder(0.0, 120));
        rows.extend(scored(Language::English, true, &ladder(0.25, 120)));
        rows.extend(scored(Language::German, false, &ladder(0.5, 10)));
        let calibration =
            Calibration::new(&rows, Rates { false_positive: 0.05, miss: 0.05 }).unwrap();
        assert_eq!(calibration.languages().collect::<Vec<_>>(), [Language::English]);
        assert_eq!(calibration.band(Language::German), calibration.band(Language::Other));
        let (english, pooled) =
            (calibration.band(Language::English), calibration.band(Language::Other));
        assert!(english.upper < pooled.upper, "the German rows score higher");
        assert_eq!((english.benign_rows, pooled.benign_rows), (120, 130));
        assert_eq!(calibration.classify(Language::English, 0.1), Classification::Clean);
        assert_eq!(calibration.classify(Language::English, 0.3), Classification::Unsure);
        assert_eq!(calibration.classify(Language::English, 0.9), Classification::Attack);
        assert_eq!(calibration.classify(Language::English, f64::NAN), Classification::Unsure);
    }

    #[test]
    fn separated_classes_leave_no_band() {
        let mut rows = scored(Language::Other, false, &ladder(0.0, 50));
        rows.extend(scored(Language::Other, true, &ladder(0.7, 50)));
        let calibration =
            Calibration::new(&rows, Rates { false_positive: 0.1, miss: 0.1 }).unwrap();
        let band = calibration.band(Language::Other);
        assert_eq!(band.lower, band.upper);
    }

    #[test]
    fn a_stored_calibration_reads_back_the_same_and_an_invalid_one_is_refused() {
        let mut rows = scored(Language::German, false, &ladder(0.123_456_789, 150));
        rows.extend(scored(Language::German, true, &ladder(0.3, 150)));
        let calibration =
            Calibration::new(&rows, Rates { false_positive: 0.01, miss: 0.02 }).unwrap();
        let text = serde_json::to_string(&calibration).unwrap();
        assert_eq!(serde_json::from_str::<Calibration>(&text).unwrap(), calibration);
        let upside_down = text.replace("\"lower\":", "\"lower\":9");
        assert!(serde_json::from_str::<Calibration>(&upside_down).is_err());
        let unknown = text.replace("\"miss\":", "\"mist\":");
        assert!(serde_json::from_str::<Calibration>(&unknown).is_err());
    }

    proptest! {
        #[test]
        fn the_stated_rates_hold_on_the_calibration_rows_themselves(
            scores in prop::collection::vec((0_u32..400).prop_map(|score| f64::from(score) / 300.0), 20..200),
            rate in 0.06..0.9,
        ) {
            let count = |flagged: usize| f64::from(u32::try_from(flagged).unwrap());
            let most = rate * count(scores.len());
            let cut = threshold(&scores, rate).unwrap();
            prop_assert!(count(scores.iter().filter(|score| **score >= cut).count()) <= most);
            let cut = clearance(&scores, rate).unwrap();
            prop_assert!(count(scores.iter().filter(|score| **score < cut).count()) <= most);
        }

        #[test]
        fn a_higher_rate_never_raises_the_threshold_nor_lowers_the_clearance(
            scores in prop::collection::vec(-5.0..5.0, 20..200),
            low in 0.06..0.9,
            more in 0.0..0.09,
        ) {
            prop_assert!(threshold(&scores, low + more).unwrap() <= threshold(&scores, low).unwrap());
            prop_assert!(clearance(&scores, low + more).unwrap() >= clearance(&scores, low).unwrap());
        }
    }
}
