//! What can go wrong with a model: its files, its text, its use.

use std::path::PathBuf;

/// A weight file that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The bytes are not a complete safetensors file.
    #[error("this is not a whole safetensors file ({detail}); fetch it again")]
    Damaged {
        /// What the reader found.
        detail: String,
    },
    /// A tensor is stored in a number format that this program does not compute with.
    #[error("tensor `{name}` holds `{format}` values; give one with f32, f16 or bf16")]
    Format {
        /// The tensor's name.
        name: String,
        /// The format's name.
        format: String,
    },
    /// A tensor that the model needs is not in the file.
    #[error("tensor `{name}` is missing; give the weights of the model named in its configuration")]
    Missing {
        /// The tensor's name.
        name: String,
    },
    /// A tensor has another shape than the model needs.
    #[error(
        "tensor `{name}` has shape {found:?}, but the model needs {expected:?}; weights and configuration differ"
    )]
    Shape {
        /// The tensor's name.
        name: String,
        /// The shape in the file.
        found: Vec<usize>,
        /// The shape that fits.
        expected: Vec<usize>,
    },
    /// A tensor holds a value that is no finite number.
    #[error(
        "tensor `{name}` holds a value that is not finite; the file was damaged or the training diverged"
    )]
    NotFinite {
        /// The tensor's name.
        name: String,
    },
    /// Values and shape disagree, or the name is already taken.
    #[error("tensor `{name}` cannot be written: {detail}")]
    Unwritable {
        /// The tensor's name.
        name: String,
        /// What is wrong with it.
        detail: String,
    },
}

/// A model that cannot be opened or run.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// llama.cpp cannot run the model, or failed.
    #[cfg(feature = "llama-cpp")]
    #[error("llama.cpp cannot run the model: {detail}")]
    LlamaCpp {
        /// What it says.
        detail: String,
    },
    /// A file of the model cannot be read.
    #[error("could not read `{path}`; fetch the model again")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: std::io::Error,
    },
    /// The weights do not fit.
    #[error("the weights cannot be used")]
    Weights(
        /// What is wrong with them.
        #[from]
        WeightsError,
    ),
    /// A GGUF file cannot be used.
    #[error("the model's file cannot be used")]
    Gguf(
        /// What is wrong with it.
        #[from]
        crate::gguf::GgufError,
    ),
    /// The configuration describes a model that this engine cannot run.
    #[error("the model's configuration cannot be used: {detail}")]
    Configuration {
        /// What is wrong with it.
        detail: String,
    },
    /// The tokenizer's description cannot be used.
    #[error("the tokenizer cannot be used: {detail}")]
    Tokenizer {
        /// What is wrong with it.
        detail: String,
    },
    /// The classifier was trained on another base model.
    #[error(
        "this classifier was trained on base weights `{wanted}`, not on `{found}`; fetch that base model"
    )]
    AnotherBase {
        /// SHA-256 of the weights that the classifier needs, in hexadecimal.
        wanted: String,
        /// SHA-256 of the weights that were given, in hexadecimal.
        found: String,
    },
    /// The classifier's file is of a kind or version that this program does not know.
    #[error("this is not a classifier that this program can read: {detail}")]
    Classifier {
        /// What is wrong with it.
        detail: String,
    },
    /// Token ids that the model cannot take.
    #[error("the tokens do not fit the model: {detail}")]
    Tokens {
        /// What is wrong with them.
        detail: String,
    },
}
