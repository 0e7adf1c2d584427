//! Text to vectors, tokens and weights: the embedder, the sequence classifiers, and where their files come from.
//!
//! In reading order:
//!
//! - [`weights`] and [`tokenizer`]: the two kinds of files that make a model.
//! - [`encoder`]: a BERT encoder and sentence vectors.
//! - [`classifier`]: a fine-tuned encoder with a head, kept as what differs from its base.
#![cfg_attr(feature = "train", doc = "- [`train`]: fine-tuning one.")]
//! - [`gguf`] and [`decoder`]: language models from their files.
//! - [`chat`]: language models that answer, embedded or not.
//! - [`registry`], [`pins`], [`install`]: which models there are, which are here, how they come.
//! - [`fetch`], [`incoming`], [`folders`], [`sha256`]: how any file comes in, hashed on the way.
//! - [`deberta`]: the classifiers that others publish in that architecture; [`verdict`] says what their outputs mean.
#![cfg_attr(feature = "rten", doc = "- [`onnx`]: classifiers that others publish as graphs.")]

pub mod chat;
pub mod classifier;
pub mod deberta;
pub mod decoder;
pub mod encoder;
pub mod error;
pub mod fetch;
pub mod folders;
pub mod gguf;
pub mod incoming;
pub mod install;
#[cfg(feature = "rten")]
pub mod onnx;
pub mod pins;
pub mod registry;
pub mod sha256;
pub mod tokenizer;
#[cfg(feature = "train")]
pub mod train;
pub mod verdict;
pub mod weights;

mod gemm;
mod vector;
mod windows;

pub use classifier::{Classifier, EncoderClassifier};
pub use deberta::DebertaClassifier;
pub use decoder::Decoder;
pub use encoder::{Embedder, Encoder, SentenceEmbedder};
pub use error::{ModelError, WeightsError};
pub use tokenizer::Tokenizer;
pub use verdict::{AttackScore, Labels};
pub use weights::WeightFile;
