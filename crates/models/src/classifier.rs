//! Sequence classifiers: a fine-tuned encoder and a linear head, stored as the difference from the base model.

use std::collections::BTreeMap;
use std::sync::Arc;

use half::f16;

use crate::difference::{Difference, packed_len};
use crate::encoder::parameters::{Field, embedding_fields, layer_fields};
use crate::encoder::{Encoder, encode_all, fit_together, forward::Layer};
use crate::error::{ModelError, WeightsError};
use crate::tokenizer::Tokenizer;
use crate::weights::{TensorData, WeightFile, WeightTensor, write};

const FORMAT: &str = "custody-classifier/2";
const HEAD_WEIGHT: &str = "head.weight";
const HEAD_BIAS: &str = "head.bias";
/// The maximum number of heads.
const MAX_HEADS: usize = 256;
/// The endings of the two tensors that store the difference of one from its base.
const CODES: &str = ".codes";
const SCALES: &str = ".scales";
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

/// How precisely an overlay stores the tensors that differ from the base model. The head is always stored exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverlayPrecision {
    /// Every changed tensor in two bytes per number: exactly as it was trained.
    Half,
    /// Matrices as differences from the base in three bits per number, with a scale for each row; vectors as for
    /// [`Self::Half`]. The classifier that is loaded again is a slightly other one: measure that one.
    ThreeBits,
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
    /// rounded to the precision of [`OverlayPrecision::Half`], so that measurements hold for the stored classifier.
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
            let mut read = 0;
            for field in fields_of(base, index) {
                let range = start..start + field.len();
                start = range.end;
                read += read_field(&file, &field, &mut block[range])?;
            }
            if read > 0 {
                set_block(&mut encoder, index, block);
            }
            known += read;
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

    /// The classifier as a safetensors file: the head, and every tensor of the encoder that differs from `base`.
    ///
    /// Equal classifiers give equal bytes.
    ///
    /// # Errors
    /// [`ModelError::AnotherBase`] unless it was trained on `base`; [`ModelError::Classifier`] if a note
    /// has a reserved key; [`ModelError::Weights`] if a number does not fit in two bytes.
    pub fn overlay(
        &self,
        base: &Encoder,
        precision: OverlayPrecision,
    ) -> Result<Vec<u8>, ModelError> {
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
                let (ours, theirs) = (&ours[range.clone()], &theirs[range]);
                if ours != theirs {
                    tensors.extend(stored_field(field, theirs, ours, precision));
                }
            }
        }
        let (heads, width) = (self.head.bias.len(), base.config.width);
        for (name, shape, numbers) in [
            (HEAD_WEIGHT, vec![heads, width], &self.head.weight),
            (HEAD_BIAS, vec![heads], &self.head.bias),
        ] {
            let data = TensorData::Full(numbers.as_slice().into());
            tensors.push(WeightTensor { name: name.to_owned(), shape, data });
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

/// Reads what the overlay has of `field` into `block`, which holds the base's numbers. Returns how many of the
/// overlay's tensors that were.
fn read_field(
    file: &WeightFile<'_>,
    field: &Field,
    block: &mut [f32],
) -> Result<usize, ModelError> {
    if file.shape(&field.name).is_ok() {
        block.copy_from_slice(&file.floats(&field.name, &field.shape)?);
        return Ok(1);
    }
    let (codes, scales) = difference_names(field);
    let [rows, width] = field.shape[..] else { return Ok(0) };
    if file.shape(&codes).is_err() {
        return Ok(0);
    }
    let codes = file.bytes(&codes, packed_len(field.len()))?.to_vec();
    let scales = file.floats(&scales, &[rows])?;
    Difference { codes, scales }.add_to(block, width);
    if block.iter().any(|number| !number.is_finite()) {
        return Err(WeightsError::NotFinite { name: field.name.clone() }.into());
    }
    Ok(2)
}

/// The tensors that store what `field` is in `tuned`.
fn stored_field<'a>(
    field: Field,
    base: &[f32],
    tuned: &'a [f32],
    precision: OverlayPrecision,
) -> Vec<WeightTensor<'a>> {
    let (OverlayPrecision::ThreeBits, &[rows, width]) = (precision, &field.shape[..]) else {
        let (name, shape) = (field.name, field.shape);
        return vec![WeightTensor { name, shape, data: TensorData::Half(tuned.into()) }];
    };
    let Difference { codes, scales } = Difference::between(base, tuned, width);
    let names = difference_names(&field);
    vec![
        WeightTensor {
            name: names.0,
            shape: vec![codes.len()],
            data: TensorData::Bytes(codes.into()),
        },
        WeightTensor { name: names.1, shape: vec![rows], data: TensorData::Full(scales.into()) },
    ]
}

/// The names of the codes and of the scales of a difference.
fn difference_names(field: &Field) -> (String, String) {
    (format!("{}{CODES}", field.name), format!("{}{SCALES}", field.name))
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
