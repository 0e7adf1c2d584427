//! The rows of a regression, sparse (n-grams) or dense (sentence vectors), and the products that a fit needs.

use super::FitError;

/// Rows in which most values are zero.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SparseRows {
    columns: usize,
    /// The end of each row in `cells`.
    ends: Vec<usize>,
    /// Columns and values, in ascending order of columns within a row.
    cells: Vec<(u32, f64)>,
}

impl SparseRows {
    /// No rows, with a width of `columns`.
    #[must_use]
    pub fn new(columns: usize) -> Self {
        Self { columns, ..Self::default() }
    }

    /// Appends a row of (column, value), in ascending order of columns.
    ///
    /// # Errors
    /// [`FitError::Columns`] if the columns are not ascending or exceed the width.
    pub fn push(&mut self, cells: &[(u32, f64)]) -> Result<(), FitError> {
        let row = self.ends.len();
        let is_ascending = cells.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let last = cells.last().map(|(column, _)| usize::try_from(*column).unwrap_or(usize::MAX));
        if !is_ascending || last.is_some_and(|last| last >= self.columns) {
            return Err(FitError::Columns { row });
        }
        self.cells.extend_from_slice(cells);
        self.ends.push(self.cells.len());
        Ok(())
    }

    /// The cells of a row, in ascending order of columns; empty for a row that does not exist.
    #[must_use]
    pub fn row(&self, row: usize) -> &[(u32, f64)] {
        let start =
            row.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(row).copied().unwrap_or(start);
        self.cells.get(start..end).unwrap_or_default()
    }
}

/// The rows of a fit.
#[derive(Debug, Clone, Copy)]
pub enum Rows<'a> {
    /// Rows in which most values are zero.
    Sparse(&'a SparseRows),
    /// `[rows, columns]`, row after row.
    Dense {
        /// All values; an incomplete last row is an error of the fit.
        values: &'a [f32],
        /// The number of values in a row.
        columns: usize,
    },
}

impl Rows<'_> {
    /// The number of rows; `None` if the number of values is not a multiple of the number of columns.
    pub(super) fn len(&self) -> Option<usize> {
        match *self {
            Rows::Sparse(rows) => Some(rows.ends.len()),
            Rows::Dense { values, columns } => (columns > 0
                && values.len().is_multiple_of(columns))
            .then(|| values.len() / columns),
        }
    }

    /// The number of values in a row.
    pub(super) fn columns(&self) -> usize {
        match *self {
            Rows::Sparse(rows) => rows.columns,
            Rows::Dense { columns, .. } => columns,
        }
    }

    /// The first row with a value that is not a finite number.
    pub(super) fn first_not_finite(&self) -> Option<usize> {
        match *self {
            Rows::Sparse(rows) => (0..rows.ends.len())
                .find(|&row| rows.row(row).iter().any(|(_, value)| !value.is_finite())),
            Rows::Dense { values, columns } => {
                values.iter().position(|value| !value.is_finite()).map(|at| at / columns.max(1))
            }
        }
    }

    /// Calls `each` with the index of every row and its product with `weights`, in order.
    pub(super) fn products(&self, weights: &[f64], mut each: impl FnMut(usize, f64)) {
        match *self {
            Rows::Sparse(rows) => {
                for row in 0..rows.ends.len() {
                    each(
                        row,
                        rows.row(row)
                            .iter()
                            .map(|&(column, value)| weights[column as usize] * value)
                            .sum(),
                    );
                }
            }
            Rows::Dense { values, columns } => {
                for (row, values) in values.chunks_exact(columns).enumerate() {
                    each(
                        row,
                        values
                            .iter()
                            .zip(weights)
                            .map(|(&value, weight)| f64::from(value) * weight)
                            .sum(),
                    );
                }
            }
        }
    }

    /// Adds `factors[row] * row` to `sum`, for every row in order.
    pub(super) fn add_scaled(&self, factors: &[f64], sum: &mut [f64]) {
        match *self {
            Rows::Sparse(rows) => {
                for (row, factor) in factors.iter().enumerate() {
                    for &(column, value) in rows.row(row) {
                        sum[column as usize] += factor * value;
                    }
                }
            }
            Rows::Dense { values, columns } => {
                for (values, factor) in values.chunks_exact(columns).zip(factors) {
                    for (sum, &value) in sum.iter_mut().zip(values) {
                        *sum += factor * f64::from(value);
                    }
                }
            }
        }
    }
}
