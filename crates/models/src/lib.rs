//! Model inference: sentence embeddings, sequence classifiers, language models, and the installation of their files.
//!
//! Weight files are validated when they are parsed, so untrusted files are safe to read:
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use custody_models::weights::{TensorData, WeightFile, WeightTensor, write};
//!
//! let tensor = WeightTensor {
//!     name: "bias".to_owned(),
//!     shape: vec![3],
//!     data: TensorData::Full(vec![0.5, -1.0, 2.0].into()),
//! };
//! let bytes = write(&[tensor], &BTreeMap::new())?;
//! let weights = WeightFile::read(&bytes)?;
//! assert_eq!(weights.floats("bias", &[3])?, [0.5, -1.0, 2.0]);
//! assert!(WeightFile::read(&bytes[..bytes.len() - 1]).is_err());
//! # Ok::<(), custody_models::WeightsError>(())
//! ```
//!
//! In reading order:
//!
//! - [`weights`] and [`tokenizer`]: the two files of a model.
//! - [`encoder`]: a BERT encoder and sentence embeddings.
//! - [`classifier`]: a fine-tuned encoder with a head, stored as the difference from its base model.
#![cfg_attr(feature = "train", doc = "- [`train`]: fine-tuning of a classifier.")]
//! - [`gguf`] and [`decoder`]: language models and their weight files.
//! - [`chat`]: chat models, embedded or hosted.
//! - [`registry`], [`pins`], [`install`]: known models, trusted digests, and installation.
//! - [`fetch`], [`incoming`], [`folders`], [`sha256`]: downloads and files, hashed while they are received.
//! - [`deberta`]: published DeBERTa classifiers; [`verdict`] defines the meaning of their outputs.
#![cfg_attr(feature = "rten", doc = "- [`onnx`]: published classifiers in ONNX files.")]

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

mod difference;
mod gemm;
mod vector;
mod windows;

pub use classifier::{Classifier, EncoderClassifier, OverlayPrecision};
pub use deberta::DebertaClassifier;
pub use decoder::Decoder;
pub use encoder::{Embedder, Encoder, SentenceEmbedder};
pub use error::{ModelError, WeightsError};
pub use tokenizer::Tokenizer;
pub use verdict::{AttackScore, OutputLabels};
pub use weights::WeightFile;
