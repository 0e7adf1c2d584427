//! Regressions as files: JSON that a person can read, so that loading one runs nothing.

use custody_models::ModelError;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A file is refused beyond this size before anything in it is read: the weights of any vectors fit several times.
const MAX_BYTES: usize = 1 << 20;
/// The longest vector.
pub(crate) const MAX_DIMENSION: usize = 4_096;

/// Bytes that are no regression of the kind that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum RegressionFileError {
    /// Larger than any can be.
    #[error("{what} has {bytes} bytes, more than any; check that it is the right file")]
    TooLarge {
        /// Whose file.
        what: &'static str,
        /// Its size.
        bytes: usize,
    },
    /// Cut off, or no JSON with these fields.
    #[error("{what} is damaged or another kind of file; fetch it again or train anew")]
    Damaged {
        /// Whose file.
        what: &'static str,
        /// Why it cannot be read.
        #[source]
        cause: serde_json::Error,
    },
    /// Whole, but not usable.
    #[error("{what} cannot be used: {why}; fetch it again or train anew")]
    Unusable {
        /// Whose file.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

/// A kind of file.
pub(crate) struct FileKind {
    /// Whose file it is, in messages.
    pub(crate) what: &'static str,
    pub(crate) format: &'static str,
    pub(crate) version: u32,
}

impl FileKind {
    /// What `bytes` hold, which may be hostile; nothing of it is checked yet but its fields.
    pub(crate) fn read<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, RegressionFileError> {
        let what = self.what;
        if bytes.len() > MAX_BYTES {
            return Err(RegressionFileError::TooLarge { what, bytes: bytes.len() });
        }
        serde_json::from_slice(bytes).map_err(|cause| RegressionFileError::Damaged { what, cause })
    }

    /// Checks what every kind must hold: that it is of this kind, and that its numbers are numbers.
    pub(crate) fn check<'n>(
        &self,
        (format, version): (&str, u32),
        numbers: impl IntoIterator<Item = &'n f32>,
    ) -> Result<(), RegressionFileError> {
        if format != self.format || version != self.version {
            return Err(self.unusable(format!("it is `{format}` of version {version}")));
        }
        if !numbers.into_iter().all(|number| number.is_finite()) {
            return Err(self.unusable("a value is not a finite number".to_owned()));
        }
        Ok(())
    }

    pub(crate) fn unusable(&self, why: String) -> RegressionFileError {
        RegressionFileError::Unusable { what: self.what, why }
    }
}

/// A regression as a file's bytes. Equal ones give equal bytes.
pub(crate) fn to_bytes(regression: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(regression).expect("plain structs of finite numbers");
    bytes.push(b'\n');
    bytes
}

/// Whether what was trained on vectors of the model with the SHA-256 `wanted` may read those of `found`.
pub(crate) fn check_base(wanted: &str, found: &str) -> Result<(), ModelError> {
    if wanted == found {
        return Ok(());
    }
    Err(ModelError::AnotherBase { wanted: wanted.to_owned(), found: found.to_owned() })
}

/// The sum of products, in double precision and in order.
pub(crate) fn product(weights: &[f32], values: &[f32]) -> f64 {
    let products = weights.iter().zip(values);
    products.map(|(weight, value)| f64::from(*weight) * f64::from(*value)).sum()
}
