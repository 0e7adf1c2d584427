//! The last stage of the cascade: a transformer, whose decision is averaged with that of the n-gram models.
//!
//! - `stage`: any transformer, the weighted mean and its thresholds.
//! - `encoder`: a fine-tuned encoder as that transformer, and its compiled-in files.

mod encoder;
mod stage;

pub use encoder::{
    EncoderTransformer, TransformerFiles, TransformerFilesError, WrongHeads, head_index,
};
pub use stage::{
    Blend, Blends, MAX_PASSAGES, ModelDecisions, TransformerError, TransformerModel,
    TransformerStage,
};
pub(crate) use stage::{BlendedScores, model_decisions};
