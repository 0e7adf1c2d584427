//! The file format of a model: safetensors, so that loading a file runs no code.
//!
//! Tensors: `ngrams` (all n-grams in UTF-8, concatenated), `ends` (the end of each n-gram, u32), `idf` and
//! `coefficients` (f32, one per n-gram), `intercept` (one f64). The metadata has one entry, `custody`, a JSON object
//! with the version of the format, the training options and the origin of the data. Equal models give equal bytes.

use std::collections::HashMap;
use std::{fmt, str};

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use super::gram::Gram;
use super::vocabulary::{HashCollision, MAX_FEATURES, Vocabulary};
use super::{NgramModel, NgramOptions, TrainingOrigin};

const FORMAT: &str = "custody-ngram";
const VERSION: u32 = 1;
const METADATA: &str = "custody";
const TENSORS: [&str; 5] = ["coefficients", "ends", "idf", "intercept", "ngrams"];
/// The largest file, in bytes: larger than any model of [`MAX_FEATURES`] n-grams.
const MAX_BYTES: usize = 64 << 20;

/// A file that is not a valid n-gram model.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file is too large.
    #[error("the n-gram model file is {bytes} bytes; the limit is {MAX_BYTES}")]
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
    },
    /// The file is truncated or is not a valid safetensors file.
    #[error("the n-gram model file is damaged or not a safetensors file")]
    Damaged(#[source] safetensors::SafeTensorError),
    /// The file has another format or version.
    #[error("the file is not an n-gram model of version {VERSION}: {found}")]
    Foreign {
        /// What the file contains instead.
        found: String,
    },
    /// The tensors of the file are invalid or contradict one another.
    #[error("the n-gram model file is inconsistent: {what}")]
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
    /// The bytes of a model file.
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
                    .expect("each length matches its number of bytes"),
            )
        });
        let metadata = Metadata {
            format: FORMAT.to_owned(),
            version: VERSION,
            options: *self.options(),
            origin: self.origin().clone(),
        };
        // A single entry: several would be written in an order that changes from run to run.
        let metadata =
            serde_json::to_string(&metadata).expect("plain structs of strings and finite numbers");
        let metadata = HashMap::from([(METADATA.to_owned(), metadata)]);
        safetensors::serialize(tensors, Some(metadata)).expect("a header far below the limit")
    }

    /// Reads a model from the bytes of an untrusted file.
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
        let ngrams = column(&tensors, "ngrams", Dtype::U8, 1)?;
        let ends = column(&tensors, "ends", Dtype::U32, 4)?;
        let idf = column(&tensors, "idf", Dtype::F32, 4)?;
        let coefficients = column(&tensors, "coefficients", Dtype::F32, 4)?;
        let intercept = column(&tensors, "intercept", Dtype::F64, 8)?;
        require(
            idf.len() == ends.len() && coefficients.len() == ends.len(),
            "tensors of different lengths",
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
            "an invalid inverse document frequency",
        )?;
        let is_finite =
            intercept.is_finite() && coefficients.iter().all(|coefficient| coefficient.is_finite());
        require(is_finite, "a weight that is not a finite number")?;
        let vocabulary =
            Vocabulary::new(metadata.options.lengths, grams, idf).map_err(|HashCollision| {
                LoadError::Inconsistent { what: "too many hash collisions" }
            })?;
        Ok(Self::new(metadata.options, metadata.origin, vocabulary, coefficients, intercept))
    }
}

fn read_metadata(entries: Option<&HashMap<String, String>>) -> Result<Metadata, LoadError> {
    let entry = entries
        .and_then(|entries| entries.get(METADATA))
        .ok_or_else(|| LoadError::foreign("no `custody` metadata"))?;
    let metadata: Metadata = serde_json::from_str(entry).map_err(LoadError::foreign)?;
    if metadata.format != FORMAT || metadata.version != VERSION {
        let Metadata { format, version, .. } = metadata;
        return Err(LoadError::foreign(format_args!("`{format}` version {version}")));
    }
    metadata.options.check().map_err(LoadError::foreign)?;
    Ok(metadata)
}

impl LoadError {
    fn foreign(found: impl fmt::Display) -> Self {
        Self::Foreign { found: found.to_string() }
    }
}

/// The bytes of a one-dimensional tensor.
fn column<'a>(
    tensors: &SafeTensors<'a>,
    name: &str,
    dtype: Dtype,
    size: usize,
) -> Result<&'a [u8], LoadError> {
    let tensor = tensors.tensor(name).map_err(LoadError::Damaged)?;
    let is_valid = tensor.dtype() == dtype
        && tensor.shape().len() == 1
        && tensor.data().len().is_multiple_of(size);
    require(is_valid, "a tensor of another type or shape")?;
    Ok(tensor.data())
}

/// The n-grams, checked: ascending, none longer than the options allow, and together all of `bytes`.
fn read_grams(bytes: &[u8], ends: &[u32], options: &NgramOptions) -> Result<Vec<Gram>, LoadError> {
    let mut grams: Vec<Gram> = Vec::with_capacity(ends.len());
    let mut start = 0;
    for &end in ends {
        let end = end as usize;
        let text = bytes.get(start..end).and_then(|bytes| str::from_utf8(bytes).ok());
        let gram = text
            .and_then(Gram::from_text)
            .filter(|gram| gram.characters().count() <= options.lengths.max);
        let gram = gram.ok_or(LoadError::Inconsistent { what: "an invalid n-gram" })?;
        require(grams.last().is_none_or(|last| *last < gram), "n-grams out of order")?;
        grams.push(gram);
        start = end;
    }
    require(start == bytes.len(), "trailing bytes after the last n-gram")?;
    Ok(grams)
}

fn numbers<const SIZE: usize, T>(bytes: &[u8], read: fn([u8; SIZE]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|chunk| read(*chunk)).collect()
}

fn require(holds: bool, what: &'static str) -> Result<(), LoadError> {
    if holds { Ok(()) } else { Err(LoadError::Inconsistent { what }) }
}
