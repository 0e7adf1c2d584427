//! Rotary position embedding: each pair of a head's numbers is rotated by an angle proportional to the position.
//!
//! Source: Su et al. 2021, "RoFormer".

use crate::decoder::config::{Architecture, DecoderConfig};

/// The rotations of every pair at some positions of a text.
pub(crate) struct Rotation {
    pairs: usize,
    /// `[positions, pairs]`: cosine and sine.
    turns: Vec<(f32, f32)>,
    architecture: Architecture,
}

impl Rotation {
    /// For `count` tokens, the first of which is number `first` of the text.
    pub(crate) fn new(
        config: &DecoderConfig,
        slowdown: Option<&[f32]>,
        first: usize,
        count: usize,
    ) -> Self {
        let pairs = config.rotated / 2;
        let speeds: Vec<f64> = (0..pairs)
            .map(|pair| {
                let share = 2.0 * pair as f64 / config.rotated as f64;
                let factor = slowdown.map_or(1.0, |factors| f64::from(factors[pair]));
                config.frequency_base.powf(-share) / factor
            })
            .collect();
        let turns = (first..first + count)
            .flat_map(|place| speeds.iter().map(move |speed| cosine_and_sine(place as f64 * speed)))
            .collect();
        Self { pairs, turns, architecture: config.architecture }
    }

    /// Rotates one head of token `index` in place.
    pub(crate) fn turn(&self, index: usize, head: &mut [f32]) {
        let turns = &self.turns[index * self.pairs..][..self.pairs];
        for (pair, (cosine, sine)) in turns.iter().enumerate() {
            // The same formula; the architectures differ in which two numbers make a pair.
            let (first, second) = match self.architecture {
                Architecture::Llama => (2 * pair, 2 * pair + 1),
                Architecture::Qwen2 => (pair, pair + self.pairs),
            };
            let (left, right) = (head[first], head[second]);
            head[first] = left * cosine - right * sine;
            head[second] = left * sine + right * cosine;
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounded on purpose, from f64")]
fn cosine_and_sine(angle: f64) -> (f32, f32) {
    (angle.cos() as f32, angle.sin() as f32)
}
