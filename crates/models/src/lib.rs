//! Text to vectors, tokens and weights: the embedder, the sequence classifiers, and where their files come from.
//!
//! In reading order:
//!
//! - [`weights`] and [`tokenizer`]: the two kinds of files that make a model.
//! - [`encoder`]: a BERT encoder and sentence vectors.

mod gemm;
mod vector;

pub mod encoder;
pub mod error;
pub mod tokenizer;
pub mod weights;

pub use encoder::{Embedder, Encoder, SentenceEmbedder};
pub use error::{ModelError, WeightsError};
pub use tokenizer::Tokenizer;
pub use weights::Weights;
