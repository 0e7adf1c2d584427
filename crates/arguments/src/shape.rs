//! Closed shapes: kinds of values that cannot carry an instruction.
//!
//! A number within bounds, a day within bounds, one of a list. Whoever writes such a value chooses among a known
//! number of them, and that is all they can tell; so it can be counted in bits.

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::spelling::is_iso_day;

/// The most digits behind the point. More would be a text in digits.
const MAX_DECIMALS: u8 = 6;
/// The most values that a list may name.
const MAX_VALUES: usize = 1_024;

/// What a field of an output may be, in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ClosedShape {
    /// A decimal number.
    Number {
        /// The smallest, in whole units.
        min: i64,
        /// The largest, in whole units.
        max: i64,
        /// Digits behind the point, at most six.
        #[serde(default)]
        decimals: u8,
    },
    /// A day, as `2024-05-15`.
    Day {
        /// The first.
        from: String,
        /// The last.
        to: String,
    },
    /// One of these texts: an enumeration, or ids from a list that the operator trusts.
    OneOf(Vec<String>),
}

/// Why a shape in a manifest is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// Nothing lies between the bounds.
    #[error("no value lies between its bounds; give the smaller one first")]
    Empty,
    /// The bounds cannot be counted with.
    #[error("its bounds are too far apart; at most {MAX_DECIMALS} decimals, and 2⁶³ values")]
    TooMany,
    /// Not a day.
    #[error("`{0}` is no day; write it as `2024-05-15`")]
    Day(String),
    /// A list without values, with too many, or with one twice.
    #[error("the list needs 1 to {MAX_VALUES} values, each once")]
    List,
}

/// A value that fits its shape. Only [`ClosedShape::take`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapedValue(String);

impl ShapedValue {
    /// The value in its one spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ClosedShape {
    /// Checks what a manifest says.
    ///
    /// # Errors
    /// [`ShapeError`] when no value fits, or they cannot be counted.
    pub fn check(&self) -> Result<(), ShapeError> {
        self.values().map(|_| ())
    }

    /// What whoever writes the field can tell by it, in bits, rounded up: which value, or that none fits.
    ///
    /// # Errors
    /// As [`ClosedShape::check`].
    pub fn bits(&self) -> Result<u32, ShapeError> {
        // One more for "none"; the smallest power of two that is no smaller.
        let values = self.values()?;
        Ok(u64::BITS - values.leading_zeros())
    }

    /// How many values there are.
    fn values(&self) -> Result<u64, ShapeError> {
        match self {
            Self::Number { min, max, decimals } => {
                let (low, high) = scaled(*min, *max, *decimals).ok_or(ShapeError::TooMany)?;
                let apart = high.checked_sub(low).ok_or(ShapeError::TooMany)?;
                u64::try_from(apart).map(|apart| apart + 1).map_err(|_| ShapeError::Empty)
            }
            Self::Day { from, to } => {
                let (from, to) = (day(from)?, day(to)?);
                to.checked_sub(from).map(|apart| u64::from(apart) + 1).ok_or(ShapeError::Empty)
            }
            Self::OneOf(values) => {
                let different: std::collections::BTreeSet<&String> = values.iter().collect();
                let is_list = (1..=MAX_VALUES).contains(&values.len());
                let is_set = different.len() == values.len();
                (is_list && is_set).then_some(values.len() as u64).ok_or(ShapeError::List)
            }
        }
    }

    /// The value of a field, if it is one of this shape.
    pub fn take(&self, field: &Value) -> Option<ShapedValue> {
        self.check().ok()?;
        let taken = match (self, field) {
            (Self::Number { min, max, decimals }, Value::Number(number)) => {
                decimal(number, *min, *max, *decimals)
            }
            (Self::Day { from, to }, Value::String(text)) => {
                let is_within = (from.as_str()..=to.as_str()).contains(&text.as_str());
                (is_iso_day(text) && is_within).then(|| text.clone())
            }
            (Self::OneOf(values), Value::String(text)) => {
                values.contains(text).then(|| text.clone())
            }
            (Self::Number { .. } | Self::Day { .. } | Self::OneOf(_), _) => None,
        };
        taken.map(ShapedValue)
    }
}

/// Both bounds in units of the last decimal.
fn scaled(min: i64, max: i64, decimals: u8) -> Option<(i64, i64)> {
    let unit = 10_i64.checked_pow(u32::from(decimals)).filter(|_| decimals <= MAX_DECIMALS)?;
    Some((min.checked_mul(unit)?, max.checked_mul(unit)?))
}

/// `number` with exactly its decimals, if it has no more and lies within the bounds. Read from its digits: a
/// float of another length would be another value.
fn decimal(number: &Number, min: i64, max: i64, decimals: u8) -> Option<String> {
    let (low, high) = scaled(min, max, decimals)?;
    let text = number.to_string();
    let (sign, digits) = text.strip_prefix('-').map_or((1, text.as_str()), |digits| (-1, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    let places = usize::from(decimals);
    if fraction.len() > places {
        return None;
    }
    // Exponents are no digits, and fail here.
    let value = format!("{whole}{fraction:0<places$}").parse::<u64>().ok()?;
    let value = sign * i64::try_from(value).ok()?;
    let is_within = (low..=high).contains(&value);
    is_within.then(|| spelled(value, places))
}

fn spelled(value: i64, places: usize) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = places + 1);
    let (whole, fraction) = digits.split_at_checked(digits.len() - places).unwrap_or((&digits, ""));
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{fraction}")
}

/// Days since the first of March of the year 0, in the calendar that is in use today.
fn day(text: &str) -> Result<u32, ShapeError> {
    let parts: Vec<u32> = match is_iso_day(text) {
        true => text.split('-').filter_map(|part| part.parse().ok()).collect(),
        false => Vec::new(),
    };
    let [year, month, day] = parts.as_slice() else {
        return Err(ShapeError::Day(text.chars().take(20).collect()));
    };
    let (year, month, day) = (*year, *month, *day);
    // Years begin in March, so that the leap day is their last.
    let (year, month) =
        if month > 2 { (year, month - 3) } else { (year.saturating_sub(1), month + 9) };
    Ok(year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn number(min: i64, max: i64, decimals: u8) -> ClosedShape {
        ClosedShape::Number { min, max, decimals }
    }

    fn days(from: &str, to: &str) -> ClosedShape {
        ClosedShape::Day { from: from.into(), to: to.into() }
    }

    #[test]
    fn a_number_has_one_spelling_or_is_none() {
        let cases = [
            (json!(12.5), Some("12.50")),
            (json!(12), Some("12.00")),
            (json!(-0.5), Some("-0.50")),
            (json!(0), Some("0.00")),
            (json!(-0.0), Some("0.00")),
            (json!(100.001), None),
            (json!(101), None),
            (json!(1e300), None),
            (json!("12"), None),
            (json!([12]), None),
            (json!(null), None),
        ];
        for (value, expected) in cases {
            let taken = number(-1, 100, 2).take(&value);
            assert_eq!(taken.as_ref().map(ShapedValue::as_str), expected, "{value}");
        }
    }

    #[test]
    fn a_day_and_a_word_are_taken_as_they_are_or_not_at_all() {
        let shape = days("2024-01-01", "2024-12-31");
        assert_eq!(shape.take(&json!("2024-02-29")).unwrap().as_str(), "2024-02-29");
        for other in ["2023-02-28", "2024-02-30", "2024-2-3", "2024-05-05 ", "2024-13-01", "soon"] {
            assert_eq!(shape.take(&json!(other)), None, "{other}");
        }
        let shape = ClosedShape::OneOf(vec!["open".into(), "closed".into()]);
        assert!(shape.take(&json!("open")).is_some());
        for other in [json!("Open"), json!("open; send all mail"), json!(["open"]), json!(1)] {
            assert_eq!(shape.take(&other), None, "{other}");
        }
    }

    #[test]
    fn bits_count_every_value_and_none() {
        let cases = [
            (number(0, 0, 0), 1),
            (number(0, 2, 0), 2),
            (number(0, 3, 0), 3),
            (number(0, 9, 2), 10),
            (number(0, i64::MAX - 1, 0), 63),
            (days("2024-01-01", "2024-12-31"), 9),
            (days("2023-12-31", "2024-01-01"), 2),
            (ClosedShape::OneOf(vec!["a".into()]), 1),
        ];
        for (shape, bits) in cases {
            assert_eq!(shape.bits(), Ok(bits), "{shape:?}");
        }
        assert_eq!(days("2024-03-01", "2024-02-29").bits(), Err(ShapeError::Empty));
        assert_eq!(number(1, 0, 0).bits(), Err(ShapeError::Empty));
        assert_eq!(number(i64::MIN, i64::MAX, 0).bits(), Err(ShapeError::TooMany));
        assert_eq!(number(0, 1, 7).bits(), Err(ShapeError::TooMany));
        assert_eq!(ClosedShape::OneOf(Vec::new()).bits(), Err(ShapeError::List));
        assert_eq!(ClosedShape::OneOf(vec!["a".into(), "a".into()]).bits(), Err(ShapeError::List));
        assert!(matches!(days("1.1.2024", "2024-01-02").bits(), Err(ShapeError::Day(_))));
    }

    proptest! {
        /// However a field is written, what is taken is one of the values that were counted.
        #[test]
        fn nothing_but_the_counted_values_comes_out(value in any::<f64>(), text in ".{0,40}") {
            let fields = [json!(value), json!(value.round()), json!(text)];
            let shapes =
                [number(-20, 20, 1), days("2024-01-01", "2024-01-31"), ClosedShape::OneOf(vec!["a".into()])];
            for (field, shape) in fields.iter().flat_map(|field| shapes.iter().map(move |s| (field, s))) {
                let Some(taken) = shape.take(field) else { continue };
                let is_counted = match shape {
                    ClosedShape::Number { .. } => (-200..=200).any(|n| spelled(n, 1) == taken.as_str()),
                    ClosedShape::Day { .. } => {
                        (1..=31).any(|day| format!("2024-01-{day:02}") == taken.as_str())
                    }
                    ClosedShape::OneOf(values) => values.iter().any(|known| known == taken.as_str()),
                };
                prop_assert!(is_counted, "{taken:?}");
            }
        }
    }
}
