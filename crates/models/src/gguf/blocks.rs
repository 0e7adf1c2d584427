//! Blocks of numbers, decoded as `ggml` defines them.
//!
//! Most formats give every 32 numbers one scale, one offset, and a small whole number each; those are taken as they
//! are, so that nothing is rounded a second time. The others come as plain numbers.

use half::{bf16, f16};

use super::Format;

/// Numbers of a [`Block`].
pub(crate) const BLOCK: usize = 32;

/// 32 numbers: `level · scale + shift` each.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Block {
    pub(crate) levels: [i8; BLOCK],
    pub(crate) scale: f32,
    pub(crate) shift: f32,
}

/// What a format gives for 32 numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Decoded {
    Levels(Block),
    Numbers([f32; BLOCK]),
}

impl Block {
    /// The nearest block to some numbers: 256 levels spread evenly from the least to the greatest.
    ///
    /// Numbers that lie on up to 256 even steps between those two, such as a file's levels, are met but for rounding.
    pub(crate) fn nearest(numbers: &[f32; BLOCK]) -> Self {
        let least = numbers.iter().copied().fold(f32::INFINITY, f32::min);
        let greatest = numbers.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let scale = (greatest - least) / 255.0;
        if scale <= 0.0 {
            return Self { levels: [0; BLOCK], scale: 0.0, shift: least };
        }
        #[expect(clippy::cast_possible_truncation, reason = "from -128 to 127, by the scale")]
        let levels = numbers.map(|number| ((number - least) / scale - 128.0).round() as i8);
        Self { levels, scale, shift: least + 128.0 * scale }
    }

    /// Its numbers.
    pub(crate) fn numbers(&self) -> [f32; BLOCK] {
        self.levels.map(|level| f32::from(level) * self.scale + self.shift)
    }
}

/// The numbers of a format that stores each by itself; none for the others.
pub(crate) fn plain(format: Format, bytes: &[u8]) -> Vec<f32> {
    let (pairs, _) = bytes.as_chunks::<2>();
    let halves = pairs.iter().map(|pair| u16::from_le_bytes(*pair));
    match format {
        Format::F32 => {
            bytes.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
        }
        Format::F16 => halves.map(|bits| f16::from_bits(bits).to_f32()).collect(),
        Format::Bf16 => halves.map(|bits| bf16::from_bits(bits).to_f32()).collect(),
        Format::Q4_0
        | Format::Q4_1
        | Format::Q5_0
        | Format::Q5_1
        | Format::Q8_0
        | Format::Q4K
        | Format::Q5K
        | Format::Q6K => Vec::new(),
    }
}

/// Calls `each` with every 32 numbers of `bytes`, in order. A plain format ends with the last complete 32.
pub(crate) fn decode(format: Format, bytes: &[u8], each: &mut impl FnMut(Decoded)) {
    let mut block = |(levels, scale, shift): ([i8; BLOCK], f32, f32)| {
        each(Decoded::Levels(Block { levels, scale, shift }));
    };
    match format {
        Format::F32 | Format::F16 | Format::Bf16 => {
            plain(format, bytes)
                .as_chunks()
                .0
                .iter()
                .for_each(|some| each(Decoded::Numbers(*some)));
        }
        Format::Q4_0 => bytes.as_chunks::<18>().0.iter().for_each(|bytes| {
            block((nibbles(&bytes[2..]).map(|level| level - 8), half_at(bytes, 0), 0.0));
        }),
        Format::Q4_1 => bytes.as_chunks::<20>().0.iter().for_each(|bytes| {
            block((nibbles(&bytes[4..]), half_at(bytes, 0), half_at(bytes, 2)));
        }),
        Format::Q5_0 => bytes.as_chunks::<22>().0.iter().for_each(|bytes| {
            let levels = with_fifth_bits(nibbles(&bytes[6..]), &bytes[2..6]);
            block((levels.map(|level| level - 16), half_at(bytes, 0), 0.0));
        }),
        Format::Q5_1 => bytes.as_chunks::<24>().0.iter().for_each(|bytes| {
            let levels = with_fifth_bits(nibbles(&bytes[8..]), &bytes[4..8]);
            block((levels, half_at(bytes, 0), half_at(bytes, 2)));
        }),
        Format::Q8_0 => bytes.as_chunks::<34>().0.iter().for_each(|bytes| {
            let levels = std::array::from_fn(|at| bytes[2 + at].cast_signed());
            block((levels, half_at(bytes, 0), 0.0));
        }),
        Format::Q4K => bytes.as_chunks::<144>().0.iter().for_each(|bytes| {
            for part in 0..8 {
                let levels = half_bytes(&bytes[16 + part / 2 * 32..], part % 2);
                let (scale, shift) = scale_and_shift(bytes, part);
                block((levels, scale, shift));
            }
        }),
        Format::Q5K => bytes.as_chunks::<176>().0.iter().for_each(|bytes| {
            for part in 0..8 {
                let low = half_bytes(&bytes[48 + part / 2 * 32..], part % 2);
                // Bit `part` of byte `at` is the fifth bit of number `at` of this part.
                let levels = std::array::from_fn(|at| {
                    low[at] | (bytes[16 + at] >> part & 1).cast_signed() << 4
                });
                let (scale, shift) = scale_and_shift(bytes, part);
                block((levels, scale, shift));
            }
        }),
        Format::Q6K => bytes.as_chunks::<210>().0.iter().for_each(|bytes| {
            (0..8).for_each(|part| each(Decoded::Numbers(six_bits(bytes, part))));
        }),
    }
}

/// The f16 at byte `at`.
fn half_at(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

/// 32 numbers of four bits: first the low halves of 16 bytes, then the high halves.
fn nibbles(bytes: &[u8]) -> [i8; BLOCK] {
    std::array::from_fn(|at| (bytes[at % 16] >> (at / 16 * 4) & 15).cast_signed())
}

/// The low (0) or high (1) halves of 32 bytes.
fn half_bytes(bytes: &[u8], which: usize) -> [i8; BLOCK] {
    std::array::from_fn(|at| (bytes[at] >> (which * 4) & 15).cast_signed())
}

/// Puts bit `at` of four bytes on top of number `at`.
fn with_fifth_bits(low: [i8; BLOCK], bits: &[u8]) -> [i8; BLOCK] {
    std::array::from_fn(|at| low[at] | (bits[at / 8] >> (at % 8) & 1).cast_signed() << 4)
}

/// Scale and shift of the 32 numbers of `part`, in a block that begins with two f16 and twelve bytes of six-bit ones.
///
/// Those of the first four parts are the low six bits of a byte each. Those of the last four have their low four bits
/// in the last four bytes, and their high two on top of the first eight.
fn scale_and_shift(bytes: &[u8], part: usize) -> (f32, f32) {
    let six = &bytes[4..16];
    let (scale, shift) = if part < 4 {
        (six[part] & 63, six[part + 4] & 63)
    } else {
        let low = six[part + 4];
        (low & 15 | six[part - 4] >> 6 << 4, low >> 4 | six[part] >> 6 << 4)
    };
    (half_at(bytes, 0) * f32::from(scale), -(half_at(bytes, 2) * f32::from(shift)))
}

/// The 32 numbers of `part` in a block of 256 at six bits.
///
/// It holds the four low bits of all, the two high bits of all, a scale of 8 bits every 16, and a scale of the scales.
fn six_bits(bytes: &[u8], part: usize) -> [f32; BLOCK] {
    let (half, quarter) = (part / 4, part % 4);
    let low = &bytes[half * 64 + quarter % 2 * 32..];
    let high = &bytes[128 + half * 32..];
    let scales = &bytes[192 + part * 2..];
    let whole = half_at(bytes, 208);
    std::array::from_fn(|at| {
        let four = low[at] >> (quarter / 2 * 4) & 15;
        let two = high[at] >> (quarter * 2) & 3;
        let level = (four | two << 4).cast_signed() - 32;
        whole * f32::from(scales[at / 16].cast_signed()) * f32::from(level)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// f16 of 0.5, 2.0 and -1.0.
    const HALF: [u8; 2] = [0x00, 0x38];
    const TWO: [u8; 2] = [0x00, 0x40];
    const MINUS_ONE: [u8; 2] = [0x00, 0xbc];

    fn numbers(format: Format, bytes: &[u8]) -> Vec<f32> {
        assert_eq!(bytes.len(), format.block_bytes(), "{format:?}");
        let mut numbers = Vec::new();
        decode(format, bytes, &mut |decoded| match decoded {
            Decoded::Levels(block) => numbers.extend(block.numbers()),
            Decoded::Numbers(block) => numbers.extend(block),
        });
        assert_eq!(numbers.len(), format.block_numbers(), "{format:?}");
        numbers
    }

    /// Byte `at` of the low halves is `at`, of the high halves `15 - at`.
    fn ramps() -> [u8; 16] {
        std::array::from_fn(|at| u8::try_from(at | (15 - at) << 4).unwrap())
    }

    #[test]
    fn four_bits_are_centred_on_eight_and_low_halves_come_first() {
        let found = numbers(Format::Q4_0, &[&HALF[..], &ramps()].concat());
        assert_eq!(found[..3], [-4.0, -3.5, -3.0]);
        assert_eq!(found[15..18], [3.5, 3.5, 3.0]);
        assert_eq!(found[31], -4.0);
    }

    #[test]
    fn four_bits_with_an_offset_begin_at_it() {
        let found = numbers(Format::Q4_1, &[&HALF[..], &MINUS_ONE, &ramps()].concat());
        assert_eq!(found[..3], [-1.0, -0.5, 0.0]);
        assert_eq!((found[15], found[16], found[31]), (6.5, 6.5, -1.0));
    }

    #[test]
    fn fifth_bits_are_counted_through_both_halves() {
        // Set for numbers 0, 9 and 31.
        let bits = [1, 2, 0, 128];
        let found = numbers(Format::Q5_0, &[&TWO[..], &bits, &ramps()].concat());
        assert_eq!((found[0], found[1], found[9]), (0.0, -30.0, 18.0));
        assert_eq!((found[16], found[31]), (-2.0, 0.0));
        let found = numbers(Format::Q5_1, &[&TWO[..], &MINUS_ONE, &bits, &ramps()].concat());
        assert_eq!((found[0], found[1], found[9], found[31]), (31.0, 1.0, 49.0, 31.0));
    }

    #[test]
    fn eight_bits_have_a_sign() {
        let levels: Vec<u8> = (0..32).map(|at| if at == 1 { 0x80 } else { at }).collect();
        let found = numbers(Format::Q8_0, &[&HALF[..], &levels].concat());
        assert_eq!((found[0], found[1], found[31]), (0.0, -64.0, 15.5));
    }

    /// Six-bit scales 1, 2, 3, 4 and 33, 18, 63, 16, and shifts 5, 6, 7, 8 and 32, 1, 48, 63, packed by hand.
    const SIX: [u8; 12] = [
        1 | 0b10 << 6, // 33 = 0b10_0001
        2 | 0b01 << 6, // 18 = 0b01_0010
        3 | 0b11 << 6, // 63 = 0b11_1111
        4 | 0b01 << 6, // 16 = 0b01_0000
        5 | 0b10 << 6, // 32 = 0b10_0000
        6,             //  1 = 0b00_0001
        7 | 0b11 << 6, // 48 = 0b11_0000
        8 | 0b11 << 6, // 63 = 0b11_1111
        1,
        2 | 1 << 4,
        15,
        15 << 4,
    ];

    #[test]
    fn six_bit_scales_and_shifts_are_put_together() {
        let bytes = [&TWO[..], &HALF, &SIX, &[0; 128]].concat();
        let found: Vec<(f32, f32)> = (0..8).map(|part| scale_and_shift(&bytes, part)).collect();
        let expected = [
            (2.0, -2.5),
            (4.0, -3.0),
            (6.0, -3.5),
            (8.0, -4.0),
            (66.0, -16.0),
            (36.0, -0.5),
            (126.0, -24.0),
            (32.0, -31.5),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn blocks_of_256_at_four_bits_go_by_64() {
        let mut levels = [0; 128];
        levels[0] = 0x21; // numbers 0 and 32
        levels[33] = 0x43; // numbers 65 and 97
        levels[127] = 0xf5; // numbers 223 and 255
        let found = numbers(Format::Q4K, &[&TWO[..], &HALF, &SIX, &levels].concat());
        assert_eq!((found[0], found[1], found[32]), (2.0 - 2.5, -2.5, 8.0 - 3.0));
        assert_eq!((found[65], found[97]), (18.0 - 3.5, 32.0 - 4.0));
        assert_eq!((found[223], found[255]), (630.0 - 24.0, 480.0 - 31.5));
    }

    #[test]
    fn blocks_of_256_at_five_bits_take_one_bit_of_every_byte() {
        let (mut high, mut levels) = ([0; 32], [0; 128]);
        levels[0] = 0x21;
        high[0] = 0b0000_0010; // number 32
        high[31] = 0b1000_0000; // number 255
        let found = numbers(Format::Q5K, &[&TWO[..], &HALF, &SIX, &high, &levels].concat());
        assert_eq!((found[0], found[32]), (2.0 - 2.5, 4.0 * 18.0 - 3.0));
        assert_eq!((found[254], found[255]), (-31.5, 32.0 * 16.0 - 31.5));
    }

    #[test]
    fn blocks_of_256_at_six_bits_go_by_128() {
        let (mut low, mut high, mut scales) = ([0; 128], [0; 64], [1; 16]);
        low[0] = 0x21; // low bits of numbers 0 and 64
        low[32] = 0x43; // of 32 and 96
        low[127] = 0xf0; // of 223 and 255
        high[0] = 0b11_10_01_00; // high bits of 0, 32, 64 and 96
        high[63] = 0b11_00_00_00; // of 255
        scales[2] = 0xfe; // of 32 to 47
        scales[15] = 3; // of 240 to 255
        let found = numbers(Format::Q6K, &[&low[..], &high, &scales, &HALF].concat());
        assert_eq!((found[0], found[1]), (0.5 * (1.0 - 32.0), 0.5 * -32.0));
        assert_eq!((found[32], found[47]), (0.5 * -2.0 * (19.0 - 32.0), 0.5 * -2.0 * -32.0));
        assert_eq!((found[64], found[96]), (0.5 * (34.0 - 32.0), 0.5 * (52.0 - 32.0)));
        assert_eq!((found[223], found[255]), (0.5 * -32.0, 0.5 * 3.0 * 31.0));
    }

    #[test]
    fn plain_numbers_are_read_as_they_are() {
        assert_eq!(plain(Format::F32, &1.5_f32.to_le_bytes()), [1.5]);
        assert_eq!(plain(Format::F16, &[&HALF[..], &MINUS_ONE].concat()), [0.5, -1.0]);
        assert_eq!(plain(Format::Bf16, &[0x80, 0x3f, 0x00, 0xc0]), [1.0, -2.0]);
    }

    #[test]
    fn the_nearest_block_is_off_by_half_a_step_at_most_and_meets_even_steps() {
        let uneven: [f32; BLOCK] = std::array::from_fn(|at| (at as f32 * 1.7).sin());
        let block = Block::nearest(&uneven);
        for (found, wanted) in block.numbers().into_iter().zip(uneven) {
            assert!((found - wanted).abs() <= block.scale * 0.501, "{found} {wanted}");
        }
        let even: [f32; BLOCK] = std::array::from_fn(|at| (at % 16) as f32 * 0.25 - 1.0);
        for (found, wanted) in Block::nearest(&even).numbers().into_iter().zip(even) {
            assert!((found - wanted).abs() < 1e-6, "{found} {wanted}");
        }
        assert_eq!(Block::nearest(&[0.3; BLOCK]).numbers(), [0.3; BLOCK]);
    }
}
