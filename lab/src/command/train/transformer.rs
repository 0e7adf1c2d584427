//! `custody train transformer`: the full detector's transformer, on the shipped recipe.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use custody_cli::context::GlobalContext;
use custody_cli::detector;
use custody_cli::output::ExitStatus;
use custody_detect::transformer::EncoderTransformer;
use custody_lab::data::DataFolder;
use custody_lab::recipe::{corpus, ngrams, transformer};
use custody_models::train::{TrainOptions, TrainProgress};
use custody_models::{Encoder, EncoderClassifier, OverlayPrecision, Tokenizer};
use indicatif::{ProgressBar, ProgressStyle};

use super::{said, save, thresholds_json};

/// Fine-tune MiniLM: the transformer of the full detector.
///
/// Makes the shipped weights and their thresholds again from the benchmark data and the texts written for
/// this project. The same bytes on one machine, whatever the number of threads. Needs the base model
/// (`custody models fetch all-minilm-l6-v2`) and, on two cores, the better part of an hour.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Benchmark data [default: as `custody data list` says]
    #[arg(long, value_name = "DIR", env = "CUSTODY_DATA")]
    data: Option<PathBuf>,
    /// The folder the weights are written to
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Learn nothing: take these weights, and calibrate them again
    #[arg(long, value_name = "FILE", conflicts_with_all = ["epochs", "learning_rate", "batch", "frozen_layers", "clip"])]
    weights: Option<PathBuf>,
    /// How often every row is seen [default: as the shipped weights]
    #[arg(long)]
    epochs: Option<usize>,
    /// The highest learning rate [default: as the shipped weights]
    #[arg(long)]
    learning_rate: Option<f32>,
    /// Rows per step [default: as the shipped weights]
    #[arg(long)]
    batch: Option<usize>,
    /// How many of the lowest layers stay as they are [default: as the shipped weights]
    #[arg(long)]
    frozen_layers: Option<usize>,
    /// The longest gradient [default: as the shipped weights]
    #[arg(long)]
    clip: Option<f32>,
    /// Decides order, dropout and first weights
    #[arg(long, default_value_t = corpus::SEED)]
    seed: u64,
}

impl Args {
    fn options(&self) -> TrainOptions {
        let shipped = transformer::options(self.seed);
        TrainOptions {
            epochs: self.epochs.unwrap_or(shipped.epochs),
            learning_rate: self.learning_rate.unwrap_or(shipped.learning_rate),
            batch: self.batch.unwrap_or(shipped.batch),
            frozen_layers: self.frozen_layers.unwrap_or(shipped.frozen_layers),
            clip_norm: self.clip.unwrap_or(shipped.clip_norm),
            ..shipped
        }
    }
}

pub(crate) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    let data = DataFolder::open(context.data_folder(args.data.clone()));
    let corpus = corpus::build(&data, &corpus::Held::default(), args.seed)?;
    let (base, tokenizer) = detector::base(context)?;
    // Found out before the hour, not after it.
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("could not make `{}`", args.out.display()))?;
    let bar = bar();
    let classifier = match &args.weights {
        Some(weights) => read(weights, &base, Arc::clone(&tokenizer))?,
        None => transformer::train(
            &corpus,
            &base,
            &tokenizer,
            &args.options(),
            &mut |progress: TrainProgress<'_>| {
                show(&bar, &progress);
                ControlFlow::Continue(())
            },
        )?,
    };
    bar.finish_and_clear();
    let overlay = classifier.overlay(&base, OverlayPrecision::ThreeBits)?;
    // The thresholds are those of the weights that are stored.
    let reader = EncoderTransformer::new(EncoderClassifier::load(&base, tokenizer, &overlay)?)?;
    let blends = transformer::calibrate(&corpus, &ngrams::train(&corpus)?, &reader)?;
    let weights = args.out.join(detector::WEIGHTS);
    let thresholds = args.out.join(detector::THRESHOLDS);
    save(&weights, &overlay)?;
    save(&thresholds, &thresholds_json(&blends)?)?;
    said(context, &corpus.files, &[weights, thresholds])?;
    Ok(ExitStatus::Success)
}

fn read(
    path: &Path,
    base: &Encoder,
    tokenizer: Arc<Tokenizer>,
) -> anyhow::Result<EncoderClassifier> {
    let bytes =
        std::fs::read(path).with_context(|| format!("could not read `{}`", path.display()))?;
    EncoderClassifier::load(base, tokenizer, &bytes)
        .with_context(|| format!("could not use the weights in `{}`", path.display()))
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} steps, {eta} left, {msg}")
    {
        bar.set_style(style);
    }
    bar
}

fn show(bar: &ProgressBar, progress: &TrainProgress<'_>) {
    match progress {
        TrainProgress::Batch { done, total, loss, .. } => {
            bar.set_length(*total as u64);
            bar.set_position(*done as u64);
            bar.set_message(format!("loss {loss:.3}"));
        }
        TrainProgress::Epoch { done, total, loss, .. } => {
            let line = format!("epoch {done} of {total}: mean loss {loss:.4}");
            if bar.is_hidden() {
                anstream::eprintln!("{line}");
            } else {
                bar.println(line);
            }
        }
    }
}
