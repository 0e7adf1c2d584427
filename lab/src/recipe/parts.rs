//! Which rows of the sets that may train are kept to calibrate on.
//!
//! The part of a text follows from the text alone, so that equal texts stay together wherever they come
//! from, and a row that is added later moves no other. Third-party documents have parts of their own
//! ([`part_of`](crate::sets::parts::part_of)).

use crate::sets::parts::{SetPart, hash};

/// The part of a row that may train: three quarters train, one quarter calibrates.
pub fn of_training_row(text: &str) -> SetPart {
    // The hundreds, because documents are parted by the last two digits of the same number.
    if hash(text) / 100 % 4 < 3 { SetPart::Train } else { SetPart::Calibration }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_rows_calibrates() {
        let parts = (0..2_000).map(|row| of_training_row(&format!("row {row}")));
        let calibrating = parts.filter(|part| *part == SetPart::Calibration).count();
        assert!((430..570).contains(&calibrating), "{calibrating}");
    }
}
