//! The rows a regression is fitted on: sparse (n-grams) or dense (embeddings), with the two products it needs.

use super::FitError;

/// Rows of which most values are zero, one after another.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SparseRows {
    columns: usize,
    /// Where each row ends in `cells`.
    ends: Vec<usize>,
    /// Column and value, rising by column within a row.
    cells: Vec<(u32, f64)>,
}

impl SparseRows {
    /// No rows yet, `columns` wide.
    #[must_use]
    pub fn new(columns: usize) -> Self {
        Self { columns, ..Self::default() }
    }

    /// Appends a row of (column, value), rising by column.
    ///
    /// # Errors
    /// [`FitError::Columns`] if a column stands twice, out of order or beyond the width.
    pub fn push(&mut self, cells: &[(u32, f64)]) -> Result<(), FitError> {
        let row = self.ends.len();
        let rising = cells.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let inside =
            |&(column, _): &(u32, f64)| usize::try_from(column).is_ok_and(|c| c < self.columns);
        if !rising || !cells.last().is_none_or(inside) {
            return Err(FitError::Columns { row });
        }
        self.cells.extend_from_slice(cells);
        self.ends.push(self.cells.len());
        Ok(())
    }

    /// The cells of a row, rising by column; empty beyond the last.
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
    /// Mostly zeros.
    Sparse(&'a SparseRows),
    /// `[rows, columns]`, row after row.
    Dense {
        /// All values; a last row that is not whole is an error of the fit.
        values: &'a [f32],
        /// Values in a row.
        columns: usize,
    },
}

impl Rows<'_> {
    /// How many rows; `None` if the values do not divide into rows.
    pub(super) fn len(&self) -> Option<usize> {
        match *self {
            Rows::Sparse(rows) => Some(rows.ends.len()),
            Rows::Dense { values, columns } => (columns > 0
                && values.len().is_multiple_of(columns))
            .then(|| values.len() / columns),
        }
    }

    /// Values in a row.
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

    /// Calls `each` with every row's number and its product with `weights`, in order.
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
