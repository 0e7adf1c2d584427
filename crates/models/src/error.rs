//! Errors of models, their files and their inputs.

use std::path::PathBuf;

/// A weight file that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The bytes are not a complete safetensors file.
    #[error("the safetensors file is incomplete or damaged ({detail}); fetch it again")]
    Damaged {
        /// The parser's message.
        detail: String,
    },
    /// A tensor has an unsupported number format.
    #[error("tensor `{name}` holds `{format}` values; give one with f32, f16 or bf16")]
    Format {
        /// The tensor's name.
        name: String,
        /// The format's name.
        format: String,
    },
    /// A required tensor is missing.
    #[error("tensor `{name}` is missing; give the weights of the model named in its configuration")]
    Missing {
        /// The tensor's name.
        name: String,
    },
    /// A tensor has the wrong shape.
    #[error(
        "tensor `{name}` has shape {found:?}, but the model needs {expected:?}; weights and configuration differ"
    )]
    Shape {
        /// The tensor's name.
        name: String,
        /// The shape in the file.
        found: Vec<usize>,
        /// The required shape.
        expected: Vec<usize>,
    },
    /// A tensor contains an infinite value or NaN.
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
        /// The problem.
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
        /// Its message.
        detail: String,
    },
    /// A file of the model cannot be read.
    #[error("could not read `{path}`; fetch the model again")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        cause: std::io::Error,
    },
    /// The weight file is invalid.
    #[error("the weights cannot be used")]
    Weights(
        /// The problem.
        #[from]
        WeightsError,
    ),
    /// A GGUF file cannot be used.
    #[error("the model's file cannot be used")]
    Gguf(
        /// The problem.
        #[from]
        crate::gguf::GgufError,
    ),
    /// The configuration describes an unsupported model.
    #[error("the model's configuration cannot be used: {detail}")]
    Configuration {
        /// The problem.
        detail: String,
    },
    /// The tokenizer file is invalid.
    #[error("the tokenizer cannot be used: {detail}")]
    Tokenizer {
        /// The problem.
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
    /// The classifier file has an unknown format or version.
    #[error("the classifier cannot be used: {detail}")]
    Classifier {
        /// The problem.
        detail: String,
    },
    /// The token ids are invalid for the model.
    #[error("the tokens do not fit the model: {detail}")]
    Tokens {
        /// The problem.
        detail: String,
    },
}
