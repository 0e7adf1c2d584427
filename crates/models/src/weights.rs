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
        let format = format!("{:?}", view.dtype()).to_lowercase();
        Err(WeightsError::Format { name: name.to_owned(), format })
    }
}

/// How numbers are stored in a file that we write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// Four bytes a number, exact.
    Full,
    /// Two bytes a number: 11 significant bits, magnitudes up to 65504.
    Half,
}

/// One tensor to be written.
#[derive(Debug, Clone)]
pub struct WeightTensor<'a> {
    /// Its name in the file.
    pub name: String,
    /// Its shape, outermost dimension first.
    pub shape: Vec<usize>,
    /// Its numbers, row by row.
    pub numbers: Cow<'a, [f32]>,
    /// How to store them.
    pub storage: Storage,
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
/// [`WeightsError::NotFinite`], also for a number that [`Storage::Half`] cannot hold.
pub fn write(
    tensors: &[WeightTensor<'_>],
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>, WeightsError> {
    let mut sorted: Vec<&WeightTensor<'_>> = tensors.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let mut header = BTreeMap::from([(METADATA, Header::Text(metadata))]);
    let mut data = Vec::new();
    for tensor in sorted {
        if tensor.shape.iter().product::<usize>() != tensor.numbers.len() {
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

fn append(data: &mut Vec<u8>, tensor: &WeightTensor<'_>) -> Result<&'static str, WeightsError> {
    match tensor.storage {
        Storage::Full => {
            if tensor.numbers.iter().any(|number| !number.is_finite()) {
                return Err(WeightsError::NotFinite { name: tensor.name.clone() });
            }
            data.extend(tensor.numbers.iter().flat_map(|number| number.to_le_bytes()));
            Ok("F32")
        }
        Storage::Half => {
            let halves = tensor.numbers.iter().map(|number| f16::from_f32(*number));
            if halves.clone().any(|half| !half.is_finite()) {
                return Err(WeightsError::NotFinite { name: tensor.name.clone() });
            }
            data.extend(halves.flat_map(f16::to_le_bytes));
            Ok("F16")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: [(&str, Storage); 2] = [("b", Storage::Half), ("a", Storage::Full)];

    fn sample(order: [(&str, Storage); 2]) -> Vec<u8> {
        let metadata = BTreeMap::from([("made by".to_owned(), "a test".to_owned())]);
        let tensors = order.map(|(name, storage)| WeightTensor {
            name: name.to_owned(),
            shape: vec![2, 3],
            numbers: vec![0.5, -1.0, 2.0, 0.0, 65504.0, -0.25].into(),
            storage,
        });
        write(&tensors, &metadata).unwrap()
    }

    #[test]
    fn a_weight_file_round_trips() {
        let bytes = sample(ORDER);
        let weights = WeightFile::read(&bytes).unwrap();
        assert_eq!(weights.names(), ["a", "b"]);
        assert_eq!(weights.metadata()["made by"], "a test");
        for name in ["a", "b"] {
            assert_eq!(weights.shape(name).unwrap(), [2, 3]);
            assert_eq!(
                weights.floats(name, &[2, 3]).unwrap(),
                [0.5, -1.0, 2.0, 0.0, 65504.0, -0.25]
            );
        }
    }

    #[test]
    fn equal_tensors_in_any_order_give_equal_bytes() {
        let [first, second] = ORDER;
        assert_eq!(sample([first, second]), sample([second, first]));
    }

    #[test]
    fn a_cut_off_file_is_refused() {
        let bytes = sample(ORDER);
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

    fn tensor(number: f32, shape: &[usize], storage: Storage) -> WeightTensor<'static> {
        WeightTensor {
            name: "a".to_owned(),
            shape: shape.to_vec(),
            numbers: vec![number].into(),
            storage,
        }
    }

    #[test]
    fn tensors_that_cannot_be_stored_are_rejected() {
        let none = BTreeMap::new();
        for tensor in
            [tensor(70000.0, &[1], Storage::Half), tensor(f32::INFINITY, &[1], Storage::Full)]
        {
            assert!(matches!(write(&[tensor], &none), Err(WeightsError::NotFinite { .. })));
        }
        let wrong_shape = tensor(0.0, &[2], Storage::Full);
        assert!(matches!(write(&[wrong_shape], &none), Err(WeightsError::Unwritable { .. })));
        let twice = [tensor(0.0, &[1], Storage::Full), tensor(0.0, &[1], Storage::Half)];
        assert!(matches!(write(&twice, &none), Err(WeightsError::Unwritable { .. })));
    }
}
