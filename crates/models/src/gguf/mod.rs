//! Weight files of embedded language models: GGUF, versions 2 and 3.
//!
//! A file has metadata, tensor descriptions, and tensors. Reading one cannot run code, and untrusted files are
//! safe to read: every size in it is checked against the bytes that are present before memory is allocated, and an
//! allocation is at most a few times as large as the part of the file that it is for.
//!
//! Source: the GGUF specification of the `ggml` project.

use std::collections::BTreeMap;

pub(crate) mod blocks;
mod cursor;
mod error;
mod format;
mod tensor;
mod value;

pub use error::GgufError;
pub use format::Format;
pub use tensor::GgufTensor;
pub use value::{GgufValue, Numbers};

use cursor::Cursor;
use tensor::Place;

const MAGIC: &[u8] = b"GGUF";
/// The default alignment of tensors.
const ALIGNMENT: u64 = 32;
/// Larger than any writer uses.
const MAX_ALIGNMENT: u64 = 1 << 16;
/// The minimum size of a metadata value: an empty key, the kind, one byte.
const LEAST_VALUE_BYTES: usize = 8 + 4 + 1;
/// The minimum size of a tensor description: an empty name, one dimension, format and offset.
const LEAST_TENSOR_BYTES: usize = 8 + 4 + 8 + 4 + 8;
/// The limit of the specification on a key, in bytes.
const MAX_KEY: usize = 65_535;

/// A validated GGUF file; tensors are converted on access.
#[derive(Debug)]
pub struct Gguf<'a> {
    metadata: BTreeMap<&'a str, GgufValue<'a>>,
    tensors: BTreeMap<&'a str, Place>,
    data: &'a [u8],
}

impl<'a> Gguf<'a> {
    /// Parses the bytes of a file.
    ///
    /// # Errors
    /// [`GgufError`] if the file is incomplete, ambiguous, or uses an unsupported feature.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, GgufError> {
        let mut cursor = Cursor::new(bytes);
        if cursor.take(MAGIC.len())? != MAGIC {
            return Err(GgufError::damaged("it does not begin with `GGUF`"));
        }
        let version = cursor.u32()?;
        if !matches!(version, 2 | 3) {
            return Err(GgufError::Version { version });
        }
        let tensor_count = cursor.u64()?;
        let value_count = cursor.count(LEAST_VALUE_BYTES)?;
        let metadata = read_metadata(&mut cursor, value_count)?;
        // Checked after the metadata was read, because less of the file is left for the tensors.
        let tensor_count = cursor.fits(tensor_count, LEAST_TENSOR_BYTES)?;
        let tensors = read_tensors(&mut cursor, tensor_count)?;
        let alignment = alignment(&metadata)?;
        cursor.align(alignment)?;
        let data = cursor.rest();
        tensor::check_places(&tensors, data.len(), alignment)?;
        Ok(Self { metadata, tensors, data })
    }

    /// The metadata of the file.
    pub fn metadata(&self) -> &BTreeMap<&'a str, GgufValue<'a>> {
        &self.metadata
    }

    /// The names of the tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        self.tensors.keys().copied()
    }

    /// The tensor `name`.
    ///
    /// # Errors
    /// [`GgufError::MissingTensor`].
    pub fn tensor(&self, name: &str) -> Result<GgufTensor<'a>, GgufError> {
        let (name, place) = self
            .tensors
            .get_key_value(name)
            .ok_or_else(|| GgufError::MissingTensor { name: name.to_owned() })?;
        Ok(place.tensor(name, self.data))
    }

    /// The text under `key`.
    ///
    /// # Errors
    /// [`GgufError::MissingValue`], [`GgufError::Kind`].
    pub fn text(&self, key: &str) -> Result<&'a str, GgufError> {
        let value = self.value(key)?;
        let GgufValue::Text(text) = value else { return Err(value.is_not("a text", key)) };
        Ok(text)
    }

    /// The texts under `key`.
    ///
    /// # Errors
    /// [`GgufError::MissingValue`], [`GgufError::Kind`].
    pub fn texts(&self, key: &str) -> Result<&[&'a str], GgufError> {
        let value = self.value(key)?;
        let GgufValue::Texts(texts) = value else {
            return Err(value.is_not("a list of texts", key));
        };
        Ok(texts)
    }

    /// The whole numbers under `key`.
    ///
    /// # Errors
    /// [`GgufError::MissingValue`], [`GgufError::Kind`].
    pub fn integers(&self, key: &str) -> Result<impl ExactSizeIterator<Item = i64>, GgufError> {
        let value = self.value(key)?;
        let GgufValue::Numbers(numbers) = value else {
            return Err(value.is_not("a list of whole numbers", key));
        };
        numbers.integers().ok_or_else(|| value.is_not("a list of whole numbers", key))
    }

    /// The size or id under `key`.
    ///
    /// # Errors
    /// [`GgufError::MissingValue`], [`GgufError::Kind`]; the latter also for a negative number.
    pub fn unsigned(&self, key: &str) -> Result<u64, GgufError> {
        let value = self.value(key)?;
        if let GgufValue::Unsigned(number) = value {
            return Ok(*number);
        }
        let GgufValue::Signed(number) = value else {
            return Err(value.is_not("a whole number", key));
        };
        u64::try_from(*number).map_err(|_| value.is_not("0 or more", key))
    }

    /// The number under `key`.
    ///
    /// # Errors
    /// [`GgufError::MissingValue`], [`GgufError::Kind`].
    pub fn float(&self, key: &str) -> Result<f64, GgufError> {
        let value = self.value(key)?;
        let GgufValue::Float(number) = value else {
            return Err(value.is_not("a number with a fraction", key));
        };
        Ok(*number)
    }

    /// The yes or no under `key`.
    ///
    /// # Errors
    /// [`GgufError::MissingValue`], [`GgufError::Kind`].
    pub fn flag(&self, key: &str) -> Result<bool, GgufError> {
        let value = self.value(key)?;
        let GgufValue::Flag(flag) = value else { return Err(value.is_not("true or false", key)) };
        Ok(*flag)
    }

    fn value(&self, key: &str) -> Result<&GgufValue<'a>, GgufError> {
        self.metadata.get(key).ok_or_else(|| GgufError::MissingValue { key: key.to_owned() })
    }
}

/// A value that a file may leave out: its absence is no error.
///
/// # Errors
/// Every other error that finding it had.
pub(crate) fn optional<T>(found: Result<T, GgufError>) -> Result<Option<T>, GgufError> {
    match found {
        Ok(value) => Ok(Some(value)),
        Err(GgufError::MissingValue { .. } | GgufError::MissingTensor { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_metadata<'a>(
    cursor: &mut Cursor<'a>,
    count: usize,
) -> Result<BTreeMap<&'a str, GgufValue<'a>>, GgufError> {
    let mut metadata = BTreeMap::new();
    for _ in 0..count {
        let key = cursor.text(MAX_KEY)?;
        let value = GgufValue::read(cursor, key)?;
        if metadata.insert(key, value).is_some() {
            return Err(GgufError::damaged(format!("it gives `{}` twice", shown(key))));
        }
    }
    Ok(metadata)
}

fn read_tensors<'a>(
    cursor: &mut Cursor<'a>,
    count: usize,
) -> Result<BTreeMap<&'a str, Place>, GgufError> {
    let mut tensors = BTreeMap::new();
    for _ in 0..count {
        let (name, place) = Place::read(cursor)?;
        if tensors.insert(name, place).is_some() {
            return Err(GgufError::damaged(format!("it holds tensor `{}` twice", shown(name))));
        }
    }
    Ok(tensors)
}

fn alignment(metadata: &BTreeMap<&str, GgufValue<'_>>) -> Result<u64, GgufError> {
    match metadata.get("general.alignment") {
        None => Ok(ALIGNMENT),
        Some(GgufValue::Unsigned(bytes)) if bytes.is_power_of_two() && *bytes <= MAX_ALIGNMENT => {
            Ok(*bytes)
        }
        Some(_) => Err(GgufError::damaged(format!(
            "`general.alignment` is no power of two up to {MAX_ALIGNMENT}"
        ))),
    }
}

/// As much of a name as a message bears, without control characters.
fn shown(name: &str) -> String {
    name.chars().take(80).flat_map(char::escape_debug).collect()
}
