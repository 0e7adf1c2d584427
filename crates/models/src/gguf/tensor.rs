//! Tensors: where they stand in the file, and their numbers.

use std::collections::BTreeMap;
use std::ops::Range;

use super::blocks::{self, Decoded};
use super::cursor::Cursor;
use super::{Format, GgufError, shown};

/// The most dimensions that the format knows.
const MAX_DIMENSIONS: u32 = 4;
/// `ggml` allows 64 bytes for a name; adapters put an ending behind that.
const MAX_NAME: usize = 128;

/// One tensor of a file.
#[derive(Debug, Clone)]
pub struct GgufTensor<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its shape, outermost dimension first: the reverse of the order in the file.
    pub shape: Vec<usize>,
    /// How its numbers are stored.
    pub format: Format,
    /// Where they are.
    pub(crate) bytes: &'a [u8],
}

/// A tensor as the file describes it. [`check_places`] has put every one of a [`super::Gguf`] inside its data.
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
        let broken = |detail: &str| GgufError::damaged(format!("`{}` {detail}", shown(name)));
        let dimensions = cursor.u32()?;
        if dimensions == 0 || dimensions > MAX_DIMENSIONS {
            return Err(broken("has no dimension, or more than four"));
        }
        let mut shape = Vec::new();
        for _ in 0..dimensions {
            let size = cursor.u64()?;
            shape.push(usize::try_from(size).map_err(|_| broken("is larger than memory"))?);
        }
        let id = cursor.u32()?;
        let format = Format::of(id).ok_or_else(|| GgufError::Format { name: shown(name), id })?;
        // The first dimension in the file is the one whose numbers stand side by side.
        let row = shape.first().copied().unwrap_or_default();
        if shape.contains(&0) || !row.is_multiple_of(format.block_numbers()) {
            return Err(broken("is empty, or ends inside a block"));
        }
        let numbers = shape.iter().try_fold(1_usize, |product, size| product.checked_mul(*size));
        let bytes = numbers
            .and_then(|numbers| {
                (numbers / format.block_numbers()).checked_mul(format.block_bytes())
            })
            .ok_or_else(|| broken("is larger than memory"))?;
        shape.reverse();
        Ok((name, Self { shape, format, offset: cursor.u64()?, bytes }))
    }

    /// The tensor itself, in the data that the place was checked against.
    pub(crate) fn tensor<'a>(&self, name: &'a str, data: &'a [u8]) -> GgufTensor<'a> {
        let bytes = self.range().and_then(|range| data.get(range)).unwrap_or_default();
        GgufTensor { name, shape: self.shape.clone(), format: self.format, bytes }
    }

    /// Where its bytes are in the data; `None` when beyond any memory.
    fn range(&self) -> Option<Range<usize>> {
        let start = usize::try_from(self.offset).ok()?;
        Some(start..start.checked_add(self.bytes)?)
    }
}

/// Whether all tensors stand inside the data, aligned, and none on another.
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
        let broken = |detail: &str| GgufError::damaged(format!("`{}` {detail}", shown(name)));
        let range = place.range().filter(|range| range.end <= data);
        let range = range.ok_or_else(|| broken("reaches beyond the end"))?;
        if !place.offset.is_multiple_of(alignment) {
            return Err(broken("does not begin where tensors may"));
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

impl GgufTensor<'_> {
    /// Refuses another shape than `expected`, outermost dimension first.
    ///
    /// # Errors
    /// [`GgufError::Shape`].
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

    /// The numbers, row by row, as f32 whatever they are stored as.
    ///
    /// # Errors
    /// [`GgufError::NotFinite`].
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
