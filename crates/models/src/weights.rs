//! Weight files: names to shapes and numbers, read from and written to safetensors.
//!
//! The format is a JSON header and raw numbers: reading one cannot run code. Everything the header
//! says is checked against the bytes that are there before a number is copied.

use std::borrow::Cow;
use std::collections::BTreeMap;

use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::Serialize;

use crate::error::WeightsError;

/// The key of the metadata in a safetensors header.
const METADATA: &str = "__metadata__";

/// A validated weight file; tensors are converted on access.
#[derive(Debug)]
pub struct WeightFile<'a> {
    tensors: SafeTensors<'a>,
    metadata: BTreeMap<String, String>,
}

impl<'a> WeightFile<'a> {
    /// Parses the bytes of a safetensors file.
    ///
    /// # Errors
    /// [`WeightsError::Damaged`] unless header, shapes and the number of bytes agree exactly.
    pub fn read(bytes: &'a [u8]) -> Result<Self, WeightsError> {
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(|cause| damaged(&cause))?;
        let metadata = header.metadata().clone().unwrap_or_default().into_iter().collect();
        let tensors = SafeTensors::deserialize(bytes).map_err(|cause| damaged(&cause))?;
        Ok(Self { tensors, metadata })
    }

    /// The metadata of the header.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// The names of the tensors, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names = self.tensors.names();
        names.sort_unstable();
        names
    }

    /// The shape of tensor `name`, outermost dimension first.
    ///
    /// # Errors
    /// [`WeightsError::Missing`].
    pub fn shape(&self, name: &str) -> Result<Vec<usize>, WeightsError> {
        Ok(self.view(name)?.shape().to_vec())
    }

    /// The numbers of tensor `name`, row by row, as f32 whatever they are stored as.
    ///
    /// # Errors
    /// [`WeightsError::Missing`]; [`WeightsError::Shape`] unless its shape is `expected`;
    /// [`WeightsError::Format`] unless it is stored as f32, f16 or bf16; [`WeightsError::NotFinite`].
    pub fn floats(&self, name: &str, expected: &[usize]) -> Result<Vec<f32>, WeightsError> {
        let view = self.view(name)?;
        if view.shape() != expected {
            return Err(WeightsError::Shape {
                name: name.to_owned(),
                found: view.shape().to_vec(),
                expected: expected.to_vec(),
            });
        }
        let numbers = decode(name, &view)?;
        if numbers.iter().any(|number| !number.is_finite()) {
            return Err(WeightsError::NotFinite { name: name.to_owned() });
        }
        Ok(numbers)
    }

    /// The bytes of tensor `name`, a vector of `len` of them.
    ///
    /// # Errors
    /// [`WeightsError::Missing`]; [`WeightsError::Shape`] for another shape; [`WeightsError::Format`] unless it is
    /// stored as bytes.
    pub fn bytes(&self, name: &str, len: usize) -> Result<&'a [u8], WeightsError> {
        let view = self.view(name)?;
        if view.shape() != [len] {
            let (found, expected) = (view.shape().to_vec(), vec![len]);
            return Err(WeightsError::Shape { name: name.to_owned(), found, expected });
        }
        if view.dtype() != Dtype::U8 {
            return Err(wrong_format(name, &view));
        }
        Ok(view.data())
    }

    fn view(&self, name: &str) -> Result<TensorView<'a>, WeightsError> {
        self.tensors.tensor(name).map_err(|_| WeightsError::Missing { name: name.to_owned() })
    }
}

fn decode(name: &str, view: &TensorView<'_>) -> Result<Vec<f32>, WeightsError> {
    let (words, _) = view.data().as_chunks::<2>();
    let halves = words.iter().map(|word| u16::from_le_bytes(*word));
    if view.dtype() == Dtype::F32 {
        let (words, _) = view.data().as_chunks::<4>();
        Ok(words.iter().map(|word| f32::from_le_bytes(*word)).collect())
    } else if view.dtype() == Dtype::F16 {
        Ok(halves.map(|bits| f16::from_bits(bits).to_f32()).collect())
    } else if view.dtype() == Dtype::BF16 {
        Ok(halves.map(|bits| bf16::from_bits(bits).to_f32()).collect())
    } else {
        Err(wrong_format(name, view))
    }
}

fn wrong_format(name: &str, view: &TensorView<'_>) -> WeightsError {
    let format = format!("{:?}", view.dtype()).to_lowercase();
    WeightsError::Format { name: name.to_owned(), format }
}

/// What a tensor holds, and how it is stored.
#[derive(Debug, Clone)]
pub enum TensorData<'a> {
    /// Four bytes a number, exact.
    Full(Cow<'a, [f32]>),
    /// Two bytes a number: 11 significant bits, magnitudes up to 65504.
    Half(Cow<'a, [f32]>),
    /// Bytes, as they are.
    Bytes(Cow<'a, [u8]>),
}

/// One tensor to be written.
#[derive(Debug, Clone)]
pub struct WeightTensor<'a> {
    /// Its name in the file.
    pub name: String,
    /// Its shape, outermost dimension first.
    pub shape: Vec<usize>,
    /// Its numbers, row by row.
    pub data: TensorData<'a>,
}

impl TensorData<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Full(numbers) | Self::Half(numbers) => numbers.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }
}

#[derive(Serialize)]
struct Entry<'a> {
    dtype: &'static str,
    shape: &'a [usize],
    data_offsets: [usize; 2],
}

#[derive(Serialize)]
#[serde(untagged)]
enum Header<'a> {
    Text(&'a BTreeMap<String, String>),
    WeightTensor(Entry<'a>),
}

/// Writes a safetensors file with these tensors and this metadata.
///
/// Equal arguments give equal bytes: the tensors are sorted by name.
///
/// # Errors
/// [`WeightsError::Unwritable`] when numbers and shape disagree or a name is used twice;
/// [`WeightsError::NotFinite`], also for a number that [`TensorData::Half`] cannot hold.
pub fn write(
    tensors: &[WeightTensor<'_>],
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>, WeightsError> {
    let mut sorted: Vec<&WeightTensor<'_>> = tensors.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let mut header = BTreeMap::from([(METADATA, Header::Text(metadata))]);
    let mut data = Vec::new();
    for tensor in sorted {
        if tensor.shape.iter().product::<usize>() != tensor.data.len() {
            return Err(unwritable(tensor, "its shape and its numbers disagree"));
        }
        let start = data.len();
        let dtype = append(&mut data, tensor)?;
        let entry = Entry { dtype, shape: &tensor.shape, data_offsets: [start, data.len()] };
        if header.insert(&tensor.name, Header::WeightTensor(entry)).is_some() {
            return Err(unwritable(tensor, "the name is not unique"));
        }
    }
    let mut text = serde_json::to_vec(&header).expect("names and numbers have a JSON form");
    // The format requires the header to be padded with spaces to a multiple of eight bytes.
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut bytes = Vec::with_capacity(8 + text.len() + data.len());
    bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&text);
    bytes.extend_from_slice(&data);
    Ok(bytes)
}

fn damaged(cause: &safetensors::SafeTensorError) -> WeightsError {
    WeightsError::Damaged { detail: cause.to_string().to_lowercase() }
}

fn unwritable(tensor: &WeightTensor<'_>, detail: &str) -> WeightsError {
    WeightsError::Unwritable { name: tensor.name.clone(), detail: detail.to_owned() }
}

fn not_finite(tensor: &WeightTensor<'_>) -> WeightsError {
    WeightsError::NotFinite { name: tensor.name.clone() }
}

fn append(data: &mut Vec<u8>, tensor: &WeightTensor<'_>) -> Result<&'static str, WeightsError> {
    match &tensor.data {
        TensorData::Full(numbers) => {
            if numbers.iter().any(|number| !number.is_finite()) {
                return Err(not_finite(tensor));
            }
            data.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
            Ok("F32")
        }
        TensorData::Half(numbers) => {
            let halves = numbers.iter().map(|number| f16::from_f32(*number));
            if halves.clone().any(|half| !half.is_finite()) {
                return Err(not_finite(tensor));
            }
            data.extend(halves.flat_map(f16::to_le_bytes));
            Ok("F16")
        }
        TensorData::Bytes(bytes) => {
            data.extend_from_slice(bytes);
            Ok("U8")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: [f32; 6] = [0.5, -1.0, 2.0, 0.0, 65504.0, -0.25];

    /// A half "b", a full "a" and the bytes "c".
    fn tensors() -> [WeightTensor<'static>; 3] {
        [
            ("b", vec![2, 3], TensorData::Half((&NUMBERS).into())),
            ("a", vec![2, 3], TensorData::Full((&NUMBERS).into())),
            ("c", vec![2], TensorData::Bytes(vec![7, 255].into())),
        ]
        .map(|(name, shape, data)| WeightTensor { name: name.to_owned(), shape, data })
    }

    fn sample() -> Vec<u8> {
        let metadata = BTreeMap::from([("made by".to_owned(), "a test".to_owned())]);
        write(&tensors(), &metadata).unwrap()
    }

    #[test]
    fn a_weight_file_round_trips() {
        let bytes = sample();
        let weights = WeightFile::read(&bytes).unwrap();
        assert_eq!(weights.names(), ["a", "b", "c"]);
        assert_eq!(weights.metadata()["made by"], "a test");
        for name in ["a", "b"] {
            assert_eq!(weights.shape(name).unwrap(), [2, 3]);
            assert_eq!(weights.floats(name, &[2, 3]).unwrap(), NUMBERS);
            assert!(matches!(weights.bytes(name, 6), Err(WeightsError::Shape { .. })));
        }
        assert_eq!(weights.bytes("c", 2).unwrap(), [7, 255]);
        assert!(matches!(weights.floats("c", &[2]), Err(WeightsError::Format { .. })));
    }

    #[test]
    fn equal_tensors_in_any_order_give_equal_bytes() {
        let mut reversed = tensors();
        reversed.reverse();
        let none = BTreeMap::new();
        assert_eq!(write(&tensors(), &none).unwrap(), write(&reversed, &none).unwrap());
    }

    #[test]
    fn a_cut_off_file_is_refused() {
        let bytes = sample();
        for length in 0..bytes.len() {
            let error = WeightFile::read(&bytes[..length]).unwrap_err();
            assert!(matches!(error, WeightsError::Damaged { .. }), "{length} bytes: {error}");
        }
    }

    #[test]
    fn a_header_that_lies_about_sizes_is_refused() {
        let cases = [
            r#"{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,8]}}"#,
            r#"{"a":{"dtype":"F32","shape":[18446744073709551615,2],"data_offsets":[0,8]}}"#,
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#,
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#,
            r#"{"a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}}"#,
            "[]",
            "{",
        ];
        for header in cases {
            let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
            bytes.extend_from_slice(header.as_bytes());
            bytes.extend_from_slice(&[0; 8]);
            assert!(
                matches!(WeightFile::read(&bytes), Err(WeightsError::Damaged { .. })),
                "{header}"
            );
        }
        let mut endless = u64::MAX.to_le_bytes().to_vec();
        endless.extend_from_slice(b"{}");
        assert!(matches!(WeightFile::read(&endless), Err(WeightsError::Damaged { .. })));
    }

    #[test]
    fn wrong_shapes_formats_and_values_are_named() {
        let header = concat!(
            r#"{"i":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"#,
            r#""n":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},"h":{"dtype":"BF16","shape":[2],"data_offsets":[12,16]}}"#
        );
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&f32::NAN.to_le_bytes());
        bytes.extend_from_slice(&[0x80, 0x3f, 0x00, 0xc0]);
        let weights = WeightFile::read(&bytes).unwrap();
        assert!(
            matches!(weights.floats("i", &[1]), Err(WeightsError::Format { format, .. }) if format == "i64")
        );
        assert!(matches!(weights.floats("n", &[1]), Err(WeightsError::NotFinite { .. })));
        assert!(matches!(weights.floats("n", &[2]), Err(WeightsError::Shape { .. })));
        assert!(matches!(weights.floats("x", &[1]), Err(WeightsError::Missing { .. })));
        assert_eq!(weights.floats("h", &[2]).unwrap(), [1.0, -2.0]);
    }

    fn tensor(shape: &[usize], data: TensorData<'static>) -> WeightTensor<'static> {
        WeightTensor { name: "a".to_owned(), shape: shape.to_vec(), data }
    }

    #[test]
    fn tensors_that_cannot_be_stored_are_rejected() {
        let none = BTreeMap::new();
        let half = |number: f32| TensorData::Half(vec![number].into());
        let full = |number: f32| TensorData::Full(vec![number].into());
        for tensor in [tensor(&[1], half(70000.0)), tensor(&[1], full(f32::INFINITY))] {
            assert!(matches!(write(&[tensor], &none), Err(WeightsError::NotFinite { .. })));
        }
        let wrong_shape = tensor(&[2], full(0.0));
        assert!(matches!(write(&[wrong_shape], &none), Err(WeightsError::Unwritable { .. })));
        let twice = [tensor(&[1], full(0.0)), tensor(&[1], half(0.0))];
        assert!(matches!(write(&twice, &none), Err(WeightsError::Unwritable { .. })));
    }
}
