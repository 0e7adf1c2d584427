//! Row operations of a transformer on the widest vectors the processor has.

use rayon::prelude::*;
use rten_simd::{SimdOp, SimdUnaryOp};
use rten_vecmath::{
    Gelu, Normalize, NormalizeOptions, Silu, Softmax, Sum, SumSquare, SumSquareSub,
};

/// The minimum amount of work for another thread.
const SHARED_NUMBERS: usize = 1 << 15;

/// Softmax of every row of `columns` numbers, in place.
pub(crate) fn softmax_rows(data: &mut [f32], columns: usize) {
    for row in data.chunks_exact_mut(columns) {
        Softmax::new_mut(row).dispatch();
    }
}

/// `x · Φ(x)` of every number, in place.
///
/// Φ by Abramowitz and Stegun's approximation 7.1.26, off by less than 7e-7.
pub(crate) fn gelu(data: &mut [f32]) {
    data.par_chunks_mut(SHARED_NUMBERS).for_each(|chunk| Gelu {}.map_mut(chunk));
}

/// `x · σ(x)` of every number, in place.
pub(crate) fn silu(data: &mut [f32]) {
    Silu {}.map_mut(data);
}

/// Layer normalisation of every row of `gain.len()` numbers, in place.
pub(crate) fn norm_rows(data: &mut [f32], gain: &[f32], bias: &[f32], epsilon: f32) {
    for row in data.chunks_exact_mut(gain.len()) {
        let (mean, scale) = moments(row, epsilon);
        let options = NormalizeOptions {
            pre_scale_bias: mean,
            scale,
            element_scale: Some(gain),
            bias: 0.0,
            element_bias: Some(bias),
        };
        Normalize::new_mut(row, options).dispatch();
    }
}

/// Every row of `gain.len()` numbers over its root mean square, times `gain`, in place.
///
/// Source: Zhang and Sennrich 2019, "Root Mean Square Layer Normalization".
pub(crate) fn root_norm_rows(data: &mut [f32], gain: &[f32], epsilon: f32) {
    for row in data.chunks_exact_mut(gain.len()) {
        let mean_square = SumSquare::new(row).dispatch() / row.len() as f32;
        let scale = 1.0 / (mean_square + epsilon).sqrt();
        for (number, gain) in row.iter_mut().zip(gain) {
            *number *= scale * gain;
        }
    }
}

/// The mean of a row, and one over its standard deviation.
pub(crate) fn moments(row: &[f32], epsilon: f32) -> (f32, f32) {
    let count = row.len() as f32;
    let mean = Sum::new(row).dispatch() / count;
    let variance = SumSquareSub::new(row, mean).dispatch() / count;
    (mean, 1.0 / (variance + epsilon).sqrt())
}

/// `to += from`, number by number.
pub(crate) fn add(to: &mut [f32], from: &[f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += from;
    }
}
