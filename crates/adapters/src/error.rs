//! Why an adapter cannot be read. Nothing of it is used then.

use std::path::{Path, PathBuf};

/// Why an adapter cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// A file or folder cannot be read.
    #[error("`{}` cannot be read: {cause}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The cause.
        cause: std::io::Error,
    },
    /// A file that was open cannot be read on.
    #[error("the weights cannot be read on: {0}")]
    Read(#[source] std::io::Error),
    /// The weights are not a safetensors file that fits its header.
    #[error("the weights are not understood: {0}")]
    Damaged(String),
    /// The configuration is not a JSON object, or has a pattern that is no regular expression.
    #[error("`adapter_config.json` is not understood: {0}")]
    Configuration(String),
    /// There are no weights in the folder that can be read without running code.
    #[error("`{}` holds no `adapter_model.safetensors`", .0.display())]
    NoWeights(PathBuf),
    /// A symbolic link leads out of the folder.
    #[error("`{}` is a link that leads out of the folder; copy the files that it leads to", .0.display())]
    LinkOut(PathBuf),
    /// There are more files than an adapter has.
    #[error("`{}` holds more than {most} files", path.display())]
    TooManyFiles {
        /// The folder.
        path: PathBuf,
        /// As many as there may be.
        most: usize,
    },
    /// A tensor is needed and not there.
    #[error("the tensor `{0}` is missing")]
    Missing(String),
    /// A tensor holds numbers that are no weights.
    #[error("the tensor `{name}` holds `{format}`; weights are F64, F32, F16 or BF16")]
    Format {
        /// The tensor.
        name: String,
        /// What the header says.
        format: String,
    },
    /// A tensor has another shape than its kind.
    #[error("the tensor `{name}` has the shape {found:?}, which is not {expected}")]
    Shape {
        /// The tensor.
        name: String,
        /// Its shape.
        found: Vec<usize>,
        /// What would be.
        expected: &'static str,
    },
    /// A tensor is larger than one of an adapter.
    #[error("the tensor `{0}` is too large to be part of an adapter")]
    TooLarge(String),
    /// A weight is infinite or no number.
    #[error("the tensor `{0}` holds an infinite weight or one that is no number")]
    NotFinite(String),
}

impl AdapterError {
    pub(crate) fn file(path: &Path) -> impl Fn(std::io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |cause| Self::File { path: path.clone(), cause }
    }
}
