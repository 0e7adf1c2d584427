//! Blocks of 64 bytes classified into bit masks, one bit per byte.
//!
//! A decision per byte costs a branch misprediction at every word. The compiler turns [`bits`] into vector code without
//! branches; rare bytes are then found by counting zeros.

/// The number of bytes in a block.
pub(crate) const BLOCK: usize = 64;

/// The blocks of a text; the last one is padded with zero bytes.
pub(crate) fn blocks(text: &[u8]) -> impl Iterator<Item = [u8; BLOCK]> {
    let (whole, rest) = text.as_chunks::<BLOCK>();
    let last = (!rest.is_empty()).then(|| padded(rest));
    whole.iter().copied().chain(last)
}

/// The block that begins at byte `at`, padded with zero bytes.
pub(crate) fn block_at(text: &[u8], at: usize) -> [u8; BLOCK] {
    let rest = text.get(at..).unwrap_or_default();
    rest.first_chunk().copied().unwrap_or_else(|| padded(rest))
}

fn padded(rest: &[u8]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block.iter_mut().zip(rest).for_each(|(slot, byte)| *slot = *byte);
    block
}

/// A mask in which bit `i` is set if byte `i` is of the kind.
#[inline]
pub(crate) fn bits(block: &[u8; BLOCK], is_of_kind: impl Fn(u8) -> bool) -> u64 {
    let flags = block.map(|byte| u8::from(is_of_kind(byte)));
    let (groups, _) = flags.as_chunks::<8>();
    groups.iter().rev().fold(0, |bits, group| {
        // The product puts bit `i` of its top byte where byte `i` was 1.
        bits << 8 | u64::from_le_bytes(*group).wrapping_mul(0x0102_0408_1020_4080) >> 56
    })
}

/// The positions of the set bits, ascending.
pub(crate) fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = (bits != 0).then(|| bits.trailing_zeros())?;
        bits &= bits - 1;
        usize::try_from(place).ok()
    })
}

/// Whether a byte is a lower-case ASCII letter or a digit. Arithmetic, not a table, so that it vectorises.
#[inline]
pub(crate) fn is_word_byte(byte: u8) -> bool {
    (byte.wrapping_sub(b'a') < 26) | (byte.wrapping_sub(b'0') < 10)
}

/// The first byte from `from` on that is not ASCII.
pub(crate) fn next_non_ascii(text: &[u8], mut from: usize) -> Option<usize> {
    while let Some(chunk) = text.get(from..from + BLOCK) {
        if !chunk.is_ascii() {
            break;
        }
        from += BLOCK;
    }
    text.get(from..)?.iter().position(|byte| !byte.is_ascii()).map(|place| from + place)
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, bits, block_at, blocks, next_non_ascii, ones};

    #[test]
    fn bits_mark_the_bytes_of_a_kind() {
        for length in [0, 1, 63, 64, 65, 200] {
            let text: Vec<u8> =
                (0..length).map(|place: u32| if place % 7 == 3 { b'x' } else { b'.' }).collect();
            let found: Vec<usize> = blocks(&text)
                .enumerate()
                .flat_map(|(number, block)| {
                    ones(bits(&block, |byte| byte == b'x')).map(move |place| number * BLOCK + place)
                })
                .collect();
            let expected: Vec<usize> =
                (0..text.len()).filter(|place| text[*place] == b'x').collect();
            assert_eq!(found, expected, "{length}");
        }
    }

    #[test]
    fn a_block_may_begin_anywhere() {
        let text: Vec<u8> = (0..100).collect();
        assert_eq!(block_at(&text, 10)[..3], [10, 11, 12]);
        assert_eq!(block_at(&text, 98)[..3], [98, 99, 0]);
        assert_eq!(block_at(&text, 200), [0; BLOCK]);
    }

    #[test]
    fn the_next_byte_beyond_ascii_is_found_from_anywhere() {
        let text = format!("{}ä{}", "a".repeat(130), "b".repeat(70));
        for from in [0, 5, 100, 130] {
            assert_eq!(next_non_ascii(text.as_bytes(), from), Some(130));
        }
        assert_eq!(next_non_ascii(text.as_bytes(), 132), None);
    }
}
