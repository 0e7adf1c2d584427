//! Classifiers that others publish as ONNX files, as rivals to measure against.
//!
//! An ONNX file is a graph of operators and cannot run code, but a graph decides how much memory its
//! operators take. So only flat graphs of the standard's operators are run, files are limited in size, and
//! a file that is not pinned by its hash should not be run at all.

use std::fs::File;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use rten::{Model, NodeId, Value, ValueOrView};
use rten_tensor::{AsView, Layout, NdTensor};

use crate::classifier::Classifier;
use crate::error::ModelError;
use crate::tokenizer::Tokenizer;
use crate::verdict::{AttackScore, OutputLabels, finite};
use crate::windows::{WindowOptions, score_texts};

mod defender;
mod inspect;

pub use defender::{Defender, DefenderScore};

/// No larger file is read: the format itself ends at two gigabytes.
const MOST_BYTES: u64 = 1 << 30;

/// The longest window, in tokens with its frame.
const MOST_TOKENS: usize = 512;

/// At most so many windows of one text are read.
const MOST_WINDOWS: usize = 32;

/// How the outputs of a classifier become a score.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputActivation {
    /// The outputs share a softmax.
    Softmax(OutputLabels),
    /// Every output is a sigmoid question of its own.
    Sigmoid {
        /// The output that asks whether the text is an attack.
        head: usize,
        /// What logits are divided by before the sigmoid; 1 changes nothing.
        temperature: f64,
    },
}

impl OutputActivation {
    fn log_odds(&self, logits: &[f32]) -> Result<f64, ModelError> {
        match self {
            Self::Softmax(labels) if labels.count() == logits.len() => labels.log_odds(logits),
            Self::Sigmoid { head, temperature } if *head < logits.len() => {
                finite(f64::from(logits[*head]) / temperature)
            }
            Self::Softmax(_) | Self::Sigmoid { .. } => {
                Err(refuse(format!("it has {} outputs, too few or too many", logits.len())))
            }
        }
    }
}

/// A foreign classifier: ids and mask in, logits `[1, outputs]` out.
///
/// Windows are run one by one without padding, so that a score depends on its text alone: the scale of a
/// dynamically quantised model would see the padding.
pub struct OnnxClassifier {
    model: Model,
    inputs: Vec<(NodeId, Input)>,
    output: NodeId,
    tokenizer: Tokenizer,
    reading: OutputActivation,
    max_tokens: usize,
}

impl std::fmt::Debug for OnnxClassifier {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("OnnxClassifier")
            .field("reading", &self.reading)
            .finish_non_exhaustive()
    }
}

/// What a model asks to be given.
#[derive(Debug, Clone, Copy)]
enum Input {
    Ids,
    /// 1 for every token, as nothing is padding.
    Mask,
    /// 0 for every token, as every text is a first one.
    Kinds,
}

impl OnnxClassifier {
    /// Opens an `.onnx` file and its `tokenizer.json`. Windows have `max_tokens` tokens, 512 at most.
    ///
    /// # Errors
    /// [`ModelError::Read`], also for a file of more than a gigabyte; as [`Tokenizer::open`] and [`Self::from_bytes`].
    pub fn open(
        model: &Path,
        tokenizer: &Path,
        reading: OutputActivation,
        max_tokens: usize,
    ) -> Result<Self, ModelError> {
        let tokenizer = Tokenizer::open(tokenizer)?;
        let model = read_limited(model)
            .map_err(|cause| ModelError::Read { path: model.to_owned(), cause })?;
        Self::from_bytes(model, tokenizer, reading, max_tokens)
    }

    /// A classifier from the content of an `.onnx` file. Data outside the file is never read.
    ///
    /// # Errors
    /// [`ModelError::Classifier`] for a damaged file, an operator or domain that is not run, or other inputs than
    /// `input_ids`, `attention_mask` and `token_type_ids`; [`ModelError::Configuration`] for a temperature that
    /// is not positive.
    pub fn from_bytes(
        model: Vec<u8>,
        tokenizer: Tokenizer,
        reading: OutputActivation,
        max_tokens: usize,
    ) -> Result<Self, ModelError> {
        if let OutputActivation::Sigmoid { temperature, .. } = reading
            && !(temperature.is_finite() && temperature > 0.0)
        {
            let detail = format!("the temperature is {temperature}; it must be positive");
            return Err(ModelError::Configuration { detail });
        }
        inspect::inspect(&model).map_err(refuse)?;
        let model = guarded("reading it", || Model::load(model))?;
        let inputs = model
            .input_ids()
            .iter()
            .map(|id| Ok((*id, input_named(&model, *id)?)))
            .collect::<Result<Vec<_>, ModelError>>()?;
        if !inputs.iter().any(|(_, input)| matches!(input, Input::Ids)) {
            return Err(refuse("it does not ask for `input_ids`".to_owned()));
        }
        let output = match *model.output_ids() {
            [only] => only,
            _ => model.node_id("logits").map_err(|_| {
                refuse("it has several outputs, and none of them is `logits`".to_owned())
            })?,
        };
        let max_tokens = max_tokens.min(MOST_TOKENS);
        Ok(Self { model, inputs, output, tokenizer, reading, max_tokens })
    }

    /// The probability that each text is an attack, from 0 to 1: `[texts]`.
    ///
    /// # Errors
    /// As [`Self::scores`].
    pub fn probabilities(&self, texts: &[&str]) -> Result<Vec<f64>, ModelError> {
        Ok(self.scores(texts)?.into_iter().map(AttackScore::probability).collect())
    }

    /// The score of each text: `[texts]`.
    ///
    /// A long text is read in windows that share an eighth, at most 32; the highest score wins, and the score
    /// says whether that was the whole text.
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`] if the vocabulary cannot encode a text; [`ModelError::Classifier`] if the
    /// model fails or puts out something else than one finite row of logits.
    pub fn scores(&self, texts: &[&str]) -> Result<Vec<AttackScore>, ModelError> {
        let options = WindowOptions {
            max_tokens: self.max_tokens,
            overlap: self.max_tokens / 8,
            limit: MOST_WINDOWS,
        };
        score_texts(&self.tokenizer, texts, options, |windows| {
            windows.iter().map(|ids| self.reading.log_odds(&self.run(ids)?)).collect()
        })
    }

    /// What the model puts out for the first window of `text`, before any reading; the rest of it is not read.
    ///
    /// # Errors
    /// As [`Self::scores`].
    pub fn outputs(&self, text: &str) -> Result<Vec<f32>, ModelError> {
        self.run(&self.first_window(text)?)
    }

    fn first_window(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        Ok(self.tokenizer.encode(text, self.max_tokens)?.ids)
    }

    fn run(&self, ids: &[u32]) -> Result<Vec<f32>, ModelError> {
        let ids =
            ids.iter().map(|id| i32::try_from(*id)).collect::<Result<Vec<i32>, _>>().map_err(
                |_| refuse("the tokenizer gives larger ids than a model can have".to_owned()),
            )?;
        let shape = [1, ids.len()];
        let inputs: Vec<(NodeId, ValueOrView<'_>)> = self
            .inputs
            .iter()
            .map(|(id, input)| {
                let tensor = match input {
                    Input::Ids => NdTensor::from_data(shape, ids.clone()),
                    Input::Mask => NdTensor::full(shape, 1),
                    Input::Kinds => NdTensor::full(shape, 0),
                };
                (*id, Value::from(tensor).into())
            })
            .collect();
        let [logits] = guarded("running it", || self.model.run_n(inputs, [self.output], None))?;
        let logits: NdTensor<f32, 2> = logits
            .try_into()
            .map_err(|_| refuse("its output is no matrix of numbers".to_owned()))?;
        if logits.shape()[0] != 1 {
            return Err(refuse(format!("it gives {} rows for one text", logits.shape()[0])));
        }
        Ok(logits.to_vec())
    }
}

impl Classifier for OnnxClassifier {
    /// One head: whether the text is an attack.
    fn heads(&self) -> usize {
        1
    }

    fn logits(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ModelError> {
        Ok(self.scores(texts)?.into_iter().map(|score| vec![score.logit()]).collect())
    }
}

/// Calls into the foreign engine. What it panics of is the file's fault, and an error as any other.
fn guarded<T, E: std::fmt::Display>(
    doing: &str,
    call: impl FnOnce() -> Result<T, E>,
) -> Result<T, ModelError> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(cause)) => Err(refuse(format!("{doing} failed: {cause}"))),
        Err(_) => Err(refuse(format!("{doing} failed inside the engine"))),
    }
}

fn input_named(model: &Model, id: NodeId) -> Result<Input, ModelError> {
    let info = model.node_info(id);
    match info.as_ref().and_then(|info| info.name()).unwrap_or_default() {
        "input_ids" => Ok(Input::Ids),
        "attention_mask" => Ok(Input::Mask),
        "token_type_ids" => Ok(Input::Kinds),
        other => {
            Err(refuse(format!("it asks for `{}`, which is not known here", other.escape_debug())))
        }
    }
}

fn read_limited(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(std::io::Error::other("it is larger than a gigabyte"));
    }
    Ok(bytes)
}

fn refuse(detail: String) -> ModelError {
    ModelError::Classifier { detail }
}
