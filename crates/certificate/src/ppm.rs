//! Shares of one, in millionths.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A number from 0 to 1, in whole millionths: two readers of a certificate never differ about an integer, as they may
/// about a fraction.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "u32", into = "u32")]
pub struct Ppm(u32);

/// Why a number is no share of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` millionths are more than one")]
pub struct PpmError(u32);

impl Ppm {
    /// One.
    pub const ONE: Self = Self(1_000_000);
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// The nearest millionth; `None` when `share` is not from 0 to 1.
    pub fn nearest(share: f64) -> Option<Self> {
        let millionths = (share * f64::from(Self::ONE.0)).round();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 0 to 1,000,000 by the test before"
        )]
        (0.0..=1.0).contains(&share).then_some(Self(millionths as u32))
    }

    /// In millionths.
    pub const fn millionths(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for Ppm {
    type Error = PpmError;

    fn try_from(millionths: u32) -> Result<Self, PpmError> {
        if millionths > Self::ONE.0 { Err(PpmError(millionths)) } else { Ok(Self(millionths)) }
    }
}

impl From<Ppm> for u32 {
    fn from(ppm: Ppm) -> Self {
        ppm.0
    }
}

impl fmt::Display for Ppm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / Self::ONE.0, self.0 % Self::ONE.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_kept_to_the_nearest_millionth_and_nothing_else_is_one() {
        let cases = [
            (0.0, Some(0)),
            (0.4375, Some(437_500)),
            (0.000_000_5, Some(1)),
            (1.0, Some(1_000_000)),
            (1.000_000_1, None),
            (-0.1, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
        ];
        for (share, millionths) in cases {
            assert_eq!(Ppm::nearest(share).map(Ppm::millionths), millionths, "{share}");
        }
        assert_eq!(Ppm::nearest(0.0375).unwrap().to_string(), "0.037500");
        assert_eq!(serde_json::to_string(&Ppm::ONE).unwrap(), "1000000");
        for bad in ["1000001", "-1", "0.5", "\"1\""] {
            assert!(serde_json::from_str::<Ppm>(bad).is_err(), "{bad}");
        }
    }
}
