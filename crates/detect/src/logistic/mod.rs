//! Logistic regression with an L2 penalty, as scikit-learn defines it, fitted by L-BFGS.
//!
//! Every sum runs in the order of the rows and columns, and the exponentials come from [`crate::exact_math`]: one
//! input gives one result, bit for bit, on any x86-64 machine. It is the head of detector D2 (character n-grams,
//! sparse rows) and of the embedding classifiers (dense rows).

mod lbfgs;
mod rows;

pub use rows::{Rows, SparseRows};

use crate::exact_math::{sigmoid, softplus};

/// How to fit.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FitOptions {
    /// Inverse strength of the penalty, scikit-learn's `C`; above 0.
    pub c: f64,
    /// Whether both classes weigh the same, however many rows each has.
    pub balanced: bool,
    /// The fit ends when no component of the mean loss's gradient is larger.
    pub tolerance: f64,
    /// Steps after which a fit that has not converged is given up.
    pub max_iterations: usize,
}

impl Default for FitOptions {
    /// `C = 1`, balanced, and a gradient of 1e-8: far closer to the optimum than scikit-learn's 1e-4, so that the
    /// result hardly depends on the path taken.
    fn default() -> Self {
        Self { c: 1.0, balanced: true, tolerance: 1e-8, max_iterations: 1000 }
    }
}

/// Why a fit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// The gradient fell to the tolerance.
    Gradient,
    /// The objective could not be lowered any further than rounding allows.
    Stalled,
    /// The steps ran out.
    Limit,
}

/// A fitted regression: the decision value of a row is its product with `weights`, plus `intercept`.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// `[columns]`.
    pub weights: Vec<f64>,
    /// Not penalised.
    pub intercept: f64,
    /// Steps taken.
    pub iterations: usize,
    /// Largest component of the gradient at the end.
    pub largest_slope: f64,
    /// Why it ended.
    pub stopped: Stopped,
}

/// Rows or options that nothing can be learned from.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FitError {
    /// No rows, or rows without columns.
    #[error(
        "there is nothing to learn from: {rows} rows with {columns} columns; check that the file is not empty"
    )]
    Empty {
        /// Rows given.
        rows: usize,
        /// Values in each.
        columns: usize,
    },
    /// The numbers of rows, labels and weights differ.
    #[error(
        "{rows} rows, {labels} labels and {weights} weights; give one label, and one weight if any, for each row"
    )]
    Lengths {
        /// Rows given.
        rows: usize,
        /// Labels given.
        labels: usize,
        /// Weights given, or as many as rows if none were.
        weights: usize,
    },
    /// The values do not divide into rows.
    #[error("{values} values do not make rows of {columns}")]
    Ragged {
        /// Values given.
        values: usize,
        /// Values in a row.
        columns: usize,
    },
    /// Columns stand out of order, twice, or beyond the width.
    #[error("the columns of row {row} do not rise, or pass the width")]
    Columns {
        /// Row, from 0.
        row: usize,
    },
    /// A value is NaN or infinite.
    #[error("row {row} holds a value that is not a finite number; repair or leave out that row")]
    NotFinite {
        /// Row, from 0.
        row: usize,
    },
    /// A weight is NaN, infinite or negative.
    #[error("row {row} has the weight `{weight}`; weights are finite and not negative")]
    Weight {
        /// Row, from 0.
        row: usize,
        /// What was given.
        weight: f64,
    },
    /// All rows (of positive weight) have the same label.
    #[error("the rows are all of one class; add rows of the other")]
    OneClass,
    /// `c` or `tolerance` is not above 0.
    #[error("`{name}` is `{value}`; it must be a finite number above 0")]
    Option {
        /// Which option.
        name: &'static str,
        /// What was given.
        value: f64,
    },
    /// The steps ran out.
    #[error(
        "not converged after {iterations} steps, the gradient is still {largest_slope:.2e}; allow more steps"
    )]
    NotConverged {
        /// Steps taken.
        iterations: usize,
        /// Largest component of the gradient.
        largest_slope: f64,
    },
}

/// Fits a regression to `rows`; `labels` are true for attacks, and `sample_weights` count a row more or less often.
///
/// With `balanced`, a class's weight is the whole weight divided by twice its own. The objective is the weighted mean
/// of the logistic loss plus `|weights|² / (2 · c · whole weight)`, as in scikit-learn.
///
/// # Errors
/// [`FitError`].
pub fn fit(
    rows: Rows<'_>,
    labels: &[bool],
    sample_weights: Option<&[f64]>,
    options: &FitOptions,
) -> Result<Fit, FitError> {
    check(rows, labels, sample_weights, options)?;
    let shares = shares(labels, sample_weights, options.balanced)?;
    let columns = rows.columns();
    let penalty = 1.0 / (options.c * shares.whole);
    let mut factors = vec![0.0; labels.len()];
    let objective = |point: &[f64], gradient: &mut [f64]| {
        let (weights, intercept) = point.split_at(columns);
        let mut loss = 0.0;
        rows.products(weights, |row, product| {
            let margin = product + intercept[0];
            let (share, label) = (shares.of_rows[row], labels[row]);
            loss += share * softplus(if label { -margin } else { margin });
            factors[row] = share * (sigmoid(margin) - f64::from(u8::from(label)));
        });
        for (slope, weight) in gradient.iter_mut().zip(weights) {
            *slope = penalty * weight;
        }
        gradient[columns] = factors.iter().sum();
        rows.add_scaled(&factors, &mut gradient[..columns]);
        loss + penalty / 2.0 * weights.iter().map(|weight| weight * weight).sum::<f64>()
    };
    let found = lbfgs::minimise(
        objective,
        vec![0.0; columns + 1],
        options.tolerance,
        options.max_iterations,
    );
    if found.stopped == Stopped::Limit {
        let (iterations, largest_slope) = (found.iterations, found.largest_slope);
        return Err(FitError::NotConverged { iterations, largest_slope });
    }
    let mut weights = found.point;
    let intercept = weights.pop().unwrap_or(0.0);
    Ok(Fit {
        weights,
        intercept,
        iterations: found.iterations,
        largest_slope: found.largest_slope,
        stopped: found.stopped,
    })
}

fn check(
    rows: Rows<'_>,
    labels: &[bool],
    sample_weights: Option<&[f64]>,
    options: &FitOptions,
) -> Result<(), FitError> {
    for (name, value) in [("c", options.c), ("tolerance", options.tolerance)] {
        if !(value.is_finite() && value > 0.0) {
            return Err(FitError::Option { name, value });
        }
    }
    let columns = rows.columns();
    let Some(count) = rows.len() else {
        let Rows::Dense { values, .. } = rows else {
            return Err(FitError::Empty { rows: 0, columns });
        };
        return Err(FitError::Ragged { values: values.len(), columns });
    };
    if count == 0 || columns == 0 {
        return Err(FitError::Empty { rows: count, columns });
    }
    let weights = sample_weights.map_or(count, <[f64]>::len);
    if labels.len() != count || weights != count {
        return Err(FitError::Lengths { rows: count, labels: labels.len(), weights });
    }
    for (row, &weight) in sample_weights.unwrap_or_default().iter().enumerate() {
        if !(weight.is_finite() && weight >= 0.0) {
            return Err(FitError::Weight { row, weight });
        }
    }
    rows.first_not_finite().map_or(Ok(()), |row| Err(FitError::NotFinite { row }))
}

/// How much each row counts.
struct Shares {
    /// Sums to one.
    of_rows: Vec<f64>,
    /// The sum before it was brought to one; the penalty is measured against it.
    whole: f64,
}

fn shares(
    labels: &[bool],
    sample_weights: Option<&[f64]>,
    balanced: bool,
) -> Result<Shares, FitError> {
    let weight = |row: usize| sample_weights.map_or(1.0, |weights| weights[row]);
    let mut of_class = [0.0, 0.0];
    for (row, &label) in labels.iter().enumerate() {
        of_class[usize::from(label)] += weight(row);
    }
    if of_class.contains(&0.0) {
        return Err(FitError::OneClass);
    }
    let all = of_class[0] + of_class[1];
    let factor = of_class.map(|class| if balanced { all / (2.0 * class) } else { 1.0 });
    let mut of_rows: Vec<f64> = labels
        .iter()
        .enumerate()
        .map(|(row, &label)| weight(row) * factor[usize::from(label)])
        .collect();
    let whole: f64 = of_rows.iter().sum();
    of_rows.iter_mut().for_each(|share| *share /= whole);
    Ok(Shares { of_rows, whole })
}
