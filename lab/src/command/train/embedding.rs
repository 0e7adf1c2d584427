//! `custody train embedding`: the prefilter's regression, on the shipped recipe or on rows of your own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use custody_cli::context::GlobalContext;
use custody_cli::detector;
use custody_cli::output::{BAD, ExitStatus, GOOD, json_line, line, paint};
use custody_detect::prefilter::PrefilterModel;
use custody_lab::data::DataFolder;
use custody_lab::recipe::corpus::{self, Corpus};
use custody_lab::recipe::embedding::{asking_always, on_rows, shipped};
use custody_lab::vectors::CachedEmbedder;
use custody_models::SentenceEmbedder;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::{own_rows, prepare, said, save, trained_on};

/// How far a score may lie from the other one: vectors differ in their last digits between machines.
const TOLERANCE: f64 = 1e-3;

/// Train the prefilter: a logistic regression on sentence vectors.
///
/// Without `--rows`, makes the shipped weights and their threshold again, from the benchmark data and the
/// texts written for this project. With `--rows`, trains on JSON Lines with a `text` and a `label` of 0 or 1,
/// of which one row in five chooses the threshold. Needs `custody models fetch all-minilm-l6-v2`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// JSON Lines to train on instead of the shipped recipe; may be given again
    #[arg(long, value_name = "FILE")]
    rows: Vec<PathBuf>,
    /// Benchmark data [default: as `custody data list` says]
    #[arg(long, value_name = "DIR", env = "CUSTODY_DATA")]
    data: Option<PathBuf>,
    /// The file the regression is written to
    #[arg(long, value_name = "FILE", required_unless_present = "check")]
    out: Option<PathBuf>,
    /// Compare the scores with those of the regression in this program instead of writing: exit code 1 when
    /// one is further away than 0.001
    #[arg(long, conflicts_with_all = ["rows", "out"])]
    check: bool,
    /// Keep sentence vectors in this folder, so that a second run is quick
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Which of your rows choose the threshold
    #[arg(long, default_value_t = 1, requires = "rows")]
    seed: u64,
}

pub(crate) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    prepare(args.out.as_deref())?;
    let embedder = open_embedder(context, args.cache.as_deref())?;
    let bar = bar();
    let model = if args.rows.is_empty() {
        let data = DataFolder::open(context.data_folder(args.data.clone()));
        let corpus = corpus::build(&data, &corpus::Held::default(), corpus::SEED)?;
        let model = shipped(&corpus, &embedder, &mut |done, of| show(&bar, done, of))?;
        if args.check {
            bar.finish_and_clear();
            return check(context, &corpus, &embedder, model);
        }
        model
    } else {
        let (rows, data) = own_rows(&args.rows)?;
        on_rows(&rows, data, args.seed, &embedder, &mut |done, of| show(&bar, done, of))?
    };
    bar.finish_and_clear();
    let out = args.out.as_deref().context("say where the regression is written with --out FILE")?;
    save(out, &model.to_bytes())?;
    said(context, &trained_on(&model.origin().data), &[out.to_owned()])?;
    Ok(ExitStatus::Success)
}

/// The base model, with the vectors that `cache` holds of it.
pub(crate) fn open_embedder(
    context: &GlobalContext,
    cache: Option<&Path>,
) -> anyhow::Result<Arc<CachedEmbedder>> {
    let (encoder, tokenizer) = detector::base(context)?;
    let digest = encoder.digest().to_owned();
    let embedder = SentenceEmbedder::new(Arc::new(encoder), tokenizer)?;
    Ok(Arc::new(CachedEmbedder::open(Arc::new(embedder), &digest, cache)?))
}

/// Embeds what is not known yet, with a progress bar.
pub(crate) fn learn(embedder: &CachedEmbedder, texts: &[String]) -> anyhow::Result<()> {
    let bar = bar();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    embedder.learn(&texts, &mut |done, of| show(&bar, done, of))?;
    bar.finish_and_clear();
    Ok(())
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) =
        ProgressStyle::with_template("{bar:40} {pos}/{len} texts embedded, {eta} left")
    {
        bar.set_style(style);
    }
    bar
}

fn show(bar: &ProgressBar, done: usize, of: usize) {
    bar.set_length(of as u64);
    bar.set_position(done as u64);
}

fn check(
    context: &GlobalContext,
    corpus: &Corpus,
    embedder: &Arc<CachedEmbedder>,
    made: PrefilterModel,
) -> anyhow::Result<ExitStatus> {
    let shipped = PrefilterModel::built_in();
    shipped.check_base(embedder.digest())?;
    let mut furthest = (made.threshold() - shipped.threshold()).abs();
    let (made, shipped) = (asking_always(embedder, made)?, asking_always(embedder, shipped)?);
    for prompt in &corpus.calibration_prompts {
        let (made, shipped) = (made.check(&prompt.text)?, shipped.check(&prompt.text)?);
        furthest = furthest.max((made.score - shipped.score).abs());
    }
    let same = furthest <= TOLERANCE;
    let rows = corpus.calibration_prompts.len();
    if context.json {
        json_line(
            &json!({ "file": "prefilter.json", "same": same, "furthest": furthest, "rows": rows }),
        )?;
    } else {
        let (word, style) = if same { ("same", GOOD) } else { ("differs", BAD) };
        let word = paint(style, word);
        line(format_args!("{word}: scores of {rows} texts differ by {furthest:.1e} at most"));
    }
    Ok(ExitStatus::failure_if(!same))
}
