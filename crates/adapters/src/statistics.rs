//! How large a change is: exact figures of `scale · left · right`, without forming the product.
//!
//! With `G = leftᵀ·left` and `H = right·rightᵀ`, both small, the squares of the singular values are the eigenvalues of
//! `√G·H·√G`.

use std::cmp::Ordering;

use nalgebra::{DMatrix, SymmetricEigen};
use serde::Serialize;

use crate::change::{LowRankChange, Matrix};

/// The largest rank at which the moments of the entries are computed: their cost grows with its fourth power.
const MAX_MOMENT_RANK: usize = 4;

/// The most steps towards the eigenvalues of a matrix. A few for each are enough.
const MAX_ITERATIONS: usize = 100_000;

/// Figures of the change of one matrix.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangeStatistics {
    /// Rows of the matrix that is changed.
    pub outputs: usize,
    /// Its columns.
    pub inputs: usize,
    /// The rank that the factors allow.
    pub rank: usize,
    /// The root of the sum of the squares of all entries.
    pub frobenius: f64,
    /// The largest singular value.
    pub spectral: f64,
    /// The square of the one over that of the other: how many directions the change has.
    pub stable_rank: f64,
    /// The part of the sum of squares that the largest singular value has, 0 to 1.
    pub energy_in_first: f64,
    /// The entropy of these parts over that of equal ones, 0 to 1.
    pub spectral_entropy: f64,
    /// The excess kurtosis of the singular values.
    pub spectral_kurtosis: f64,
    /// The excess kurtosis of the entries; `None` where the rank is too large for it.
    pub entry_kurtosis: Option<f64>,
    /// The largest singular value over the root of the number of rows and columns: it does not grow with the matrix.
    pub relative_spectral: f64,
}

impl ChangeStatistics {
    /// The figures of a change; `None` if its numbers are too large to be computed with.
    pub(crate) fn of(change: &LowRankChange) -> Option<Self> {
        let LowRankChange { scale, left, right } = change;
        // With numbers of at most 1 nothing overflows on the way.
        let largest = f64::from(left.largest()) * f64::from(right.largest());
        let (left, right) = (left.unit(), right.unit());
        let factor = scale.abs() * largest;
        let mut values: Vec<f64> =
            singular_values(&left, &right)?.into_iter().map(|value| value * factor).collect();
        values.sort_by(|a, b| b.total_cmp(a));
        let squares: Vec<f64> = values.iter().map(|value| value * value).collect();
        let total: f64 = squares.iter().sum();
        let spectral = values.first().copied().unwrap_or_default();
        let sides = (left.rows as f64).sqrt() + (right.columns as f64).sqrt();
        total.is_finite().then(|| Self {
            outputs: left.rows,
            inputs: right.columns,
            rank: left.columns,
            frobenius: total.sqrt(),
            spectral,
            stable_rank: over(total, spectral * spectral),
            energy_in_first: over(spectral * spectral, total),
            spectral_entropy: entropy(&squares, total),
            spectral_kurtosis: kurtosis(&values),
            entry_kurtosis: (left.columns <= MAX_MOMENT_RANK)
                .then(|| entry_kurtosis(&left, &right)),
            relative_spectral: over(spectral, sides),
        })
    }
}

/// `a / b`; 0 where there is nothing to compare with.
fn over(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

fn singular_values(left: &Matrix, right: &Matrix) -> Option<Vec<f64>> {
    let (outer, inner) = (gram_of_rows(&left.transposed()), gram_of_rows(right));
    let root = root(outer)?;
    let product = &root * inner * &root;
    // What is not symmetric by the last bit is by its nature.
    let symmetric = (&product + product.transpose()) * 0.5;
    let values = SymmetricEigen::try_new(symmetric, f64::EPSILON, MAX_ITERATIONS)?.eigenvalues;
    Some(values.iter().map(|value| value.max(0.0).sqrt()).collect())
}

/// The root of a symmetric matrix without negative eigenvalues.
fn root(matrix: DMatrix<f64>) -> Option<DMatrix<f64>> {
    let eigen = SymmetricEigen::try_new(matrix, f64::EPSILON, MAX_ITERATIONS)?;
    let roots = eigen.eigenvalues.map(|value| value.max(0.0).sqrt());
    Some(&eigen.eigenvectors * DMatrix::from_diagonal(&roots) * eigen.eigenvectors.transpose())
}

/// `matrix·matrixᵀ`, of which each half is the other one's mirror.
fn gram_of_rows(matrix: &Matrix) -> DMatrix<f64> {
    let half = DMatrix::from_fn(matrix.rows, matrix.rows, |a, b| match a.cmp(&b) {
        Ordering::Less => dot(matrix.row(a), matrix.row(b)),
        Ordering::Equal => dot(matrix.row(a), matrix.row(b)) * 0.5,
        Ordering::Greater => 0.0,
    });
    &half + half.transpose()
}

/// A sum of products, in eight parts that a processor adds side by side.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    let mut sums = [0.0_f64; 8];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    for (a, b) in a.iter().zip(b) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += f64::from(*a) * f64::from(*b);
        }
    }
    let rest = a_rest.iter().zip(b_rest).map(|(a, b)| f64::from(*a) * f64::from(*b));
    sums.iter().sum::<f64>() + rest.sum::<f64>()
}

/// The entropy of parts of `total`, over the largest that it could be.
fn entropy(squares: &[f64], total: f64) -> f64 {
    let parts = squares.iter().map(|square| over(*square, total)).filter(|part| *part > 0.0);
    let entropy: f64 = parts.map(|part| -part * part.ln()).sum();
    over(entropy, (squares.len() as f64).ln())
}

/// The excess kurtosis of a few numbers.
fn kurtosis(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = over(values.iter().sum(), count);
    let [fourth, second] = [4, 2]
        .map(|power| over(values.iter().map(|value| (value - mean).powi(power)).sum(), count));
    excess(fourth, second)
}

fn excess(fourth: f64, second: f64) -> f64 {
    // Numbers that are all the same have none.
    if second > f64::EPSILON * f64::EPSILON { fourth / (second * second) - 3.0 } else { 0.0 }
}

/// The excess kurtosis of the entries of `left·right`: each moment is a sum over choices of columns of `left` of the
/// product of two small sums.
fn entry_kurtosis(left: &Matrix, right: &Matrix) -> f64 {
    let count = left.rows as f64 * right.columns as f64;
    let rows: Vec<Vec<f32>> = (0..left.rows).map(|row| left.row(row).to_vec()).collect();
    let columns: Vec<Vec<f32>> = (0..right.columns)
        .map(|column| {
            (0..right.rows).filter_map(|row| right.row(row).get(column).copied()).collect()
        })
        .collect();
    let [first, second, third, fourth] =
        [1, 2, 3, 4].map(|power| over(moment(&rows, &columns, left.columns, power), count));
    // The mean may be far from 0 beside the spread, but is not for weights.
    let mean = first;
    let variance = second - mean * mean;
    let central = fourth - 4.0 * mean * third + 6.0 * mean * mean * second - 3.0 * mean.powi(4);
    excess(central, variance)
}

/// The sum over all entries of their `power`th power.
fn moment(rows: &[Vec<f32>], columns: &[Vec<f32>], rank: usize, power: u32) -> f64 {
    choices(rank, power)
        .into_iter()
        .map(|choice| sum_of_products(rows, &choice) * sum_of_products(columns, &choice))
        .sum()
}

/// Every choice of `power` of `rank` factors, in order and with repetition.
fn choices(rank: usize, power: u32) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for _ in 0..power {
        let longer = all.iter().flat_map(|choice: &Vec<usize>| {
            (0..rank).map(move |next| choice.iter().copied().chain([next]).collect())
        });
        all = longer.collect();
    }
    all
}

fn sum_of_products(vectors: &[Vec<f32>], choice: &[usize]) -> f64 {
    let products = vectors.iter().map(|vector| {
        let chosen = choice.iter().filter_map(|at| vector.get(*at));
        chosen.map(|number| f64::from(*number)).product::<f64>()
    });
    products.sum()
}
