//! `custody eval prefilter`: PIPE's prefilter on rows and sources it was not trained on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use custody_detect::prefilter::{PrefilterModel, stretches};
use custody_eval::detection::detector::Detector;
use custody_eval::detection::pipe::{PrefilterDetector, PrefilterRecipe};
use custody_eval::detection::prefilter::{self, Options};
use custody_eval::detection::suite::Size;
use custody_eval::vectors::CachedEmbedder;
use indicatif::ProgressBar;

use crate::command::train::embedding::{learn, open_embedder};
use crate::context::Context;
use crate::output::{Outcome, line};

/// Measure the prefilter on one row in five of its corpus, on whole sources of it, and on an outside set, all
/// held back from training.
///
/// The weights trained for this are thrown away; others can be measured beside them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Benchmark data [default: as for `custody data`]
    #[arg(long, value_name = "DIR", env = "CUSTODY_DATA")]
    data: Option<PathBuf>,
    /// How much: smoke takes one row in sixteen, full embeds 63,000 texts
    #[arg(long, value_name = "smoke|full", default_value = "smoke", value_parser = size)]
    size: Size,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Measure the regression in this file too, which `custody train embedding` made
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Keep sentence vectors in this folder, so that a second run is quick
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Keep finished parts in this folder, and take them up from there
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Write the report as prefilter.json, prefilter.md and pictures into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn size(text: &str) -> Result<Size, String> {
    match text {
        "smoke" => Ok(Size::Smoke),
        "full" => Ok(Size::Full),
        _ => Err("use smoke or full".to_owned()),
    }
}

pub(crate) fn run(context: &Context, args: &Args) -> anyhow::Result<Outcome> {
    let embedder = open_embedder(context, args.cache.as_deref())?;
    let options = Options {
        data: context.data_folder(args.data.clone()),
        seed: args.seed,
        size: args.size,
        run: args.run.clone(),
    };
    let mut texts = Vec::new();
    for text in prefilter::texts(&options)? {
        texts.extend(stretches(&text)?);
    }
    learn(&embedder, &texts)?;
    let beside = args.weights.as_deref().map(|path| beside(&embedder, path)).transpose()?;
    let recipe = PrefilterRecipe::new(Arc::clone(&embedder));
    let bar = ProgressBar::new_spinner();
    let outcome = prefilter::run(
        &options,
        &recipe,
        beside.as_ref().map(|beside| beside as &dyn Detector),
        &mut |part, done, of| {
            bar.set_message(format!("{done} of {of} trainings done: {part}"));
            bar.tick();
        },
    )?;
    bar.finish_and_clear();
    let report = &outcome.report;
    if let Some(folder) = &args.out {
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text);
        std::fs::create_dir_all(folder)
            .and_then(|()| write("prefilter.json", &report.to_json()))
            .and_then(|()| write("prefilter.md", &report.to_markdown()))
            .and_then(|()| {
                outcome.pictures.iter().try_for_each(|picture| write(&picture.file, &picture.svg))
            })
            .with_context(|| format!("could not write into `{}`", folder.display()))?;
    }
    line(if context.json { report.to_json() } else { report.to_markdown() }.trim_end());
    Ok(Outcome::Fine)
}

/// The detector of a regression that is there already.
fn beside(embedder: &Arc<CachedEmbedder>, path: &Path) -> anyhow::Result<PrefilterDetector> {
    let bytes =
        std::fs::read(path).with_context(|| format!("could not read `{}`", path.display()))?;
    let model = PrefilterModel::from_bytes(&bytes)?;
    model.check_base(embedder.digest())?;
    PrefilterDetector::new(embedder, model).map_err(|cause| anyhow!(cause))
}
