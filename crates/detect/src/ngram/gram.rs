//! An n-gram of up to six characters, packed into a number.

/// The longest n-gram that can be packed.
pub(super) const MAX_LENGTH: usize = 6;
/// The number of bits of a character: a code point plus one is below 2^21.
const BITS: usize = 21;

/// Up to six characters, the first in the highest bits, padded with zeros, so that the order of numbers is the
/// code-point order of the strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Gram(u128);

impl Gram {
    /// The n-gram with `character` at `position`, which must be free and below [`MAX_LENGTH`].
    pub(super) fn with(self, position: usize, character: char) -> Self {
        Self(
            self.0 | (u128::from(u32::from(character)) + 1) << (BITS * (MAX_LENGTH - 1 - position)),
        )
    }

    /// Packs `text`; `None` if it is empty or too long.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let mut gram = Self::default();
        for (position, character) in text.chars().enumerate() {
            if position == MAX_LENGTH {
                return None;
            }
            gram = gram.with(position, character);
        }
        (gram != Self::default()).then_some(gram)
    }

    /// The characters, in order.
    pub(super) fn characters(self) -> impl Iterator<Item = char> {
        (0..MAX_LENGTH).map_while(move |position| {
            let code = self.0 >> (BITS * (MAX_LENGTH - 1 - position)) & ((1 << BITS) - 1);
            u32::try_from(code).ok()?.checked_sub(1).and_then(char::from_u32)
        })
    }

    /// A 64-bit hash.
    #[expect(clippy::cast_possible_truncation, reason = "each half is 63 bits wide")]
    pub(super) fn hash(self) -> u64 {
        // Odd constants from the digits of the golden ratio and of pi. The rotation moves the fourth character to the
        // low bits, so that the products carry it into every higher bit.
        let (first, last) = ((self.0 >> 63) as u64, self.0 as u64 & (u64::MAX >> 1));
        let mixed = first.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ last.rotate_left(22);
        (mixed ^ mixed >> 32).wrapping_mul(0x243f_6a88_85a3_08d3)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packing_keeps_the_characters_and_their_order(a in "\\PC{1,6}", b in "[a-c\u{0}\u{10ffff}]{1,6}") {
            let (x, y) = (Gram::from_text(&a).unwrap(), Gram::from_text(&b).unwrap());
            prop_assert_eq!(x.characters().collect::<String>(), a.clone());
            prop_assert_eq!(y.characters().collect::<String>(), b.clone());
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
        }
    }

    #[test]
    fn empty_and_seven_character_texts_cannot_be_packed() {
        assert_eq!(Gram::from_text(""), None);
        assert_eq!(Gram::from_text("sevenxx"), None);
    }
}
