//! Logistic regression with an L2 penalty, as scikit-learn defines it, fitted by L-BFGS.
//!
//! Sums run in the order of rows and columns, and exponentials come from [`crate::exact_math`], so the result is the
//! same bit for bit on every x86-64 machine. The regression is the head of detector D2 (character n-grams, sparse rows)
//! and of the classifiers on sentence vectors (dense rows).

mod lbfgs;
mod rows;

pub use rows::{Rows, SparseRows};

use crate::exact_math::{sigmoid, softplus};

/// The options of a fit.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FitOptions {
    /// The inverse strength of the penalty, scikit-learn's `C`; above 0.
    pub c: f64,
    /// Whether both classes have the same total weight, whatever their numbers of rows.
    #[serde(rename = "balanced")]
    pub is_balanced: bool,
    /// The fit ends when no component of the gradient of the mean loss is larger.
    pub tolerance: f64,
    /// The largest number of steps; a fit that has not converged by then is an error.
    pub max_iterations: usize,
}

impl Default for FitOptions {
    /// `C = 1`, balanced, and a tolerance of 1e-8: far closer to the optimum than scikit-learn's 1e-4, so that the
    /// result hardly depends on the path of the optimiser.
    fn default() -> Self {
        Self { c: 1.0, is_balanced: true, tolerance: 1e-8, max_iterations: 1000 }
    }
}

/// Why a fit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The gradient is within the tolerance.
    Gradient,
    /// The objective decreases no further than rounding errors.
    Stalled,
    /// The largest number of steps was reached.
    Limit,
}

/// A fitted regression: the decision value of a row is its product with `weights`, plus `intercept`.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// `[columns]`.
    pub weights: Vec<f64>,
    /// The intercept, which is not penalised.
    pub intercept: f64,
    /// The number of steps taken.
    pub iterations: usize,
    /// The largest component of the final gradient.
    pub largest_slope: f64,
    /// The reason for ending.
    pub stop_reason: StopReason,
}

/// Rows or options for which there is no fit.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FitError {
    /// No rows, or rows without columns.
    #[error("the training data is empty: {rows} rows with {columns} columns")]
    Empty {
        /// The number of rows.
        rows: usize,
        /// The number of values in a row.
        columns: usize,
    },
    /// The numbers of rows, labels and weights differ.
    #[error(
        "there are {rows} rows, {labels} labels and {weights} weights; each row needs one label and at most one weight"
    )]
    Lengths {
        /// The number of rows.
        rows: usize,
        /// The number of labels.
        labels: usize,
        /// The number of weights, or of rows if there are no weights.
        weights: usize,
    },
    /// The number of values is not a multiple of the number of columns.
    #[error("{values} values are not a multiple of {columns} columns")]
    Ragged {
        /// The number of values.
        values: usize,
        /// The number of values in a row.
        columns: usize,
    },
    /// The columns of a row are not ascending, or exceed the width.
    #[error("the columns of row {row} are not ascending, or exceed the width")]
    Columns {
        /// The row, from 0.
        row: usize,
    },
    /// A value is NaN or infinite.
    #[error("row {row} contains a value that is not a finite number")]
    NotFinite {
        /// The row, from 0.
        row: usize,
    },
    /// A weight is NaN, infinite or negative.
    #[error("row {row} has the weight `{weight}`; it must be finite and not negative")]
    Weight {
        /// The row, from 0.
        row: usize,
        /// The weight.
        weight: f64,
    },
    /// All rows of positive weight have the same label.
    #[error("all rows are of one class; both classes are required")]
    OneClass,
    /// `c` or `tolerance` is not above 0.
    #[error("`{name}` is `{value}`; it must be a finite number above 0")]
    Option {
        /// The name of the option.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// The largest number of steps was reached.
    #[error(
        "the fit did not converge in {iterations} steps; the largest component of the gradient is {largest_slope:.2e}"
    )]
    NotConverged {
        /// The number of steps taken.
        iterations: usize,
        /// The largest component of the gradient.
        largest_slope: f64,
    },
}

/// Fits a regression to `rows`; `labels` are true for attacks, and `sample_weights` are the weights of the rows.
///
/// With `is_balanced`, the weight of a class is the total weight divided by twice its own. The objective is
/// the weighted
/// mean of the logistic loss plus `|weights|² / (2 · c · total weight)`, as in scikit-learn.
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
    let shares = shares(labels, sample_weights, options.is_balanced)?;
    let columns = rows.columns();
    let penalty = 1.0 / (options.c * shares.total);
    let mut objective =
        Objective { rows, labels, shares, penalty, factors: vec![0.0; labels.len()] };
    let found = lbfgs::minimise(
        |point, gradient| objective.evaluate(point, gradient),
        vec![0.0; columns + 1],
        options.tolerance,
        options.max_iterations,
    );
    if found.stop_reason == StopReason::Limit {
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
        stop_reason: found.stop_reason,
    })
}

/// The weighted mean loss with its penalty, as a function of the weights and the intercept.
struct Objective<'a> {
    rows: Rows<'a>,
    labels: &'a [bool],
    shares: Shares,
    penalty: f64,
    /// A buffer: the derivative of the loss by the decision value of each row.
    factors: Vec<f64>,
}

impl Objective<'_> {
    /// The value at `point`, which is the weights and then the intercept. Fills in the gradient.
    fn evaluate(&mut self, point: &[f64], gradient: &mut [f64]) -> f64 {
        let Self { rows, labels, shares, penalty, factors } = self;
        let columns = rows.columns();
        let (weights, intercept) = point.split_at(columns);
        let mut loss = 0.0;
        rows.products(weights, |row, product| {
            let margin = product + intercept[0];
            let (share, label) = (shares.of_rows[row], labels[row]);
            loss += share * softplus(if label { -margin } else { margin });
            factors[row] = share * (sigmoid(margin) - f64::from(u8::from(label)));
        });
        for (slope, weight) in gradient.iter_mut().zip(weights) {
            *slope = *penalty * weight;
        }
        gradient[columns] = factors.iter().sum();
        rows.add_scaled(factors, &mut gradient[..columns]);
        loss + *penalty / 2.0 * weights.iter().map(|weight| weight * weight).sum::<f64>()
    }
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

/// The relative weights of the rows.
struct Shares {
    /// Their sum is 1.
    of_rows: Vec<f64>,
    /// The sum of the weights before scaling; the penalty is relative to it.
    total: f64,
}

fn shares(
    labels: &[bool],
    sample_weights: Option<&[f64]>,
    is_balanced: bool,
) -> Result<Shares, FitError> {
    let mut of_rows = sample_weights.map_or_else(|| vec![1.0; labels.len()], <[f64]>::to_vec);
    let mut of_class = [0.0, 0.0];
    for (&label, weight) in labels.iter().zip(&of_rows) {
        of_class[usize::from(label)] += weight;
    }
    if of_class.contains(&0.0) {
        return Err(FitError::OneClass);
    }
    let all = of_class[0] + of_class[1];
    let factor = of_class.map(|class| if is_balanced { all / (2.0 * class) } else { 1.0 });
    for (share, &label) in of_rows.iter_mut().zip(labels) {
        *share *= factor[usize::from(label)];
    }
    let total: f64 = of_rows.iter().sum();
    of_rows.iter_mut().for_each(|share| *share /= total);
    Ok(Shares { of_rows, total })
}
