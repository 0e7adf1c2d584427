//! A model as a file: safetensors, so that loading it runs nothing.
//!
//! Tensors: `ngrams` (bytes of all n-grams, UTF-8, one after another), `ends` (where each ends, u32), `idf` and
//! `coefficients` (f32, one for each n-gram), `intercept` (one f64). The metadata has one entry, `custody`, a JSON
//! object with the format's version, the options of the training and the origin of the data. Equal models give equal
//! bytes.

use std::collections::HashMap;
use std::str;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use super::gram::Gram;
use super::vocabulary::{Crowded, MAX_FEATURES, Vocabulary};
use super::{NgramModel, NgramOptions, TrainingOrigin};

const FORMAT: &str = "custody-ngram";
const VERSION: u32 = 1;
const METADATA: &str = "custody";
const TENSORS: [&str; 5] = ["coefficients", "ends", "idf", "intercept", "ngrams"];
/// A file is refused beyond this size before anything in it is read: above any model of [`MAX_FEATURES`] n-grams.
const MAX_BYTES: usize = 64 << 20;

/// Bytes that are no model of ours.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Larger than any model can be.
    #[error(
        "the model file has {bytes} bytes, more than any n-gram model; check that it is the right file"
    )]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// Not safetensors, or damaged: cut off, overlapping, wrong lengths.
    #[error("the model file is damaged or no safetensors file; fetch it again or train anew")]
    Damaged(#[source] safetensors::SafeTensorError),
    /// Whole, but of another kind or version.
    #[error(
        "the model file is no n-gram model of version {VERSION}: {found}; fetch it again or train anew"
    )]
    Foreign {
        /// What stands there.
        found: String,
    },
    /// The parts contradict one another.
    #[error("the model file contradicts itself: {what}; fetch it again or train anew")]
    Inconsistent {
        /// What is wrong.
        what: &'static str,
    },
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    format: String,
    version: u32,
    options: NgramOptions,
    origin: TrainingOrigin,
}

impl NgramModel {
    /// The model as a file's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let (mut ngrams, mut ends, mut idf, mut coefficients) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (ngram, weight, coefficient) in self.features() {
            ngrams.extend_from_slice(ngram.as_bytes());
            let end = u32::try_from(ngrams.len())
                .expect("a million n-grams of 24 bytes are far below 4 GiB");
            ends.extend_from_slice(&end.to_le_bytes());
            idf.extend_from_slice(&weight.to_le_bytes());
            coefficients.extend_from_slice(&coefficient.to_le_bytes());
        }
        let (count, intercept) = (self.feature_count(), self.intercept().to_le_bytes());
        let tensors = [
            ("ngrams", Dtype::U8, ngrams.len(), ngrams.as_slice()),
            ("ends", Dtype::U32, count, &ends),
            ("idf", Dtype::F32, count, &idf),
            ("coefficients", Dtype::F32, count, &coefficients),
            ("intercept", Dtype::F64, 1, &intercept),
        ];
        let tensors = tensors.map(|(name, dtype, length, bytes)| {
            (
                name,
                TensorView::new(dtype, vec![length], bytes)
                    .expect("each has as many bytes as its length says"),
            )
        });
        let metadata = Metadata {
            format: FORMAT.to_owned(),
            version: VERSION,
            options: *self.options(),
            origin: self.origin().clone(),
        };
        // One entry only: a map of several would be written in an order that changes from run to run.
        let metadata =
            serde_json::to_string(&metadata).expect("plain structs of strings and finite numbers");
        let metadata = HashMap::from([(METADATA.to_owned(), metadata)]);
        safetensors::serialize(tensors, Some(metadata)).expect("a header far below the limit")
    }

    /// Reads a model from a file's bytes. They may be hostile: everything is checked, and nothing is run.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LoadError> {
        if bytes.len() > MAX_BYTES {
            return Err(LoadError::TooLarge { bytes: bytes.len() });
        }
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(LoadError::Damaged)?;
        let metadata = read_metadata(header.metadata().as_ref())?;
        let tensors = SafeTensors::deserialize(bytes).map_err(LoadError::Damaged)?;
        let mut names = tensors.names();
        names.sort_unstable();
        if names != TENSORS {
            return Err(LoadError::Foreign { found: format!("tensors `{}`", names.join("`, `")) });
        }
        let column = |name, dtype, size| column(&tensors, name, dtype, size);
        let (ngrams, ends) = (column("ngrams", Dtype::U8, 1)?, column("ends", Dtype::U32, 4)?);
        let (idf, coefficients) =
            (column("idf", Dtype::F32, 4)?, column("coefficients", Dtype::F32, 4)?);
        let intercept = column("intercept", Dtype::F64, 8)?;
        require(
            idf.len() == ends.len() && coefficients.len() == ends.len(),
            "columns of different lengths",
        )?;
        require(intercept.len() == 8, "not exactly one intercept")?;
        let count = ends.len() / 4;
        require(
            count > 0 && count <= MAX_FEATURES.min(metadata.options.max_features),
            "too many n-grams, or none",
        )?;

        let grams = read_grams(ngrams, &numbers(ends, u32::from_le_bytes), &metadata.options)?;
        let (idf, coefficients) =
            (numbers(idf, f32::from_le_bytes), numbers(coefficients, f32::from_le_bytes));
        let intercept = numbers(intercept, f64::from_le_bytes)[0];
        require(
            idf.iter().all(|idf| idf.is_finite() && *idf > 0.0),
            "an inverse frequency that is none",
        )?;
        let finite =
            intercept.is_finite() && coefficients.iter().all(|coefficient| coefficient.is_finite());
        require(finite, "a weight that is not a finite number")?;
        let vocabulary = Vocabulary::new(metadata.options.lengths, grams, idf)
            .map_err(|Crowded| LoadError::Inconsistent { what: "n-grams made to collide" })?;
        Ok(Self::new(metadata.options, metadata.origin, vocabulary, coefficients, intercept))
    }
}

fn read_metadata(entries: Option<&HashMap<String, String>>) -> Result<Metadata, LoadError> {
    let foreign = |found: &str| LoadError::Foreign { found: found.to_owned() };
    let entry = entries
        .and_then(|entries| entries.get(METADATA))
        .ok_or_else(|| foreign("no metadata of ours"))?;
    let metadata: Metadata =
        serde_json::from_str(entry).map_err(|error| foreign(&error.to_string()))?;
    if metadata.format != FORMAT || metadata.version != VERSION {
        return Err(foreign(&format!("`{}` version {}", metadata.format, metadata.version)));
    }
    metadata.options.check().map_err(|error| foreign(&error.to_string()))?;
    Ok(metadata)
}

/// The bytes of one tensor of one dimension.
fn column<'a>(
    tensors: &SafeTensors<'a>,
    name: &str,
    dtype: Dtype,
    size: usize,
) -> Result<&'a [u8], LoadError> {
    let tensor = tensors.tensor(name).map_err(LoadError::Damaged)?;
    let right = tensor.dtype() == dtype
        && tensor.shape().len() == 1
        && tensor.data().len().is_multiple_of(size);
    require(right, "a tensor of another type or shape")?;
    Ok(tensor.data())
}

/// The n-grams, if they are ascending, none is longer than the options allow, and together they are all the bytes.
fn read_grams(bytes: &[u8], ends: &[u32], options: &NgramOptions) -> Result<Vec<Gram>, LoadError> {
    let mut grams: Vec<Gram> = Vec::with_capacity(ends.len());
    let mut start = 0;
    for &end in ends {
        let end = end as usize;
        let text = bytes.get(start..end).and_then(|bytes| str::from_utf8(bytes).ok());
        let gram = text
            .and_then(Gram::from_text)
            .filter(|gram| gram.characters().count() <= options.lengths.max);
        let gram = gram.ok_or(LoadError::Inconsistent { what: "n-grams that are none" })?;
        require(grams.last().is_none_or(|last| *last < gram), "n-grams out of order")?;
        grams.push(gram);
        start = end;
    }
    require(start == bytes.len(), "bytes that belong to no n-gram")?;
    Ok(grams)
}

fn numbers<const SIZE: usize, T>(bytes: &[u8], read: fn([u8; SIZE]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|chunk| read(*chunk)).collect()
}

fn require(holds: bool, what: &'static str) -> Result<(), LoadError> {
    if holds { Ok(()) } else { Err(LoadError::Inconsistent { what }) }
}
