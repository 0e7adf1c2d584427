//! `custody eval prefilter`: PIPE's prefilter on rows and sources it was not trained on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use custody_cli::context::GlobalContext;
use custody_cli::output::ExitStatus;
use custody_detect::ngram_stage::chunks_to_embed;
use custody_detect::prefilter::PrefilterModel;
use custody_lab::detection::pipe::{PrefilterDetector, PrefilterRecipe};
use custody_lab::detection::prefilter::{self, PrefilterEvalOptions};
use custody_lab::size::Size;
use custody_lab::vectors::CachedEmbedder;

use super::output::{prepare, print, write};
use super::parse_size;
use super::progress::Progress;
use crate::command::train::embedding::{learn, open_embedder};

/// Measure the prefilter on one row in five of its corpus, on whole sources of it, and on an outside set, all
/// held back from training.
///
/// The weights trained for this are thrown away; others can be measured beside them.
#[derive(Debug, clap::Args)]
pub(crate) struct Prefilter {
    /// Benchmark data [default: as for `custody data`]
    #[arg(long, value_name = "DIR", env = "CUSTODY_DATA")]
    data: Option<PathBuf>,
    /// How much: smoke takes one row in sixteen, full embeds 63,000 texts
    #[arg(long, value_name = "smoke|full", default_value = "smoke", value_parser = parse_size)]
    size: Size,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Measure this regression beside, which `custody train embedding` made [default: compiled in]
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

pub(super) fn run(context: &GlobalContext, args: &Prefilter) -> anyhow::Result<ExitStatus> {
    let embedder = open_embedder(context, args.cache.as_deref())?;
    let beside = beside(&embedder, args.weights.as_deref())?;
    let options = PrefilterEvalOptions {
        data: context.data_folder(args.data.clone()),
        seed: args.seed,
        size: args.size,
        run: args.run.clone(),
    };
    prepare(args.out.as_deref())?;
    let mut texts = Vec::new();
    for text in prefilter::texts(&options)? {
        texts.extend(chunks_to_embed(&text)?);
    }
    learn(&embedder, &texts)?;
    let recipe = PrefilterRecipe::new(Arc::clone(&embedder));
    let mut progress = Progress::new();
    let measured =
        prefilter::run(&options, &recipe, Some(&beside), &mut |part: &str, done, total| {
            progress.show(part, done, total, None);
        })?;
    progress.end();
    write(args.out.as_deref(), &measured)?;
    print(context, &measured.report);
    Ok(ExitStatus::Success)
}

/// The detector of a regression that is there already.
fn beside(
    embedder: &Arc<CachedEmbedder>,
    file: Option<&Path>,
) -> anyhow::Result<PrefilterDetector> {
    let model = match file {
        None => PrefilterModel::built_in(),
        Some(path) => {
            let bytes = std::fs::read(path)
                .with_context(|| format!("could not read `{}`", path.display()))?;
            PrefilterModel::from_bytes(&bytes)?
        }
    };
    model.check_base(embedder.digest())?;
    PrefilterDetector::new(embedder, model).map_err(|cause| anyhow!(cause))
}
