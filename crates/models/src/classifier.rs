//! Sequence classifiers: a fine-tuned encoder and a linear head, stored as the difference from the base model.

use std::collections::BTreeMap;
use std::sync::Arc;

use half::f16;

use crate::encoder::parameters::{Field, embedding_fields, layer_fields};
use crate::encoder::{Encoder, encode_all, fit_together, forward::Layer};
use crate::error::{ModelError, WeightsError};
use crate::tokenizer::Tokenizer;
use crate::weights::{Storage, WeightFile, WeightTensor, write};

const FORMAT: &str = "custody-classifier/1";
const HEAD_WEIGHT: &str = "head.weight";
const HEAD_BIAS: &str = "head.bias";
/// The maximum number of heads.
const MAX_HEADS: usize = 256;
/// The reserved header keys, which notes must not use.
const RESERVED: [&str; 3] = ["format", "base", "max_tokens"];

/// A classifier with one or more binary heads.
pub trait Classifier: Send + Sync {
    /// The number of heads.
    fn heads(&self) -> usize;

    /// The log-odds of the positive class of every head: `[texts][heads]`.
    ///
    /// # Errors
    /// [`ModelError`] if a text cannot be tokenised.
    fn logits(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ModelError>;
}

/// A linear layer on mean-pooled token vectors.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    /// `[heads, width]`.
    pub(crate) weight: Vec<f32>,
    /// `[heads]`.
    pub(crate) bias: Vec<f32>,
}

impl Head {
    fn logits(&self, vector: &[f32]) -> Vec<f32> {
        self.weight
            .chunks_exact(vector.len())
            .zip(&self.bias)
            .map(|(row, bias)| row.iter().zip(vector).map(|(a, b)| a * b).sum::<f32>() + bias)
            .collect()
    }
}

/// An encoder, mean pooling and linear heads with independent sigmoids.
///
/// Cloning is cheap: equal weights are shared, also with the base encoder.
#[derive(Debug, Clone)]
pub struct EncoderClassifier {
    encoder: Encoder,
    tokenizer: Arc<Tokenizer>,
    head: Head,
    max_tokens: usize,
    /// Metadata about training, data and evaluation. The keys `format`, `base` and
    /// `max_tokens` are reserved.
    pub notes: BTreeMap<String, String>,
}

impl EncoderClassifier {
    /// A classifier from trained blocks: embeddings, layers. Weights that differ from the base are
    /// rounded to the precision that [`Self::overlay`] stores, so that measurements hold for the stored classifier.
    #[cfg_attr(
        not(feature = "train"),
        expect(dead_code, reason = "only training makes one from blocks")
    )]
    pub(crate) fn from_blocks(
        base: &Encoder,
        tokenizer: Arc<Tokenizer>,
        blocks: &[Vec<f32>],
        head: Head,
        max_tokens: usize,
    ) -> Self {
        let mut encoder = base.clone();
        for (index, block) in blocks.iter().enumerate() {
            replace_block(&mut encoder, index, block);
        }
        Self { encoder, tokenizer, head, max_tokens, notes: BTreeMap::new() }
    }

    /// Loads a classifier that [`Self::overlay`] wrote, with its base model.
    ///
    /// # Errors
    /// [`ModelError::AnotherBase`] unless `base` is the file it was trained on;
    /// [`ModelError::Classifier`] for another format or an unknown tensor; [`ModelError::Weights`] for a
    /// damaged file; [`ModelError::Tokenizer`] for a tokenizer of another model.
    pub fn load(
        base: &Encoder,
        tokenizer: Arc<Tokenizer>,
        overlay: &[u8],
    ) -> Result<Self, ModelError> {
        fit_together(base, &tokenizer)?;
        let file = WeightFile::read(overlay)?;
        let max_tokens = read_header(&file, base)?;
        let head = read_head(&file, base.config.width)?;
        let mut known = 2;
        let mut encoder = base.clone();
        for index in 0..=base.layers.len() {
            let mut block = block_of(base, index).to_vec();
            let mut start = 0;
            let mut changed = 0;
            for field in fields_of(base, index) {
                if file.shape(&field.name).is_ok() {
                    let numbers = file.floats(&field.name, &field.shape)?;
                    block[start..start + field.len()].copy_from_slice(&numbers);
                    changed += 1;
                }
                start += field.len();
            }
            if changed > 0 {
                set_block(&mut encoder, index, block);
            }
            known += changed;
        }
        if known != file.names().len() {
            return Err(unreadable(
                "it holds tensors that its base model does not have".to_owned(),
            ));
        }
        let mut notes = file.metadata().clone();
        notes.retain(|key, _| !RESERVED.contains(&key.as_str()));
        Ok(Self { encoder, tokenizer, head, max_tokens, notes })
    }

    /// The classifier as a safetensors file: every tensor of the encoder that differs from `base` in two
    /// bytes per number, and the head in four.
    ///
    /// Equal classifiers give equal bytes.
    ///
    /// # Errors
    /// [`ModelError::AnotherBase`] unless it was trained on `base`; [`ModelError::Classifier`] if a note
    /// has a reserved key; [`ModelError::Weights`] if a number does not fit in two bytes.
    pub fn overlay(&self, base: &Encoder) -> Result<Vec<u8>, ModelError> {
        same_base(&self.encoder.digest, base)?;
        if let Some(key) = RESERVED.iter().find(|key| self.notes.contains_key(**key)) {
            return Err(unreadable(format!(
                "the note `{key}` has a name that is taken; rename it"
            )));
        }
        let mut tensors = Vec::new();
        for index in 0..=base.layers.len() {
            let (ours, theirs) = (block_of(&self.encoder, index), block_of(base, index));
            let mut start = 0;
            for field in fields_of(base, index) {
                let range = start..start + field.len();
                start = range.end;
                if ours[range.clone()] != theirs[range.clone()] {
                    let (name, shape) = (field.name, field.shape);
                    tensors.push(WeightTensor {
                        name,
                        shape,
                        numbers: (&ours[range]).into(),
                        storage: Storage::Half,
                    });
                }
            }
        }
        let (heads, width) = (self.head.bias.len(), base.config.width);
        for (name, shape, numbers) in [
            (HEAD_WEIGHT, vec![heads, width], &self.head.weight),
            (HEAD_BIAS, vec![heads], &self.head.bias),
        ] {
            let numbers = numbers.as_slice().into();
            tensors.push(WeightTensor {
                name: name.to_owned(),
                shape,
                numbers,
                storage: Storage::Full,
            });
        }
        let mut metadata = self.notes.clone();
        let ours = [FORMAT.to_owned(), base.digest.clone(), self.max_tokens.to_string()];
        metadata.extend(RESERVED.map(str::to_owned).into_iter().zip(ours));
        Ok(write(&tensors, &metadata)?)
    }

    /// The token limit, including the frame; the rest of a longer text is not read.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// The fine-tuned encoder.
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }
}

impl Classifier for EncoderClassifier {
    fn heads(&self) -> usize {
        self.head.bias.len()
    }

    fn logits(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ModelError> {
        let ids = encode_all(&self.tokenizer, texts, self.max_tokens)?;
        let vectors =
            self.encoder.mean_vectors(&ids.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        Ok(vectors.iter().map(|vector| self.head.logits(vector)).collect())
    }
}

fn unreadable(detail: String) -> ModelError {
    ModelError::Classifier { detail }
}

fn same_base(wanted: &str, base: &Encoder) -> Result<(), ModelError> {
    if wanted == base.digest {
        return Ok(());
    }
    Err(ModelError::AnotherBase { wanted: wanted.to_owned(), found: base.digest.clone() })
}

/// Checks the format and the base model; returns the token limit.
fn read_header(file: &WeightFile<'_>, base: &Encoder) -> Result<usize, ModelError> {
    let [format, base_digest, max_tokens] =
        ["format", "base", "max_tokens"].map(|key| file.metadata().get(key).map(String::as_str));
    match format {
        Some(FORMAT) => {}
        Some(other) => return Err(unreadable(format!("its format is `{other}`, not `{FORMAT}`"))),
        None => return Err(unreadable("it has no format".to_owned())),
    }
    same_base(base_digest.unwrap_or_default(), base)?;
    let tokens = max_tokens.and_then(|text| text.parse().ok());
    tokens
        .filter(|tokens| (3..=base.config.positions).contains(tokens))
        .ok_or_else(|| unreadable("its `max_tokens` does not fit its base model".to_owned()))
}

fn read_head(file: &WeightFile<'_>, width: usize) -> Result<Head, ModelError> {
    let heads = match file.shape(HEAD_BIAS)?.as_slice() {
        [heads] if (1..=MAX_HEADS).contains(heads) => *heads,
        found => {
            let (name, found) = (HEAD_BIAS.to_owned(), found.to_vec());
            return Err(WeightsError::Shape { name, found, expected: vec![1] }.into());
        }
    };
    Ok(Head {
        weight: file.floats(HEAD_WEIGHT, &[heads, width])?,
        bias: file.floats(HEAD_BIAS, &[heads])?,
    })
}

/// Block 0 is the embeddings; block `n` is layer `n - 1`.
fn fields_of(encoder: &Encoder, index: usize) -> Vec<Field> {
    match index.checked_sub(1) {
        None => embedding_fields(&encoder.config),
        Some(layer) => layer_fields(&encoder.config, layer),
    }
}

fn block_of(encoder: &Encoder, index: usize) -> &[f32] {
    match index.checked_sub(1) {
        None => &encoder.embeddings,
        Some(layer) => &encoder.layers[layer].block,
    }
}

fn set_block(encoder: &mut Encoder, index: usize, block: Vec<f32>) {
    match index.checked_sub(1) {
        None => encoder.embeddings = Arc::new(block),
        Some(layer) => encoder.layers[layer] = Arc::new(Layer::new(&encoder.config, block)),
    }
}

fn replace_block(encoder: &mut Encoder, index: usize, block: &[f32]) {
    let old = block_of(encoder, index);
    if old == block {
        return;
    }
    let mut rounded = block.to_vec();
    let mut start = 0;
    for field in fields_of(encoder, index) {
        let range = start..start + field.len();
        start = range.end;
        // The base has a higher precision than two bytes, so a tensor is replaced as a whole or not at all.
        if block[range.clone()] != old[range.clone()] {
            rounded[range].iter_mut().for_each(|number| *number = f16::from_f32(*number).to_f32());
        }
    }
    set_block(encoder, index, rounded);
}
