//! Matrices as differences from those of a base model, in three bits a number and a scale a row.
//!
//! Fine-tuning moves each weight by little, so that three bits of the difference lose less than eight bits of the
//! weight would. Source: Liu et al. 2024, "BitDelta: Your Fine-Tune May Only Be Worth One Bit",
//! [arXiv:2402.10193](https://arxiv.org/abs/2402.10193).

/// Numbers that are packed together, in [`PACKED`] bytes.
const GROUP: usize = 8;
/// Bytes of one packed group.
const PACKED: usize = 3;
/// Codes are 0 to 7 and stand for multiples of the row's scale, from -3.5 to 3.5: as many above zero as below.
const MIDDLE: f32 = 3.5;
/// The scales that are tried for a row, as shares of the one that reaches its largest difference. A smaller scale cuts
/// the few largest differences off and stores all others more precisely.
const SHARES: [f32; 10] = [1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55];

/// What a matrix adds to that of its base.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Difference {
    /// The codes of all numbers, row by row, packed.
    pub(crate) codes: Vec<u8>,
    /// One for each row.
    pub(crate) scales: Vec<f32>,
}

/// The number of bytes that the codes of `numbers` numbers take.
pub(crate) fn packed_len(numbers: usize) -> usize {
    numbers.div_ceil(GROUP) * PACKED
}

impl Difference {
    /// The closest stored difference between two matrices of rows of `width` numbers.
    pub(crate) fn between(base: &[f32], tuned: &[f32], width: usize) -> Self {
        let mut codes = Vec::with_capacity(tuned.len());
        let mut scales = Vec::new();
        for (base, tuned) in base.chunks_exact(width).zip(tuned.chunks_exact(width)) {
            let row: Vec<f32> = tuned.iter().zip(base).map(|(tuned, base)| tuned - base).collect();
            let scale = best_scale(&row);
            codes.extend(row.iter().map(|number| code(*number, scale)));
            scales.push(scale);
        }
        Self { codes: codes.chunks(GROUP).flat_map(pack).collect(), scales }
    }

    /// Adds the difference to a matrix of rows of `width` numbers.
    pub(crate) fn add_to(&self, matrix: &mut [f32], width: usize) {
        let (groups, _) = self.codes.as_chunks::<PACKED>();
        let mut codes = groups.iter().flat_map(unpack);
        for (row, scale) in matrix.chunks_exact_mut(width).zip(&self.scales) {
            for (number, code) in row.iter_mut().zip(codes.by_ref()) {
                *number += value(code, *scale);
            }
        }
    }
}

fn value(code: u8, scale: f32) -> f32 {
    scale * (f32::from(code) - MIDDLE)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 0..=7 before"
)]
fn code(number: f32, scale: f32) -> u8 {
    if scale == 0.0 {
        return 0;
    }
    (number / scale + MIDDLE).round().clamp(0.0, 2.0 * MIDDLE) as u8
}

/// The scale with the smallest squared error; 0 for a row without a difference.
fn best_scale(row: &[f32]) -> f32 {
    let largest = row.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
    let scales = SHARES.map(|share| share * largest / MIDDLE);
    let best = scales.into_iter().min_by(|a, b| error(row, *a).total_cmp(&error(row, *b)));
    best.unwrap_or(0.0)
}

/// The squared error of a row that is stored with `scale`.
fn error(row: &[f32], scale: f32) -> f32 {
    row.iter().map(|number| (number - value(code(*number, scale), scale)).powi(2)).sum()
}

fn pack(codes: &[u8]) -> [u8; PACKED] {
    let bits = codes.iter().rev().fold(0_u32, |bits, code| bits << 3 | u32::from(*code));
    // The codes at the end of a matrix may be fewer than eight: the rest is zero.
    let [first, second, third, _] = bits.to_le_bytes();
    [first, second, third]
}

fn unpack(bytes: &[u8; PACKED]) -> [u8; GROUP] {
    let [first, second, third] = *bytes;
    let bits = u32::from_le_bytes([first, second, third, 0]);
    std::array::from_fn(|at| (bits >> (3 * at)).to_le_bytes()[0] & 0b111)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn codes_are_unpacked_as_they_were_packed(codes in proptest::collection::vec(0_u8..8, 1..=GROUP)) {
            let unpacked = unpack(&pack(&codes));
            prop_assert_eq!(&unpacked[..codes.len()], &codes[..]);
        }

        /// A difference within the range of the codes is off by half a step of its row's scale at most, one that is cut
        /// off by what the smaller scale gains elsewhere: never by more than it was without the difference.
        #[test]
        fn a_row_comes_closer_to_the_tuned_one(
            rows in proptest::collection::vec(proptest::array::uniform5(-1.0_f32..1.0), 1..9),
        ) {
            let base = vec![0.25_f32; rows.len() * 5];
            let tuned: Vec<f32> = rows.iter().flatten().map(|number| 0.25 + number).collect();
            let difference = Difference::between(&base, &tuned, 5);
            prop_assert_eq!(difference.codes.len(), packed_len(tuned.len()));
            let mut restored = base.clone();
            difference.add_to(&mut restored, 5);
            let rows = restored.chunks_exact(5).zip(tuned.chunks_exact(5)).zip(&difference.scales);
            for ((restored, tuned), scale) in rows {
                for (restored, tuned) in restored.iter().zip(tuned) {
                    let reach = MIDDLE * scale;
                    let cut_off = ((tuned - 0.25).abs() - reach).max(0.0);
                    prop_assert!((restored - tuned).abs() <= cut_off.max(scale / 2.0) + 1e-5);
                }
            }
        }
    }

    #[test]
    fn a_row_without_a_difference_stays_as_it_is() {
        let base = [0.1, -0.3, 7.0, 0.5];
        let tuned = [0.1, -0.3, 7.5, 0.25];
        let difference = Difference::between(&base, &tuned, 2);
        assert_eq!(difference.scales[0], 0.0);
        let mut restored = base;
        difference.add_to(&mut restored, 2);
        assert_eq!(restored[..2], base[..2]);
        assert_ne!(restored[2..], base[2..]);
    }
}
