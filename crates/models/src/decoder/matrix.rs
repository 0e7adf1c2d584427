//! A matrix of weights in 8 bits.

use rayon::prelude::*;
use rten_simd::SimdOp;

use crate::decoder::dot::{Levels, Products, Step};
use crate::gemm::{Epilogue, Right, View, multiply};
use crate::gguf::blocks::{self, BLOCK, Block, Decoded};
use crate::gguf::{GgufError, GgufTensor};

/// The minimum number of weights for another thread.
const SHARED_WEIGHTS: usize = 1 << 16;

/// `[rows, inputs]` in 8 bits, 32 numbers to a scale and an offset.
pub(crate) struct Matrix {
    inputs: usize,
    levels: Vec<i8>,
    steps: Vec<Step>,
}

impl Matrix {
    /// The rows of `tensors`, one after another. Each has `inputs` columns, a multiple of 32.
    ///
    /// # Errors
    /// [`GgufError::NotFinite`].
    pub(crate) fn read(tensors: &[GgufTensor<'_>], inputs: usize) -> Result<Self, GgufError> {
        let numbers = tensors.iter().map(|tensor| tensor.shape.iter().product::<usize>()).sum();
        let mut levels = Vec::with_capacity(numbers);
        let mut steps = Vec::with_capacity(numbers / BLOCK);
        for tensor in tensors {
            let mut finite = true;
            blocks::decode(tensor.format, tensor.bytes, &mut |decoded| {
                let block = match decoded {
                    Decoded::Levels(block) => block,
                    Decoded::Numbers(numbers) => {
                        finite &= numbers.iter().all(|number| number.is_finite());
                        Block::nearest(&numbers)
                    }
                };
                finite &= block.scale.is_finite() && block.shift.is_finite();
                levels.extend_from_slice(&block.levels);
                steps.push(Step { scale: block.scale, shift: block.shift });
            });
            if !finite {
                return Err(tensor.not_finite());
            }
        }
        Ok(Self { inputs, levels, steps })
    }

    pub(crate) fn rows(&self) -> usize {
        self.levels.len() / self.inputs
    }

    /// Row `index` as f32, into `out`.
    pub(crate) fn row(&self, index: usize, out: &mut [f32]) {
        let levels = self.levels.chunks_exact(self.inputs).nth(index);
        let steps = self.steps.chunks_exact(self.inputs / BLOCK).nth(index);
        expand(levels.unwrap_or_default(), steps.unwrap_or_default(), out);
    }

    /// `input`, `[tokens, inputs]`, times the matrix: `[tokens, rows]`.
    pub(crate) fn apply(&self, input: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; input.len() / self.inputs * self.rows()];
        if input.len() == self.inputs {
            self.apply_to_one(input, &mut out);
        } else {
            // The f32 form is made again every time: it costs little beside the multiplication of many tokens, and
            // keeping it would take four times the memory.
            let expanded = self.expanded();
            let right = Right::View(View::rows_of(&expanded, self.inputs).transposed());
            multiply(&mut out, View::rows_of(input, self.inputs), right, Epilogue::REPLACE);
        }
        out
    }

    fn apply_to_one(&self, input: &[f32], out: &mut [f32]) {
        let token = Levels::nearest(input);
        let blocks = self.inputs / BLOCK;
        let together = (SHARED_WEIGHTS / self.inputs).max(1);
        out.par_chunks_mut(together)
            .zip(self.levels.par_chunks(together * self.inputs))
            .zip(self.steps.par_chunks(together * blocks))
            .for_each(|((out, levels), steps)| {
                Products { levels, steps, token: &token, out }.dispatch();
            });
    }

    fn expanded(&self) -> Vec<f32> {
        let mut expanded = vec![0.0; self.levels.len()];
        expanded
            .par_chunks_mut(SHARED_WEIGHTS)
            .zip(self.levels.par_chunks(SHARED_WEIGHTS))
            .zip(self.steps.par_chunks(SHARED_WEIGHTS / BLOCK))
            .for_each(|((out, levels), steps)| expand(levels, steps, out));
        expanded
    }
}

fn expand(levels: &[i8], steps: &[Step], out: &mut [f32]) {
    let blocks = levels.as_chunks::<BLOCK>().0.iter().zip(steps);
    for ((levels, step), out) in blocks.zip(out.as_chunks_mut::<BLOCK>().0) {
        for (out, level) in out.iter_mut().zip(levels) {
            *out = f32::from(*level) * step.scale + step.shift;
        }
    }
}
