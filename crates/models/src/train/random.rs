//! Seeded random numbers: the same seed gives the same training, on every machine.

/// xoshiro256++, seeded through splitmix64.
///
/// Source: Blackman and Vigna 2021, "Scrambled linear pseudorandom number generators".
#[derive(Debug, Clone)]
pub(crate) struct Random([u64; 4]);

impl Random {
    /// A generator for one use, told apart from others of the same seed by `place`.
    pub(crate) fn new(seed: u64, place: &[u64]) -> Self {
        let mut state = seed;
        for part in place {
            state = splitmix(&mut state) ^ part;
        }
        Self([(); 4].map(|()| splitmix(&mut state)))
    }

    pub(crate) fn next(&mut self) -> u64 {
        let state = &mut self.0;
        let result = state[0].wrapping_add(state[3]).rotate_left(23).wrapping_add(state[0]);
        let shifted = state[1] << 17;
        state[2] ^= state[0];
        state[3] ^= state[1];
        state[1] ^= state[2];
        state[0] ^= state[3];
        state[2] ^= shifted;
        state[3] = state[3].rotate_left(45);
        result
    }

    /// A number below `bound`, all about equally likely (the bias is below `bound / 2^64`).
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let product = u128::from(self.next()) * bound as u128;
        usize::try_from(product >> 64)
            .expect("the high half of a product with `bound` is below `bound`")
    }

    /// A number in `[-1, 1)`.
    pub(crate) fn signed_unit(&mut self) -> f32 {
        let bits = u16::try_from(self.next() >> 48).expect("sixteen bits are left");
        f32::from(bits) / 32768.0 - 1.0
    }

    /// Puts `items` into random order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Dropout: which numbers of one run are set to zero.
///
/// Masks are not kept: the backward pass draws them again from the same seed and place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dropout {
    /// Of 65536 numbers, how many are dropped.
    dropped: u16,
    scale: f32,
    seed: u64,
}

impl Dropout {
    /// `rate` is in `[0, 1)`.
    pub(crate) fn new(rate: f32, seed: u64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate below 1 gives 16 bits"
        )]
        let dropped = (rate * 65536.0) as u16;
        Self { dropped, scale: 1.0 / (1.0 - f32::from(dropped) / 65536.0), seed }
    }

    /// The masks of one place in the network.
    pub(crate) fn at(self, layer: usize, site: u64) -> Mask {
        let random = (self.dropped > 0).then(|| Random::new(self.seed, &[layer as u64, site]));
        Mask { dropout: self, random }
    }
}

/// One place's stream of masks.
pub(crate) struct Mask {
    dropout: Dropout,
    random: Option<Random>,
}

impl Mask {
    /// Drops from `data` and scales what is left, so that the expected value stays.
    pub(crate) fn apply(&mut self, data: &mut [f32]) {
        let Some(random) = &mut self.random else { return };
        for four in data.chunks_mut(4) {
            let bits = random.next().to_le_bytes();
            for (number, pair) in four.iter_mut().zip(bits.as_chunks::<2>().0) {
                let kept = u16::from_le_bytes(*pair) >= self.dropout.dropped;
                *number *= if kept { self.dropout.scale } else { 0.0 };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        // First outputs of the reference C code for the state 1, 2, 3, 4.
        let mut random = Random([1, 2, 3, 4]);
        let outputs = [(); 4].map(|()| random.next());
        assert_eq!(outputs, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    fn shuffled(seed: u64) -> Vec<usize> {
        let mut items: Vec<usize> = (0..1000).collect();
        Random::new(seed, &[1]).shuffle(&mut items);
        items
    }

    #[test]
    fn a_shuffle_keeps_every_item_and_depends_on_the_seed() {
        assert_eq!(shuffled(5), shuffled(5));
        assert_ne!(shuffled(5), shuffled(6));
        let mut sorted = shuffled(5);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn dropout_drops_its_share_and_keeps_the_mean() {
        let mut data = vec![1.0; 100_001];
        Dropout::new(0.1, 3).at(2, 1).apply(&mut data);
        let dropped = data.iter().filter(|number| **number == 0.0).count();
        assert!((9_500..10_500).contains(&dropped), "{dropped}");
        let mean = data.iter().sum::<f32>() / 100_001.0;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        let mut again = vec![1.0; 100_001];
        Dropout::new(0.1, 3).at(2, 1).apply(&mut again);
        assert_eq!(data, again);
        let mut elsewhere = vec![1.0; 100_001];
        Dropout::new(0.1, 3).at(2, 2).apply(&mut elsewhere);
        assert_ne!(data, elsewhere);
    }
}
