//! A safetensors file on disk: its header, checked against the file, and its tensors, read one at a time.
//!
//! The `safetensors` library reads a file that is in memory as a whole, and of a name that stands twice in the header
//! it takes the last. Here only the header and one tensor are held, so that memory does not grow with the file.
//!
//! Source: the safetensors format (<https://github.com/huggingface/safetensors>, "Format").

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::Path;

use half::{bf16, f16};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::AdapterError;
use crate::unique_keys::UniqueKeys;

/// The member of a header that holds free texts.
const METADATA: &str = "__metadata__";
/// The longest header, as the format has it.
const MAX_HEADER_BYTES: u64 = 100_000_000;
/// The bytes before the header, which give its length.
const LENGTH_BYTES: u64 = 8;
/// The most tensors in one file.
const MAX_TENSORS: usize = 1 << 20;
/// The most dimensions of a tensor.
const MAX_DIMENSIONS: usize = 8;
/// The largest tensor that is read, in bytes. An adapter's are small.
const MAX_TENSOR_BYTES: u64 = 1 << 32;

/// How files begin that are no weights, and what they are.
const DISGUISES: [(&[u8], &str); 5] = [
    (b"PK\x03\x04", "a ZIP archive, as PyTorch writes them: reading one can run code"),
    (b"\x80\x02", "a Python pickle: reading one can run code"),
    (b"\x80\x04", "a Python pickle: reading one can run code"),
    (b"\x80\x05", "a Python pickle: reading one can run code"),
    (b"\x1f\x8b", "compressed with gzip"),
];

/// The format of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum NumberFormat {
    F64,
    F32,
    F16,
    BF16,
}

impl NumberFormat {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::F64 => "F64",
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
        }
    }

    const fn bytes(self) -> u64 {
        match self {
            Self::F64 => 8,
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
        }
    }
}

/// Where a tensor is and of which shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TensorEntry {
    pub(crate) format: NumberFormat,
    /// The dimensions, outermost first.
    pub(crate) shape: Vec<usize>,
    /// Its bytes, from the beginning of the file.
    at: Range<u64>,
}

impl TensorEntry {
    /// How many numbers it has.
    pub(crate) fn numbers(&self) -> usize {
        self.shape.iter().product()
    }
}

/// A safetensors file whose header fits the file.
#[derive(Debug)]
pub(crate) struct TensorFile {
    file: File,
    bytes: u64,
    tensors: BTreeMap<String, TensorEntry>,
    /// Free texts in the header.
    pub(crate) metadata: BTreeMap<String, String>,
}

impl TensorFile {
    /// Opens the file and checks its header.
    pub(crate) fn open(path: &Path) -> Result<Self, AdapterError> {
        let failed = AdapterError::file(path);
        let mut file = File::open(path).map_err(&failed)?;
        let bytes = file.metadata().map_err(&failed)?.len();
        let mut start = Vec::new();
        file.by_ref().take(LENGTH_BYTES).read_to_end(&mut start).map_err(&failed)?;
        if let Some((_, what)) = DISGUISES.iter().find(|(begin, _)| start.starts_with(begin)) {
            return Err(damaged(format!("it is no safetensors file but {what}")));
        }
        let length = <[u8; 8]>::try_from(start.as_slice()).map(u64::from_le_bytes);
        let length = length.map_err(|_| damaged("it is too short to be a safetensors file"))?;
        if length > MAX_HEADER_BYTES || length > bytes.saturating_sub(LENGTH_BYTES) {
            return Err(damaged(format!("its header claims {length} bytes; the file has {bytes}")));
        }
        let mut header = Vec::new();
        file.by_ref().take(length).read_to_end(&mut header).map_err(&failed)?;
        let (tensors, metadata) =
            members(&header).map_err(|cause| damaged(format!("its header: {cause}")))?;
        let tensors = placed(tensors, LENGTH_BYTES + length..bytes)?;
        Ok(Self { file, bytes, tensors, metadata })
    }

    /// The length of the file.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its tensors, by name.
    pub(crate) const fn tensors(&self) -> &BTreeMap<String, TensorEntry> {
        &self.tensors
    }

    /// The tensor `name`, which has to be there.
    pub(crate) fn entry(&self, name: &str) -> Result<&TensorEntry, AdapterError> {
        self.tensors.get(name).ok_or_else(|| AdapterError::Missing(name.to_owned()))
    }

    /// Hands the bytes of a tensor to `take`, in pieces.
    pub(crate) fn each_piece(
        &self,
        entry: &TensorEntry,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), AdapterError> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(entry.at.start)).map_err(AdapterError::Read)?;
        let mut left = entry.at.end - entry.at.start;
        let mut piece = vec![0; 1 << 16];
        while left > 0 {
            let want = usize::try_from(left).map_or(piece.len(), |left| left.min(piece.len()));
            let part = piece.get_mut(..want).unwrap_or_default();
            file.read_exact(part).map_err(AdapterError::Read)?;
            take(part);
            left -= want as u64;
        }
        Ok(())
    }

    /// The numbers of the tensor `name`, row by row. Each has to be finite.
    pub(crate) fn floats(&self, name: &str) -> Result<Vec<f32>, AdapterError> {
        let entry = self.entry(name)?;
        if entry.at.end - entry.at.start > MAX_TENSOR_BYTES {
            return Err(AdapterError::TooLarge(name.to_owned()));
        }
        let mut numbers = Vec::with_capacity(entry.numbers());
        self.each_piece(entry, |piece| decode(entry.format, piece, &mut numbers))?;
        if numbers.iter().any(|number| !number.is_finite()) {
            return Err(AdapterError::NotFinite(name.to_owned()));
        }
        Ok(numbers)
    }
}

/// Appends the numbers in `bytes`, whose length is a multiple of a number's.
#[expect(
    clippy::cast_possible_truncation,
    reason = "what an f32 cannot hold becomes infinite, and is refused"
)]
fn decode(format: NumberFormat, bytes: &[u8], numbers: &mut Vec<f32>) {
    match format {
        NumberFormat::F64 => numbers
            .extend(bytes.as_chunks().0.iter().map(|chunk| f64::from_le_bytes(*chunk) as f32)),
        NumberFormat::F32 => {
            numbers.extend(bytes.as_chunks().0.iter().map(|chunk| f32::from_le_bytes(*chunk)));
        }
        NumberFormat::F16 => numbers
            .extend(bytes.as_chunks().0.iter().map(|chunk| f16::from_le_bytes(*chunk).to_f32())),
        NumberFormat::BF16 => numbers
            .extend(bytes.as_chunks().0.iter().map(|chunk| bf16::from_le_bytes(*chunk).to_f32())),
    }
}

/// The tensors and the free texts of a header.
fn members(
    header: &[u8],
) -> serde_json::Result<(BTreeMap<String, ClaimedTensor>, BTreeMap<String, String>)> {
    let UniqueKeys(mut members) = serde_json::from_slice::<UniqueKeys<&RawValue>>(header)?;
    let texts = members.remove(METADATA).map(|texts| serde_json::from_str(texts.get()));
    let tensors = members.into_iter();
    let tensors = tensors.map(|(name, tensor)| Ok((name, serde_json::from_str(tensor.get())?)));
    Ok((tensors.collect::<serde_json::Result<_>>()?, texts.transpose()?.unwrap_or_default()))
}

/// The places of the tensors, which fill `data` from its beginning to its end without a gap.
fn placed(
    claimed: BTreeMap<String, ClaimedTensor>,
    data: Range<u64>,
) -> Result<BTreeMap<String, TensorEntry>, AdapterError> {
    if claimed.len() > MAX_TENSORS {
        return Err(damaged(format!("it has more than {MAX_TENSORS} tensors")));
    }
    let mut order: Vec<(&String, [u64; 2])> =
        claimed.iter().map(|(name, tensor)| (name, tensor.data_offsets)).collect();
    order.sort_by_key(|(_, offsets)| *offsets);
    let mut end = 0;
    for (name, [from, to]) in order {
        if from != end || to < from {
            return Err(damaged(format!(
                "the tensor `{name}` overlaps another one, or leaves a gap"
            )));
        }
        end = to;
    }
    if Some(end) != data.end.checked_sub(data.start) {
        return Err(damaged("its tensors do not end where the file ends"));
    }
    let placed = claimed.into_iter().map(|(name, tensor)| {
        let entry = tensor.entry(&name, data.start)?;
        Ok((name, entry))
    });
    placed.collect()
}

fn damaged(detail: impl Into<String>) -> AdapterError {
    AdapterError::Damaged(detail.into())
}

/// A tensor, as the header has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimedTensor {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

impl ClaimedTensor {
    fn entry(self, name: &str, start: u64) -> Result<TensorEntry, AdapterError> {
        let format = [NumberFormat::F64, NumberFormat::F32, NumberFormat::F16, NumberFormat::BF16];
        let format = format.into_iter().find(|format| format.name() == self.dtype);
        let format = format.ok_or_else(|| AdapterError::Format {
            name: name.to_owned(),
            format: self.dtype.chars().take(16).collect(),
        })?;
        let numbers = self.shape.iter().try_fold(1_u64, |product, side| product.checked_mul(*side));
        let bytes = numbers.and_then(|numbers| numbers.checked_mul(format.bytes()));
        let [from, to] = self.data_offsets;
        if self.shape.len() > MAX_DIMENSIONS || bytes != Some(to - from) {
            return Err(damaged(format!(
                "the shape of the tensor `{name}` does not fit its bytes"
            )));
        }
        let shape = self.shape.iter().map(|side| usize::try_from(*side));
        let shape =
            shape.collect::<Result<_, _>>().map_err(|_| AdapterError::TooLarge(name.to_owned()))?;
        Ok(TensorEntry { format, shape, at: start + from..start + to })
    }
}
