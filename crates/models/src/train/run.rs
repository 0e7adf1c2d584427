//! One run of the network over one batch: what its forward and its backward pass both read.

use crate::encoder::batch::Batch;
use crate::encoder::config::EncoderConfig;
use crate::encoder::parameters::LayerRanges;
use crate::train::random::{Dropout, Mask};

/// The places where numbers are dropped; the first is before the layers.
const EMBEDDED: u64 = 0;
pub(crate) const PROBABILITIES: u64 = 1;
pub(crate) const ATTENDED: u64 = 2;
pub(crate) const CONTRACTED: u64 = 3;

/// The weights being trained, one block each: embeddings, layers, head (`[heads, width]`, then `[heads]`).
pub(crate) type Blocks = Vec<Vec<f32>>;

/// What one run reads.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) config: &'a EncoderConfig,
    pub(crate) blocks: &'a Blocks,
    pub(crate) batch: &'a Batch,
    pub(crate) dropout: Dropout,
}

impl<'a> Run<'a> {
    pub(crate) fn embeddings(self) -> &'a [f32] {
        &self.blocks[0]
    }

    pub(crate) fn layer(self, index: usize) -> Layer<'a> {
        Layer {
            run: self,
            index,
            block: &self.blocks[index + 1],
            at: LayerRanges::new(self.config),
        }
    }

    /// The head's weight, `[heads, width]`, and its bias, `[heads]`.
    pub(crate) fn head(self) -> (&'a [f32], &'a [f32]) {
        let (width, block) = (self.config.width, &self.blocks[self.config.layers + 1]);
        block.split_at(block.len() / (width + 1) * width)
    }

    /// The masks of the embeddings.
    pub(crate) fn embedded_masks(self) -> Mask {
        self.dropout.at(0, EMBEDDED)
    }
}

/// What one layer of a run reads.
pub(crate) struct Layer<'a> {
    pub(crate) run: Run<'a>,
    index: usize,
    pub(crate) block: &'a [f32],
    /// Where the tensors stand in `block`.
    pub(crate) at: LayerRanges,
}

impl Layer<'_> {
    /// The masks of one of the layer's places, from the first on.
    pub(crate) fn masks(&self, place: u64) -> Mask {
        self.run.dropout.at(self.index, place)
    }
}
