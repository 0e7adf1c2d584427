//! The derivatives of the row operations, and the sums they need.

use rten_simd::ops::{BitOps, FloatOps, NumOps};
use rten_simd::{Isa, SimdOp, SimdUnaryOp};
use rten_vecmath::{Erf, Exp, Sum};

/// `to += factor · from`, number by number.
pub(super) fn add_scaled(to: &mut [f32], from: &[f32], factor: f32) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += factor * from;
    }
}

/// `to += left · right`, number by number.
pub(super) fn add_product(to: &mut [f32], left: &[f32], right: &[f32]) {
    for ((to, left), right) in to.iter_mut().zip(left).zip(right) {
        *to += left * right;
    }
}

/// The derivative of GELU: `Φ(x) + x · φ(x)`.
struct GeluDerivative;

impl SimdUnaryOp<f32> for GeluDerivative {
    #[inline(always)]
    fn eval<I: Isa>(&self, isa: I, x: I::F32) -> I::F32 {
        let ops = isa.f32();
        let scaled = ops.mul(x, ops.splat(std::f32::consts::FRAC_1_SQRT_2));
        let half = ops.splat(0.5);
        let below = ops.mul_add(Erf::apply(isa, scaled), half, half);
        let bell = Exp::apply(isa, ops.neg(ops.mul(scaled, scaled)));
        // 1 / sqrt(2 π)
        let density = ops.mul(bell, ops.splat(0.398_942_3));
        ops.mul_add(x, density, below)
    }
}

/// Multiplies `d` by the derivative of GELU at `x`; `x` is overwritten.
pub(super) fn gelu_backward(d: &mut [f32], x: &mut [f32]) {
    GeluDerivative.map_mut(x);
    for (d, derivative) in d.iter_mut().zip(x) {
        *d *= *derivative;
    }
}

/// Turns the gradient of softmax probabilities into that of the numbers before scaling and softmax, row by row.
pub(super) fn softmax_backward(d: &mut [f32], probabilities: &[f32], columns: usize, scale: f32) {
    for (d, probabilities) in d.chunks_exact_mut(columns).zip(probabilities.chunks_exact(columns)) {
        let mean = dot(d, probabilities);
        for (d, probability) in d.iter_mut().zip(probabilities) {
            *d = scale * probability * (*d - mean);
        }
    }
}

/// Turns the gradient of one normalised, scaled row into that of the row before; `scale` is one over its deviation.
pub(super) fn norm_backward(d: &mut [f32], normal: &[f32], gain: &[f32], scale: f32) {
    for (d, gain) in d.iter_mut().zip(gain) {
        *d *= gain;
    }
    let count = d.len() as f32;
    let mean = Sum::new(d).dispatch() / count;
    let along = dot(d, normal) / count;
    for (d, normal) in d.iter_mut().zip(normal) {
        *d = scale * (*d - mean - normal * along);
    }
}

/// The inner product, summed in eight lanes so that it can be vectorised.
fn dot(left: &[f32], right: &[f32]) -> f32 {
    let mut lanes = [0.0; 8];
    let (left_chunks, left_rest) = left.as_chunks::<8>();
    let (right_chunks, right_rest) = right.as_chunks::<8>();
    for (left, right) in left_chunks.iter().zip(right_chunks) {
        for lane in 0..8 {
            lanes[lane] += left[lane] * right[lane];
        }
    }
    let rest: f32 = left_rest.iter().zip(right_rest).map(|(a, b)| a * b).sum();
    lanes.iter().sum::<f32>() + rest
}
