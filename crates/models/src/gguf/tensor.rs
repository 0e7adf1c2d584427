//! Tensors: their locations in the file and their numbers.

use std::collections::BTreeMap;
use std::ops::Range;

use super::blocks::{self, Decoded};
use super::cursor::Cursor;
use super::{Format, GgufError, shown};

/// The maximum number of dimensions of the format.
const MAX_DIMENSIONS: u32 = 4;
/// `ggml` allows 64 bytes for a name; adapters append a suffix.
const MAX_NAME: usize = 128;

/// One tensor of a file.
#[derive(Debug, Clone)]
pub struct GgufTensor<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its shape, outermost dimension first: the reverse of the order in the file.
    pub shape: Vec<usize>,
    /// The storage format of its numbers.
    pub format: Format,
    /// The stored bytes.
    pub(crate) bytes: &'a [u8],
}

/// The description of a tensor. [`check_places`] has checked those of a [`super::Gguf`] against its data.
#[derive(Debug)]
pub(crate) struct Place {
    shape: Vec<usize>,
    format: Format,
    offset: u64,
    bytes: usize,
}

impl Place {
    pub(crate) fn read<'a>(cursor: &mut Cursor<'a>) -> Result<(&'a str, Self), GgufError> {
        let name = cursor.text(MAX_NAME)?;

        let dimensions = cursor.u32()?;
        if dimensions == 0 || dimensions > MAX_DIMENSIONS {
            return Err(invalid(name, "has no dimension or more than four"));
        }
        let mut shape = Vec::new();
        for _ in 0..dimensions {
            let size = cursor.u64()?;
            shape.push(usize::try_from(size).map_err(|_| invalid(name, "is larger than memory"))?);
        }
        let id = cursor.u32()?;
        let format = Format::of(id).ok_or_else(|| GgufError::Format { name: shown(name), id })?;
        // The first dimension in the file is the one with adjacent numbers.
        let row = shape.first().copied().unwrap_or_default();
        if shape.contains(&0) || !row.is_multiple_of(format.block_numbers()) {
            return Err(invalid(name, "is empty or ends inside a block"));
        }
        let numbers = shape.iter().try_fold(1_usize, |product, size| product.checked_mul(*size));
        let bytes = numbers
            .and_then(|numbers| {
                (numbers / format.block_numbers()).checked_mul(format.block_bytes())
            })
            .ok_or_else(|| invalid(name, "is larger than memory"))?;
        shape.reverse();
        Ok((name, Self { shape, format, offset: cursor.u64()?, bytes }))
    }

    /// The tensor in the data that the description was checked against.
    pub(crate) fn tensor<'a>(&self, name: &'a str, data: &'a [u8]) -> GgufTensor<'a> {
        let bytes = self.range().and_then(|range| data.get(range)).unwrap_or_default();
        GgufTensor { name, shape: self.shape.clone(), format: self.format, bytes }
    }

    /// The range of its bytes in the data; `None` if it exceeds the address space.
    fn range(&self) -> Option<Range<usize>> {
        let start = usize::try_from(self.offset).ok()?;
        Some(start..start.checked_add(self.bytes)?)
    }
}

/// Checks that all tensors lie within the data, aligned and without overlap.
///
/// # Errors
/// [`GgufError::Damaged`] for the first that does not.
pub(crate) fn check_places(
    tensors: &BTreeMap<&str, Place>,
    data: usize,
    alignment: u64,
) -> Result<(), GgufError> {
    let mut places = Vec::with_capacity(tensors.len());
    for (name, place) in tensors {
        let range = place.range().filter(|range| range.end <= data);
        let range = range.ok_or_else(|| invalid(name, "extends beyond the end of the file"))?;
        if !place.offset.is_multiple_of(alignment) {
            return Err(invalid(name, "is not aligned"));
        }
        places.push((range.start, range.end, *name));
    }
    places.sort_unstable();
    for pair in places.array_windows() {
        let [(_, end, first), (start, _, second)] = pair;
        if start < end {
            let (first, second) = (shown(first), shown(second));
            return Err(GgufError::damaged(format!("`{first}` and `{second}` overlap")));
        }
    }
    Ok(())
}

fn invalid(name: &str, detail: &str) -> GgufError {
    GgufError::damaged(format!("`{}` {detail}", shown(name)))
}

impl GgufTensor<'_> {
    /// Checks that the shape is `expected`, outermost dimension first.
    ///
    /// # Errors
    /// [`GgufError::Shape`] if it is not.
    pub fn expect_shape(&self, expected: &[usize]) -> Result<(), GgufError> {
        if self.shape == expected {
            return Ok(());
        }
        Err(GgufError::Shape {
            name: self.name.to_owned(),
            found: self.shape.clone(),
            expected: expected.to_vec(),
        })
    }

    /// The numbers in row-major order, converted to f32.
    ///
    /// # Errors
    /// [`GgufError::NotFinite`] if a number is infinite or NaN.
    pub fn floats(&self) -> Result<Vec<f32>, GgufError> {
        let mut numbers = blocks::plain(self.format, self.bytes);
        if self.format.block_numbers() > 1 {
            blocks::decode(self.format, self.bytes, &mut |decoded| match decoded {
                Decoded::Levels(block) => numbers.extend_from_slice(&block.numbers()),
                Decoded::Numbers(block) => numbers.extend_from_slice(&block),
            });
        }
        if numbers.iter().any(|number| !number.is_finite()) {
            return Err(self.not_finite());
        }
        Ok(numbers)
    }

    pub(crate) fn not_finite(&self) -> GgufError {
        GgufError::NotFinite { name: self.name.to_owned() }
    }
}
