//! Token sampling.

/// Samples the tokens of one answer.
#[derive(Debug)]
pub(crate) struct Sampler {
    temperature: f64,
    state: u64,
}

impl Sampler {
    pub(crate) fn new(temperature: f32, seed: u64) -> Self {
        Self { temperature: temperature.into(), state: seed }
    }

    /// The index of the largest of `logits` at temperature 0, the first of equals; otherwise a random index with
    /// probability proportional to `exp(logit / temperature)`. `None` if no logit is a number.
    pub(crate) fn choose(&mut self, logits: &[f32]) -> Option<usize> {
        let numbers = logits.iter().copied().enumerate().filter(|(_, logit)| !logit.is_nan());
        let greatest =
            numbers.clone().reduce(|best, next| if next.1 > best.1 { next } else { best });
        let (best, greatest) = greatest?;
        if self.temperature == 0.0 || !greatest.is_finite() {
            return Some(best);
        }
        let temperature = self.temperature;
        let weights = numbers.map(|(index, logit)| {
            (index, ((f64::from(logit) - f64::from(greatest)) / temperature).exp())
        });
        let sum: f64 = weights.clone().map(|(_, weight)| weight).sum();
        let mut left = self.unit() * sum;
        for (index, weight) in weights {
            left -= weight;
            if left < 0.0 {
                return Some(index);
            }
        }
        Some(best)
    }

    /// The next random number, in `[0, 1)`.
    ///
    /// Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators".
    fn unit(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_temperature_the_first_greatest_is_chosen() {
        let mut sampler = Sampler::new(0.0, 1);
        assert_eq!(sampler.choose(&[0.0, 3.0, 3.0, f32::NAN]), Some(1));
        assert_eq!(sampler.choose(&[f32::NAN]), None);
        assert_eq!(sampler.choose(&[]), None);
    }

    fn draw(seed: u64) -> Vec<usize> {
        let mut sampler = Sampler::new(0.5, seed);
        (0..4000).filter_map(|_| sampler.choose(&[0.0, 0.5, f32::NEG_INFINITY])).collect()
    }

    #[test]
    fn samples_depend_on_the_seed_and_the_logits() {
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
        assert!(!draw(3).contains(&2));
        // e to the power of 1, over itself and 1.
        let share = draw(3).iter().filter(|index| **index == 1).count() as f64 / 4000.0;
        assert!((share - 0.731).abs() < 0.03, "{share}");
    }
}
