//! Labels of data sets, checked before training.

/// A label that is neither attack nor benign.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidLabel {
    /// `null`, or no label.
    #[error("row {row} has no label; it must be 0 (benign) or 1 (attack)")]
    Missing {
        /// The row, from 0.
        row: usize,
    },
    /// NaN, or a number that is neither 0 nor 1.
    #[error("row {row} has the label `{label}`; it must be 0 (benign) or 1 (attack)")]
    Neither {
        /// The row, from 0.
        row: usize,
        /// The label found.
        label: f64,
    },
}

/// Reads labels: 1 is an attack, 0 is benign, and any other value is an error.
///
/// # Errors
/// [`InvalidLabel`], naming the first bad row.
pub fn read_labels(labels: &[Option<f64>]) -> Result<Vec<bool>, InvalidLabel> {
    labels
        .iter()
        .enumerate()
        .map(|(row, label)| match *label {
            None => Err(InvalidLabel::Missing { row }),
            Some(1.0) => Ok(true),
            Some(0.0) => Ok(false),
            Some(label) => Err(InvalidLabel::Neither { row, label }),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zero_and_one_are_labels() {
        assert_eq!(read_labels(&[Some(1.0), Some(0.0), Some(-0.0)]), Ok(vec![true, false, false]));
        assert_eq!(read_labels(&[Some(1.0), None]), Err(InvalidLabel::Missing { row: 1 }));
        for label in [f64::NAN, 0.5, 2.0, -1.0, f64::INFINITY] {
            let error = read_labels(&[Some(0.0), Some(label)]).unwrap_err();
            assert!(error.to_string().starts_with("row 1 has the label"), "{error}");
        }
    }
}
