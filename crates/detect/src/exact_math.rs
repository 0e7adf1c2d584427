//! Exponentials and logarithms with the same bits on every x86-64 machine.
//!
//! The standard library calls the C library of the system, whose results vary with processor and version. `libm` is
//! plain Rust and performs the same operations in the same order everywhere. IEEE 754 defines the results of addition,
//! multiplication, division and the square root, and the compiler neither reorders nor fuses them.

/// `e^x`.
#[must_use]
pub fn exp(x: f64) -> f64 {
    libm::exp(x)
}

/// The natural logarithm of `x`.
#[must_use]
pub fn ln(x: f64) -> f64 {
    libm::log(x)
}

/// The logistic function `1 / (1 + e^-x)`, without overflow: from a decision value to a probability in `[0, 1]`.
#[must_use]
pub fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + exp(-x))
    } else {
        let e = exp(x);
        e / (1.0 + e)
    }
}

/// `ln(1 + e^x)`, without overflow: the logistic loss of a row whose signed margin is `-x`.
#[must_use]
pub fn softplus(x: f64) -> f64 {
    if x > 0.0 { x + libm::log1p(exp(-x)) } else { libm::log1p(exp(x)) }
}

/// The logarithm of the odds, `ln(p / (1 - p))`: the inverse of [`sigmoid`].
#[must_use]
pub fn logit(p: f64) -> f64 {
    ln(p) - libm::log1p(-p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_have_these_bits_on_every_machine() {
        let values = [exp(-0.1), exp(700.5), ln(3.0), softplus(0.3), sigmoid(-2.5), logit(0.01)];
        let bits = values.map(|value| format!("{:x}", value.to_bits()));
        let expected = [
            "3fecf46d99d52b3a",
            "7f18625c7d4f56c2",
            "3ff193ea7aad030a",
            "3feb56e0cf4511b0",
            "3fb36b7112534848",
            "c012616719161d2c",
        ];
        assert_eq!(bits, expected);
    }

    #[test]
    fn the_logistic_functions_are_finite_at_both_ends() {
        assert_eq!(sigmoid(1e4), 1.0);
        assert_eq!(sigmoid(-1e4), 0.0);
        assert_eq!(softplus(1e4), 1e4);
        assert_eq!(softplus(-1e4), 0.0);
        assert!((sigmoid(logit(0.3)) - 0.3).abs() < 1e-15);
    }
}
