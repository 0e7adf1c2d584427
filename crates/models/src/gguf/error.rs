//! Errors of GGUF files.

use super::{Format, shown};

/// A GGUF file that cannot be read, or lacks what the model needs.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    /// The bytes are not a complete file, or contradict themselves.
    #[error("the GGUF file is incomplete or damaged ({detail}); fetch it again")]
    Damaged {
        /// The parser's message.
        detail: String,
    },
    /// Another version of the format.
    #[error("this is GGUF version {version}; give a file of version 2 or 3, little-endian")]
    Version {
        /// As the file says.
        version: u32,
    },
    /// A tensor is stored in a number format that this program does not know.
    #[error(
        "tensor `{name}` is in number format {id}, which is unknown here; known are {}",
        Format::list()
    )]
    Format {
        /// The tensor's name.
        name: String,
        /// The format's number in GGUF.
        id: u32,
    },
    /// The metadata lacks something that the model needs.
    #[error("the file does not say `{key}`; give the file of a whole model")]
    MissingValue {
        /// What it lacks.
        key: String,
    },
    /// A value of the metadata is not what its key promises.
    #[error("`{key}` must be {expected}, and is {found}")]
    Kind {
        /// The value's key.
        key: String,
        /// What it must be.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A required tensor is missing.
    #[error("tensor `{name}` is missing; give the file of a whole model")]
    MissingTensor {
        /// The tensor's name.
        name: String,
    },
    /// A tensor has the wrong shape.
    #[error("tensor `{name}` has shape {found:?}, but the model needs {expected:?}")]
    Shape {
        /// The tensor's name.
        name: String,
        /// The shape in the file, outermost dimension first.
        found: Vec<usize>,
        /// The required shape.
        expected: Vec<usize>,
    },
    /// A tensor contains an infinite value or NaN.
    #[error("tensor `{name}` holds a value that is not finite; fetch the file again")]
    NotFinite {
        /// The tensor's name.
        name: String,
    },
}

impl GgufError {
    pub(crate) fn damaged(detail: impl Into<String>) -> Self {
        Self::Damaged { detail: detail.into() }
    }

    pub(crate) fn kind(key: &str, expected: &'static str, found: &'static str) -> Self {
        Self::Kind { key: shown(key), expected, found }
    }
}
