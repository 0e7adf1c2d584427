//! The amount of a payment, as a whole number of units.

use serde_json::Value;

/// An amount without its sign, in whole units, rounded up. Anything but a plain number is [`i64::MAX`].
pub(crate) fn amount(value: &Value) -> i64 {
    let units = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => largest_reading(text),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    units.map_or(i64::MAX, |units| whole_units(units.abs()))
}

/// `units` rounded up; [`i64::MAX`] if that does not fit.
#[expect(clippy::cast_precision_loss, reason = "a bound; values near it become the maximum")]
#[expect(clippy::cast_possible_truncation, reason = "whole and within the bound")]
fn whole_units(units: f64) -> i64 {
    let units = units.ceil();
    if units < i64::MAX as f64 { units as i64 } else { i64::MAX }
}

/// The largest amount that `text` can mean: `1.500` is one and a half in some countries and one thousand five hundred
/// in others.
fn largest_reading(text: &str) -> Option<f64> {
    let digits = text.trim_matches(|c: char| c.is_whitespace() || "$€£¥".contains(c));
    let digits = digits.strip_prefix('-').unwrap_or(digits);
    let mut parts = digits.split([',', '.']);
    let first = parts.next().filter(|first| is_digits(first))?;
    let mut number = first.to_owned();
    let mut rest = parts.peekable();
    while let Some(part) = rest.next() {
        if !is_digits(part) {
            return None;
        }
        // Three digits may be a group of thousands. Any other number of digits is a fraction, which ends the number.
        if part.len() == 3 {
            number.push_str(part);
        } else if rest.peek().is_none() {
            number.push('.');
            number.push_str(part);
        } else {
            return None;
        }
    }
    number.parse().ok()
}

fn is_digits(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_amount_is_rounded_up_and_never_taken_for_less() {
        let cases = [
            (json!(100), 100),
            (json!(100.01), 101),
            (json!(-40), 40),
            (json!("$50"), 50),
            (json!("1,000.50"), 1001),
            (json!("1.500"), 1500),
            (json!("1,5"), 2),
            (json!("1,234,567"), 1_234_567),
            (json!("0.125"), 125),
            (json!("1e3"), i64::MAX),
            (json!("1e-3"), i64::MAX),
            (json!("fifty"), i64::MAX),
            (json!("50 USD"), i64::MAX),
            (json!("٥٠"), i64::MAX),
            (json!("0x10"), i64::MAX),
            (json!("inf"), i64::MAX),
            (json!("--5"), i64::MAX),
            (json!("1.5.2"), i64::MAX),
            (json!(""), i64::MAX),
            (json!(true), i64::MAX),
            (json!("9".repeat(400)), i64::MAX),
            (json!(9_007_199_254_740_991_u64), 9_007_199_254_740_991),
        ];
        for (value, expected) in cases {
            assert_eq!(amount(&value), expected, "{value}");
        }
    }
}
