//! A set of positions, one bit each: small enough to stay in a processor's cache while a walk jumps about in it.

/// Positions below a bound.
#[derive(Debug, Clone)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    /// None of the positions below `bound`.
    pub(crate) fn new(bound: usize) -> Self {
        Self(vec![0; bound.div_ceil(64)])
    }

    /// Adds `position`, unless it is not below the bound. Returns whether it is new.
    pub(crate) fn insert(&mut self, position: u32) -> bool {
        let Some(word) = self.0.get_mut(position as usize / 64) else { return false };
        let bit = 1 << (position % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    pub(crate) fn contains(&self, position: u32) -> bool {
        let word = self.0.get(position as usize / 64);
        word.is_some_and(|word| word & (1 << (position % 64)) != 0)
    }

    pub(crate) fn remove(&mut self, position: u32) {
        if let Some(word) = self.0.get_mut(position as usize / 64) {
            *word &= !(1 << (position % 64));
        }
    }

    /// The positions, ascending.
    pub(crate) fn ascending(&self) -> impl Iterator<Item = u32> + '_ {
        (0_u32..).step_by(64).zip(&self.0).flat_map(|(first, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let next = (rest != 0).then(|| first + rest.trailing_zeros());
                // Takes the lowest bit away.
                rest &= rest.wrapping_sub(1);
                next
            })
        })
    }

    /// The set, with the rank of each position.
    pub(crate) fn places(self) -> Places {
        let mut before = Vec::with_capacity(self.0.len());
        let mut total = 0;
        for word in &self.0 {
            before.push(total);
            total += word.count_ones();
        }
        Places { before, bits: self }
    }
}

/// A set with the rank of each of its positions.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    bits: Bits,
    /// The number of positions before each word.
    before: Vec<u32>,
}

impl Places {
    /// The number of lower positions in the set, if `position` is in it.
    pub(crate) fn of(&self, position: u32) -> Option<u32> {
        let at = position as usize / 64;
        let (word, before) = (self.bits.0.get(at)?, self.before.get(at)?);
        let bit = 1 << (position % 64);
        (word & bit != 0).then(|| before + (word & (bit - 1)).count_ones())
    }

    /// The positions, ascending.
    pub(crate) fn ascending(&self) -> impl Iterator<Item = u32> + '_ {
        self.bits.ascending()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_gives_its_positions_in_order_and_the_place_of_each() {
        let mut bits = Bits::new(200);
        let positions = [0, 1, 63, 64, 127, 128, 199];
        for position in positions.iter().rev() {
            assert!(bits.insert(*position) && !bits.insert(*position));
        }
        assert!(bits.insert(5));
        bits.remove(5);
        assert!(!bits.insert(256) && !bits.insert(u32::MAX));
        assert_eq!(bits.ascending().collect::<Vec<_>>(), positions);
        let places = bits.places();
        for (place, position) in (0..).zip(positions) {
            assert_eq!(places.of(position), Some(place));
        }
        assert_eq!((places.of(5), places.of(u32::MAX)), (None, None));
    }
}
