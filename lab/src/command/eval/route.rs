//! `custody eval route` and `custody eval baseline`: the pipeline, and the model without it.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use custody_cli::context::GlobalContext;
use custody_cli::output::{DIM, ExitStatus, paint};
use custody_cli::{detector, language_model};
use custody_lab::detection::suite::{IllustratedReport as Measured, Progress as Done};
use custody_lab::report::EvalReport;
use custody_lab::route::baseline::{self, RouteOptions};
use custody_lab::route::suite;
use custody_lab::route::trial::Stages;
use custody_lab::size::Size;
use custody_models::chat::ChatModel;

use super::output::{prepare, print, write};
use super::parse_size;
use super::progress::Progress;

/// The reports that were measured for this version.
const COMMITTED_ROUTE: &str = include_str!("../../../../docs/reports/route.json");
const COMMITTED_BASELINE: &str = include_str!("../../../../docs/reports/baseline.json");

/// Measure the pipeline on attacks and ordinary texts: where they go, and which attacks still work.
///
/// The same model stands in production and in every stage. Without --size, prints the report that was measured for
/// this version.
#[derive(Debug, clap::Args)]
pub(crate) struct Route {
    #[command(flatten)]
    sample: Sample,
    #[command(flatten)]
    detector: detector::DetectorOptions,
    #[command(flatten)]
    model: language_model::LanguageModelOptions,
}

/// Measure which attacks work on a model alone, on the rows of `custody eval route`: its zero line.
///
/// Without --size, prints the report that was measured for this version.
#[derive(Debug, clap::Args)]
pub(crate) struct Baseline {
    #[command(flatten)]
    sample: Sample,
    #[command(flatten)]
    model: language_model::LanguageModelOptions,
}

/// What both are told.
#[derive(Debug, clap::Args)]
struct Sample {
    /// Benchmark data [default: as for `custody data`]
    #[arg(long, value_name = "DIR", env = "CUSTODY_DATA")]
    data: Option<PathBuf>,
    /// Measure now. Smoke: 16 short rows. Full: up to 40 attacks and 55 ordinary texts a source
    #[arg(long, value_name = "smoke|full", value_parser = parse_size)]
    size: Option<Size>,
    /// Chooses the sample
    #[arg(long, default_value_t = 1, requires = "size")]
    seed: u64,
    /// The model's name in ids of figures [default: from what it is]
    #[arg(long, value_name = "NAME", requires = "size", value_parser = parse_name)]
    name: Option<String>,
    /// Write the report as JSON and Markdown with its picture into this folder
    #[arg(long, value_name = "DIR", requires = "size")]
    out: Option<PathBuf>,
    /// Keep what is finished in this folder, and take it up again from there; one folder serves both suites
    #[arg(long, value_name = "DIR", requires = "size")]
    run: Option<PathBuf>,
}

fn parse_name(text: &str) -> Result<String, String> {
    if !text.is_empty()
        && text.len() <= 40
        && text
            .chars()
            .all(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-'))
    {
        Ok(text.to_owned())
    } else {
        Err("use up to 40 of a-z, 0-9, `_` and `-`".to_owned())
    }
}

pub(super) fn run(context: &GlobalContext, args: &Route) -> anyhow::Result<ExitStatus> {
    let Some(size) = args.sample.size else { return committed(context, COMMITTED_ROUTE) };
    let (screener, embedder) = args.detector.open_with_embedder(context)?;
    let stages = Stages { screener, embedder };
    let model = opened(context, &args.model)?;
    let arguments = format!("{} {}", args.detector.arguments(), args.model.arguments());
    let options = args.sample.options(context, size, &arguments);
    measure(context, &args.sample, |show| suite::run(&options, stages, model, show))
}

pub(super) fn run_baseline(context: &GlobalContext, args: &Baseline) -> anyhow::Result<ExitStatus> {
    let Some(size) = args.sample.size else { return committed(context, COMMITTED_BASELINE) };
    let model = opened(context, &args.model)?;
    let options = args.sample.options(context, size, &args.model.arguments());
    measure(context, &args.sample, |show| baseline::run(&options, model, show))
}

fn measure(
    context: &GlobalContext,
    sample: &Sample,
    run: impl FnOnce(&mut dyn FnMut(&Done)) -> Result<Measured, custody_lab::EvalError>,
) -> anyhow::Result<ExitStatus> {
    prepare(sample.out.as_deref())?;
    let mut progress = Progress::new();
    let measured =
        run(&mut |now| progress.show(&now.part, now.done, now.total, now.remaining_seconds))?;
    progress.end();
    write(sample.out.as_deref(), &measured)?;
    print(context, &measured.report);
    Ok(ExitStatus::Success)
}

fn opened(
    context: &GlobalContext,
    options: &language_model::LanguageModelOptions,
) -> anyhow::Result<Arc<dyn ChatModel>> {
    let Some(model) = options.open(context)? else {
        bail!(
            "there is no language model to measure; add `--model smollm2-135m-instruct`, or another of \
             `custody models list`"
        );
    };
    Ok(model)
}

fn committed(context: &GlobalContext, report: &str) -> anyhow::Result<ExitStatus> {
    let report = EvalReport::from_json(report.as_bytes())
        .context("the report inside this program cannot be read")?;
    let said = "Measured for this version and not now; add --size smoke or --size full to measure.";
    anstream::eprintln!("{}", paint(DIM, said));
    print(context, &report);
    Ok(ExitStatus::Success)
}

impl Sample {
    fn options(&self, context: &GlobalContext, size: Size, arguments: &str) -> RouteOptions {
        RouteOptions {
            data: context.data_folder(self.data.clone()),
            seed: self.seed,
            size,
            run: self.run.clone(),
            name: self.name.clone(),
            arguments: arguments.trim().to_owned(),
        }
    }
}
