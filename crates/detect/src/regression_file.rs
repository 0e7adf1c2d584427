//! Logistic regressions stored as JSON files.

use custody_models::ModelError;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The largest file, in bytes; a regression of the largest dimension is several times smaller.
const MAX_BYTES: usize = 1 << 20;
/// The largest dimension of a vector.
pub(crate) const MAX_DIMENSION: usize = 4_096;

/// A regression file that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RegressionFileError {
    /// The file is too large.
    #[error("{what} has {bytes} bytes; the limit is {MAX_BYTES}")]
    TooLarge {
        /// The kind of file.
        what: &'static str,
        /// Its size in bytes.
        bytes: usize,
    },
    /// The file is truncated or is not JSON with these fields.
    #[error("{what} is damaged or is another kind of file")]
    Damaged {
        /// The kind of file.
        what: &'static str,
        /// The parser's error.
        #[source]
        cause: serde_json::Error,
    },
    /// The file has the right fields with invalid values.
    #[error("{what} is invalid: {detail}")]
    Invalid {
        /// The kind of file.
        what: &'static str,
        /// Which value, and what it must be.
        detail: String,
    },
}

/// A kind of file.
pub(crate) struct FileKind {
    /// The name of the file in messages.
    pub(crate) what: &'static str,
    pub(crate) format: &'static str,
    pub(crate) version: u32,
}

impl FileKind {
    /// Parses untrusted bytes; checks the fields' names and types, not their values.
    pub(crate) fn read<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, RegressionFileError> {
        let what = self.what;
        if bytes.len() > MAX_BYTES {
            return Err(RegressionFileError::TooLarge { what, bytes: bytes.len() });
        }
        serde_json::from_slice(bytes).map_err(|cause| RegressionFileError::Damaged { what, cause })
    }

    /// Checks format and version, and that all numbers are finite.
    pub(crate) fn check<'n>(
        &self,
        (format, version): (&str, u32),
        numbers: impl IntoIterator<Item = &'n f32>,
    ) -> Result<(), RegressionFileError> {
        if format != self.format || version != self.version {
            let (wanted, supported) = (self.format, self.version);
            return Err(self.invalid(format!(
                "it has format `{format}` version {version}, not `{wanted}` version {supported}"
            )));
        }
        if !numbers.into_iter().all(|number| number.is_finite()) {
            return Err(self.invalid("a value is not a finite number".to_owned()));
        }
        Ok(())
    }

    pub(crate) fn invalid(&self, detail: String) -> RegressionFileError {
        RegressionFileError::Invalid { what: self.what, detail }
    }
}

/// The bytes of a regression file. Equal regressions give equal bytes.
pub(crate) fn to_bytes(regression: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(regression).expect("plain structs of finite numbers");
    bytes.push(b'\n');
    bytes
}

/// Refuses vectors of the embedding model `found` for a regression trained on `wanted`; both are SHA-256 digests.
pub(crate) fn check_base(wanted: &str, found: &str) -> Result<(), ModelError> {
    if wanted == found {
        return Ok(());
    }
    Err(ModelError::AnotherBase { wanted: wanted.to_owned(), found: found.to_owned() })
}

/// The dot product, summed in order in double precision.
pub(crate) fn product(weights: &[f32], values: &[f32]) -> f64 {
    let products = weights.iter().zip(values);
    products.map(|(weight, value)| f64::from(*weight) * f64::from(*value)).sum()
}
