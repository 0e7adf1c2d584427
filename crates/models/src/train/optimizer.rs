//! AdamW with linear warm-up and decay, and clipping by the global norm.
//!
//! Source: Loshchilov and Hutter 2019, "Decoupled weight decay regularization".

use std::ops::Range;

use rayon::prelude::*;

use crate::train::run::Blocks;

const FIRST_DECAY: f32 = 0.9;
const SECOND_DECAY: f32 = 0.999;
const EPSILON: f32 = 1e-8;
/// Norms are summed over runs of this length, in order, so that threads do not change them.
const RUN: usize = 1 << 16;

/// The moving averages of the gradients of every trained block.
pub(crate) struct AdamW {
    first: Blocks,
    second: Blocks,
    /// Where each block is decayed: matrices and tables, but neither biases nor normalisations.
    decayed: Vec<Vec<Range<usize>>>,
    weight_decay: f32,
    step: i32,
}

impl AdamW {
    /// For `blocks` of which those that are empty in `gradients` are frozen.
    pub(crate) fn new(
        gradients: &Blocks,
        decayed: Vec<Vec<Range<usize>>>,
        weight_decay: f32,
    ) -> Self {
        let first: Blocks = gradients.iter().map(|block| vec![0.0; block.len()]).collect();
        Self { second: first.clone(), first, decayed, weight_decay, step: 0 }
    }

    /// One step along `gradients` with `learning_rate`, after scaling them down to `clip_norm` if they are longer.
    ///
    /// Returns the norm before clipping.
    pub(crate) fn step(
        &mut self,
        blocks: &mut Blocks,
        gradients: &Blocks,
        learning_rate: f32,
        clip_norm: f32,
    ) -> f32 {
        let norm = global_norm(gradients);
        let clip = if norm > clip_norm { clip_norm / norm } else { 1.0 };
        self.step += 1;
        let rate = Rate {
            clip,
            step: learning_rate / (1.0 - FIRST_DECAY.powi(self.step)),
            second: 1.0 / (1.0 - SECOND_DECAY.powi(self.step)),
        };
        for index in 0..blocks.len() {
            if gradients[index].is_empty() {
                continue;
            }
            let shrink = 1.0 - learning_rate * self.weight_decay;
            for range in &self.decayed[index] {
                blocks[index][range.clone()].par_iter_mut().for_each(|weight| *weight *= shrink);
            }
            let moments =
                self.first[index].par_chunks_mut(RUN).zip(self.second[index].par_chunks_mut(RUN));
            let weights = blocks[index].par_chunks_mut(RUN).zip(gradients[index].par_chunks(RUN));
            weights.zip(moments).for_each(|((weights, gradients), (first, second))| {
                update(weights, gradients, first, second, rate);
            });
        }
        norm
    }
}

#[derive(Clone, Copy)]
struct Rate {
    clip: f32,
    step: f32,
    second: f32,
}

fn update(
    weights: &mut [f32],
    gradients: &[f32],
    first: &mut [f32],
    second: &mut [f32],
    rate: Rate,
) {
    let moments = first.iter_mut().zip(second);
    for ((weight, gradient), (first, second)) in weights.iter_mut().zip(gradients).zip(moments) {
        let gradient = gradient * rate.clip;
        *first = FIRST_DECAY * *first + (1.0 - FIRST_DECAY) * gradient;
        *second = SECOND_DECAY * *second + (1.0 - SECOND_DECAY) * gradient * gradient;
        *weight -= rate.step * *first / ((*second * rate.second).sqrt() + EPSILON);
    }
}

fn sum_of_squares(run: &[f32]) -> f64 {
    run.iter().map(|number| f64::from(*number) * f64::from(*number)).sum()
}

fn global_norm(gradients: &Blocks) -> f32 {
    let total: f64 = gradients
        .iter()
        .flat_map(|block| block.par_chunks(RUN).map(sum_of_squares).collect::<Vec<f64>>())
        .sum();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a norm too large for f32 becomes infinite, which is noticed"
    )]
    let norm = total.sqrt() as f32;
    norm
}

/// The share of the full learning rate at `step` of `total`: up in a line over the first `warmup` of all
/// steps, then down in a line to zero.
pub(crate) fn schedule(step: usize, total: usize, warmup: f32) -> f32 {
    let (step, total) = (step as f32, total as f32);
    let rise = (warmup * total).max(1.0);
    if step < rise { (step + 1.0) / rise } else { (total - step) / (total - rise).max(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_those_of_the_published_algorithm() {
        // torch.optim.AdamW(lr=0.1, weight_decay=0.5) on w = (1, -2) with these gradients.
        let gradients = [[0.5, -0.25], [0.1, 0.3]];
        let mut blocks = vec![vec![1.0, -2.0]];
        let mut adam = AdamW::new(&vec![vec![0.0; 2]], vec![vec![0..2]], 0.5);
        for gradient in gradients {
            adam.step(&mut blocks, &vec![gradient.to_vec()], 0.1, 1e9);
        }
        for (found, expected) in blocks[0].iter().zip([0.7271959, -1.7242944]) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }

    /// The first moment after one step along `gradient`, clipped to `clip_norm`.
    fn first_moment(gradient: f32, clip_norm: f32) -> f32 {
        let mut blocks = vec![vec![0.0]];
        let mut adam = AdamW::new(&vec![vec![0.0]], vec![vec![]], 0.0);
        adam.step(&mut blocks, &vec![vec![gradient]], 0.1, clip_norm);
        adam.first[0][0]
    }

    #[test]
    fn only_a_long_gradient_is_clipped() {
        assert_eq!(global_norm(&vec![vec![3.0], vec![], vec![4.0]]), 5.0);
        assert_eq!(first_moment(10.0, 1.0), first_moment(1.0, 1.0));
        assert_eq!(first_moment(0.5, 1.0), first_moment(0.5, 1e9));
    }

    #[test]
    fn the_rate_rises_and_falls_in_lines() {
        let rates: Vec<f32> = (0..10).map(|step| schedule(step, 10, 0.2)).collect();
        let expected = [0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125];
        assert_eq!(rates, expected);
    }
}
