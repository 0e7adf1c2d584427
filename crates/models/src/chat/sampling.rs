//! Which token comes next.

/// Chooses tokens for one answer.
#[derive(Debug)]
pub(crate) struct Sampler {
    temperature: f64,
    state: u64,
}

impl Sampler {
    pub(crate) fn new(temperature: f32, seed: u64) -> Self {
        Self { temperature: temperature.into(), state: seed }
    }

    /// The index of the greatest of `logits` at temperature 0, the first of equals; else one by chance, as likely as
    /// `exp(logit / temperature)` is great. `None` when none of them is a number.
    pub(crate) fn choose(&mut self, logits: &[f32]) -> Option<usize> {
        let numbers = logits.iter().copied().enumerate().filter(|(_, logit)| !logit.is_nan());
        let greatest =
            numbers.clone().reduce(|best, next| if next.1 > best.1 { next } else { best });
        let (best, greatest) = greatest?;
        if self.temperature == 0.0 || !greatest.is_finite() {
            return Some(best);
        }
        let temperature = self.temperature;
        let weight = |logit: f32| ((f64::from(logit) - f64::from(greatest)) / temperature).exp();
        let all: f64 = numbers.clone().map(|(_, logit)| weight(logit)).sum();
        let mut left = self.unit() * all;
        for (index, logit) in numbers {
            left -= weight(logit);
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
        let choose = |logits: &[f32]| Sampler::new(0.0, 1).choose(logits);
        assert_eq!(choose(&[0.0, 3.0, 3.0, f32::NAN]), Some(1));
        assert_eq!(choose(&[f32::NAN]), None);
        assert_eq!(choose(&[]), None);
    }

    #[test]
    fn chance_follows_the_seed_and_the_logits() {
        let draw = |seed| {
            let mut sampler = Sampler::new(0.5, seed);
            (0..4000)
                .filter_map(|_| sampler.choose(&[0.0, 0.5, f32::NEG_INFINITY]))
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
        assert!(!draw(3).contains(&2));
        // e to the power of 1, over itself and 1.
        let share = draw(3).iter().filter(|index| **index == 1).count() as f64 / 4000.0;
        assert!((share - 0.731).abs() < 0.03, "{share}");
    }
}
