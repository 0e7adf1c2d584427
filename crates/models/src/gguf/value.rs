//! Metadata values.

use super::GgufError;
use super::cursor::Cursor;

/// One metadata value. Texts borrow from the file; lists of numbers are decoded on access.
#[derive(Debug, Clone, PartialEq)]
pub enum GgufValue<'a> {
    /// An unsigned integer.
    Unsigned(u64),
    /// A signed integer.
    Signed(i64),
    /// A floating-point number.
    Float(f64),
    /// A boolean.
    Flag(bool),
    /// A text.
    Text(&'a str),
    /// A list of texts.
    Texts(Vec<&'a str>),
    /// A list of numbers or flags.
    Numbers(Numbers<'a>),
}

/// A list of numbers of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbers<'a> {
    kind: Kind,
    bytes: &'a [u8],
}

/// The scalar value types, in GGUF's numbering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Flag,
    U64,
    I64,
    F64,
}

/// The other value types.
const TEXT: u32 = 8;
const LIST: u32 = 9;

impl<'a> GgufValue<'a> {
    /// Reads the value of `key`: its type, then its bytes.
    pub(crate) fn read(cursor: &mut Cursor<'a>, key: &str) -> Result<Self, GgufError> {
        match cursor.u32()? {
            TEXT => Ok(Self::Text(cursor.text(usize::MAX)?)),
            LIST => Self::read_list(cursor, key),
            id => {
                let kind = Kind::of(id, key)?;
                let bytes = cursor.take(kind.bytes())?;
                kind.read(bytes).ok_or_else(|| GgufError::kind(key, "true or false", "neither"))
            }
        }
    }

    fn read_list(cursor: &mut Cursor<'a>, key: &str) -> Result<Self, GgufError> {
        match cursor.u32()? {
            TEXT => {
                // Every text has a length prefix of eight bytes.
                let count = cursor.count(8)?;
                let mut texts = Vec::with_capacity(count);
                for _ in 0..count {
                    texts.push(cursor.text(usize::MAX)?);
                }
                Ok(Self::Texts(texts))
            }
            // No model needs nested lists; rejecting them limits the recursion depth.
            LIST => Err(GgufError::kind(key, "a list of single values", "a list of lists")),
            id => {
                let kind = Kind::of(id, key)?;
                let count = cursor.count(kind.bytes())?;
                let bytes = cursor.take(count * kind.bytes())?;
                Ok(Self::Numbers(Numbers { kind, bytes }))
            }
        }
    }

    /// The error that this value, found under `key`, is not `expected`.
    pub(crate) fn is_not(&self, expected: &'static str, key: &str) -> GgufError {
        let found = match self {
            Self::Unsigned(_) => "a whole number",
            Self::Signed(_) => "a whole number with a sign",
            Self::Float(_) => "a number with a fraction",
            Self::Flag(_) => "true or false",
            Self::Text(_) => "a text",
            Self::Texts(_) => "a list of texts",
            Self::Numbers(_) => "a list of numbers",
        };
        GgufError::kind(key, expected, found)
    }
}

impl<'a> Numbers<'a> {
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.kind.bytes()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The numbers, if all of them are integers that fit.
    pub fn integers(&self) -> Option<impl ExactSizeIterator<Item = i64> + use<'a>> {
        let kind = self.kind;
        let each = self.bytes.chunks_exact(kind.bytes());
        if !each.clone().all(|bytes| kind.integer(bytes).is_some()) {
            return None;
        }
        Some(each.map(move |bytes| kind.integer(bytes).unwrap_or_default()))
    }
}

impl Kind {
    fn of(id: u32, key: &str) -> Result<Self, GgufError> {
        Ok(match id {
            0 => Self::U8,
            1 => Self::I8,
            2 => Self::U16,
            3 => Self::I16,
            4 => Self::U32,
            5 => Self::I32,
            6 => Self::F32,
            7 => Self::Flag,
            10 => Self::U64,
            11 => Self::I64,
            12 => Self::F64,
            _ => return Err(GgufError::kind(key, "of a known kind", "of an unknown one")),
        })
    }

    fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Flag => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    fn integer(self, bytes: &[u8]) -> Option<i64> {
        match self.read(bytes) {
            Some(GgufValue::Unsigned(number)) => i64::try_from(number).ok(),
            Some(GgufValue::Signed(number)) => Some(number),
            _ => None,
        }
    }

    /// The value of [`Self::bytes`] bytes; `None` for a flag that is neither 0 nor 1.
    fn read(self, bytes: &[u8]) -> Option<GgufValue<'static>> {
        let mut wide = [0; 8];
        wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let bits = u64::from_le_bytes(wide);
        // Sign extension: the number is shifted to the top and back.
        let unused = 64 - 8 * u32::try_from(bytes.len()).ok()?;
        let signed = (bits.cast_signed() << unused) >> unused;
        Some(match self {
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => GgufValue::Unsigned(bits),
            Self::I8 | Self::I16 | Self::I32 | Self::I64 => GgufValue::Signed(signed),
            Self::F32 => GgufValue::Float(f32::from_bits(u32::try_from(bits).ok()?).into()),
            Self::F64 => GgufValue::Float(f64::from_bits(bits)),
            Self::Flag => GgufValue::Flag(match bits {
                0 => false,
                1 => true,
                _ => return None,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_number_keeps_its_sign_and_size() {
        let cases: [(u32, &[u8], GgufValue<'_>); 7] = [
            (0, &[255], GgufValue::Unsigned(255)),
            (1, &[255], GgufValue::Signed(-1)),
            (3, &[0, 128], GgufValue::Signed(-32768)),
            (5, &[254, 255, 255, 255], GgufValue::Signed(-2)),
            (6, &[0, 0, 192, 63], GgufValue::Float(1.5)),
            (7, &[1], GgufValue::Flag(true)),
            (10, &[255; 8], GgufValue::Unsigned(u64::MAX)),
        ];
        for (id, bytes, expected) in cases {
            let found = Kind::of(id, "key").unwrap().read(bytes);
            assert_eq!(found, Some(expected), "kind {id}");
        }
        assert_eq!(Kind::Flag.read(&[2]), None);
        for id in [8, 9, 13, u32::MAX] {
            assert!(Kind::of(id, "key").is_err(), "kind {id}");
        }
    }
}
