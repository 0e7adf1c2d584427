//! Products of 8-bit rows with 16-bit tokens, on the widest vectors the processor has.
//!
//! 16 bits, because processors multiply 8-bit numbers as 16-bit ones anyway, and a token rounded to 8 bits can change
//! which word is the likeliest. Within 32 numbers the sum is one of whole numbers and exact; the 32s are added in the
//! order in which they stand. So the result depends neither on the processor nor on the number of threads.

use rten_simd::{Isa, SimdOp};

use crate::gguf::blocks::BLOCK;

/// The largest level of a token.
const GREATEST: f32 = 32767.0;

/// The scale and the offset of 32 numbers of a matrix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Step {
    pub(crate) scale: f32,
    pub(crate) shift: f32,
}

/// The numbers of one token in 16 bits: `level · scale`, 32 to a scale.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    levels: Vec<i16>,
    /// Per 32 numbers, their scale and their sum.
    steps: Vec<(f32, f32)>,
}

impl Levels {
    /// The nearest to `numbers`, whose count is a multiple of 32.
    pub(crate) fn nearest(numbers: &[f32]) -> Self {
        let mut levels = vec![0; numbers.len()];
        let mut steps = vec![(0.0, 0.0); numbers.len() / BLOCK];
        Round { numbers, levels: &mut levels, steps: &mut steps }.dispatch();
        Self { levels, steps }
    }

    #[cfg(test)]
    pub(crate) fn numbers(&self) -> Vec<f32> {
        let scales = self.steps.iter().flat_map(|(scale, _)| [*scale; BLOCK]);
        self.levels.iter().zip(scales).map(|(level, scale)| f32::from(*level) * scale).collect()
    }
}

struct Round<'a> {
    numbers: &'a [f32],
    levels: &'a mut [i16],
    steps: &'a mut [(f32, f32)],
}

impl SimdOp for Round<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) {
        let blocks = self.numbers.as_chunks::<BLOCK>().0.iter();
        let levels = self.levels.as_chunks_mut::<BLOCK>().0.iter_mut();
        for ((numbers, levels), step) in blocks.zip(levels).zip(self.steps) {
            let greatest = numbers.iter().fold(0.0_f32, |most, number| most.max(number.abs()));
            let inverse = if greatest > 0.0 { GREATEST / greatest } else { 0.0 };
            let mut sum = 0;
            for (level, number) in levels.iter_mut().zip(numbers) {
                #[expect(clippy::cast_possible_truncation, reason = "16 bits by the scale")]
                let nearest = (number * inverse).round_ties_even() as i16;
                *level = nearest;
                sum += i32::from(nearest);
            }
            let scale = greatest / GREATEST;
            *step = (scale, scale * sum as f32);
        }
    }
}

/// Rows of 8-bit numbers times one token.
pub(crate) struct Products<'a> {
    /// `[rows, inputs]`.
    pub(crate) levels: &'a [i8],
    /// `[rows, inputs / 32]`.
    pub(crate) steps: &'a [Step],
    /// `[inputs]`.
    pub(crate) token: &'a Levels,
    /// `[rows]`.
    pub(crate) out: &'a mut [f32],
}

impl SimdOp for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) {
        let (inputs, blocks) = (self.token.levels.len(), self.token.steps.len());
        let rows = self.levels.chunks_exact(inputs).zip(self.steps.chunks_exact(blocks));
        for ((levels, steps), out) in rows.zip(self.out) {
            *out = product(levels, steps, self.token);
        }
    }
}

/// One row times one token.
///
/// 32 products of at most 128 · 32767 stay far below what an `i32` holds.
#[inline(always)]
fn product(levels: &[i8], steps: &[Step], token: &Levels) -> f32 {
    let row = levels.as_chunks::<BLOCK>().0.iter().zip(steps);
    let token = token.levels.as_chunks::<BLOCK>().0.iter().zip(&token.steps);
    let (mut product, mut shifted) = (0.0, 0.0);
    for ((levels, step), (token, (scale, sum))) in row.zip(token) {
        let pairs = levels.iter().zip(token);
        let whole: i32 = pairs.map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
        product += whole as f32 * (step.scale * scale);
        shifted += step.shift * sum;
    }
    product + shifted
}

/// The attention scores of one query: `scale · query · key` for each key.
pub(crate) struct Scores<'a> {
    /// `[width]`.
    pub(crate) query: &'a [f32],
    /// `[keys, width]`.
    pub(crate) keys: &'a [f32],
    pub(crate) scale: f32,
    /// `[keys]`.
    pub(crate) out: &'a mut [f32],
}

impl SimdOp for Scores<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) {
        for (key, out) in self.keys.chunks_exact(self.query.len()).zip(self.out) {
            *out = self.scale * float_product(self.query, key);
        }
    }
}

/// The sum of products, in sixteen sums of every sixteenth: an order that vectors of any width can keep.
#[inline(always)]
fn float_product(left: &[f32], right: &[f32]) -> f32 {
    let mut sums = [0.0; 16];
    let ((left, left_rest), (right, right_rest)) =
        (left.as_chunks::<16>(), right.as_chunks::<16>());
    for (left, right) in left.iter().zip(right) {
        for ((sum, left), right) in sums.iter_mut().zip(left).zip(right) {
            *sum += left * right;
        }
    }
    let rest: f32 = left_rest.iter().zip(right_rest).map(|(left, right)| left * right).sum();
    sums.iter().sum::<f32>() + rest
}

/// A weighted sum of rows.
pub(crate) struct Mixture<'a> {
    /// `[rows]`.
    pub(crate) weights: &'a [f32],
    /// `[rows, width]`.
    pub(crate) rows: &'a [f32],
    /// `[width]`, which is replaced.
    pub(crate) out: &'a mut [f32],
}

impl SimdOp for Mixture<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) {
        self.out.fill(0.0);
        for (weight, row) in self.weights.iter().zip(self.rows.chunks_exact(self.out.len())) {
            for (out, number) in self.out.iter_mut().zip(row) {
                *out += weight * number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waves(count: usize, step: f32) -> Vec<f32> {
        (0..count).map(|at| (at as f32 * step).sin()).collect()
    }

    #[test]
    fn rounding_a_token_has_an_error_of_at_most_half_a_step() {
        let numbers = [waves(64, 0.7), vec![0.0; 32]].concat();
        let found = Levels::nearest(&numbers).numbers();
        for (found, wanted) in found.iter().zip(&numbers) {
            assert!((found - wanted).abs() <= 0.501 / GREATEST, "{found} {wanted}");
        }
    }

    #[test]
    fn products_match_the_rounded_numbers() {
        let (inputs, rows) = (96, 5);
        let token = Levels::nearest(&waves(inputs, 0.3));
        // A wave; where it exceeds an `i8`, adjacent extremes, which a narrow sum would overflow.
        let levels: Vec<i8> = (0..inputs * rows)
            .map(|at| i8::try_from((at * 89 + 7) % 256).unwrap_or(if at < 64 { -128 } else { 127 }))
            .collect();
        let steps: Vec<Step> = (0..rows * inputs / BLOCK)
            .map(|at| Step { scale: 0.01 * (at + 1) as f32, shift: 0.1 - 0.02 * at as f32 })
            .collect();
        let mut out = vec![0.0; rows];
        Products { levels: &levels, steps: &steps, token: &token, out: &mut out }.dispatch();
        let numbers = token.numbers();
        for (row, found) in out.iter().enumerate() {
            let wanted: f64 = (0..inputs)
                .map(|at| {
                    let Step { scale, shift } = steps[(row * inputs + at) / BLOCK];
                    let level = f64::from(levels[row * inputs + at]);
                    (level * f64::from(scale) + f64::from(shift)) * f64::from(numbers[at])
                })
                .sum();
            assert!((f64::from(*found) - wanted).abs() < 1e-3, "{found} {wanted}");
        }
    }

    #[test]
    fn scores_and_mixtures_match_their_definitions() {
        let (query, keys) = (waves(40, 0.9), waves(120, 0.2));
        let mut scores = [0.0; 3];
        Scores { query: &query, keys: &keys, scale: 0.5, out: &mut scores }.dispatch();
        for (score, key) in scores.iter().zip(keys.chunks_exact(40)) {
            let wanted: f32 = query.iter().zip(key).map(|(a, b)| a * b).sum();
            assert!((score - 0.5 * wanted).abs() < 1e-5, "{score}");
        }
        let mut out = [9.0; 2];
        Mixture { weights: &[0.5, 2.0], rows: &[2.0, 4.0, 1.0, -1.0], out: &mut out }.dispatch();
        assert_eq!(out, [3.0, 0.0]);
    }
}
