//! How a tensor's numbers are stored.

/// A number format of `ggml`: numbers stand in blocks, each in the same number of bytes.
///
/// Source: `ggml`'s definitions of its block types, as GGUF numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Four bytes each.
    F32,
    /// Two bytes each, 11 significant bits.
    F16,
    /// Two bytes each, 8 significant bits.
    Bf16,
    /// 32 at 4 bits and a scale.
    Q4_0,
    /// 32 at 4 bits, a scale and an offset.
    Q4_1,
    /// 32 at 5 bits and a scale.
    Q5_0,
    /// 32 at 5 bits, a scale and an offset.
    Q5_1,
    /// 32 at 8 bits and a scale.
    Q8_0,
    /// 256 at 4 bits, with scales and offsets of 6 bits every 32.
    Q4K,
    /// 256 at 5 bits, with scales and offsets of 6 bits every 32.
    Q5K,
    /// 256 at 6 bits, with scales of 8 bits every 16.
    Q6K,
}

impl Format {
    const ALL: [Self; 11] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
    ];

    /// The format that GGUF numbers so.
    pub fn of(id: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.id() == id)
    }

    /// Its number in GGUF.
    pub fn id(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q4_0 => 2,
            Self::Q4_1 => 3,
            Self::Q5_0 => 6,
            Self::Q5_1 => 7,
            Self::Q8_0 => 8,
            Self::Q4K => 12,
            Self::Q5K => 13,
            Self::Q6K => 14,
            Self::Bf16 => 30,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q5_0 => "Q5_0",
            Self::Q5_1 => "Q5_1",
            Self::Q8_0 => "Q8_0",
            Self::Q4K => "Q4_K",
            Self::Q5K => "Q5_K",
            Self::Q6K => "Q6_K",
        }
    }

    /// Numbers in a block.
    pub fn block_numbers(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 1,
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 => 32,
            Self::Q4K | Self::Q5K | Self::Q6K => 256,
        }
    }

    /// Bytes of a block.
    pub fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Q4_0 => 2 + 16,
            Self::Q4_1 => 2 + 2 + 16,
            Self::Q5_0 => 2 + 4 + 16,
            Self::Q5_1 => 2 + 2 + 4 + 16,
            Self::Q8_0 => 2 + 32,
            Self::Q4K => 2 + 2 + 12 + 128,
            Self::Q5K => 2 + 2 + 12 + 32 + 128,
            Self::Q6K => 128 + 64 + 16 + 2,
        }
    }

    /// The names of all that are known.
    pub(crate) fn list() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}
