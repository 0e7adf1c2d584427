//! `custody train behaviour`: the detector of compromised agents, and the transcripts that it learns from.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use custody_cli::context::GlobalContext;
use custody_cli::language_model;
use custody_cli::output::{BAD, ExitStatus, GOOD, json_line, line, paint};
use custody_detect::behaviour::Regression;
use custody_lab::recipe::attempts;
use custody_lab::recipe::behaviour::{BehaviourRecipe, distance, examples};
use custody_lab::recipe::transcripts::{Collection, Transcripts};
use custody_pipeline::sandbox::SandboxOptions;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::embedding::open_embedder;
use super::{prepare, said, save, trained_on};

/// How far a decision may lie from the other one: vectors differ in their last digits between machines.
const TOLERANCE: f64 = 1e-2;

/// Train the detector that reads an agent's answer beside the text it was given: a logistic regression on sentence
/// vectors.
///
/// Makes the shipped weights again from the transcripts of this program, or others from `--transcripts`. With
/// `--collect`, trains nothing: it lets a language model read texts in the sandbox and keeps what it answers. Needs
/// `custody models fetch all-minilm-l6-v2`, or to collect a language model.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Transcripts to train on [default: those of this program]
    #[arg(long, value_name = "FILE")]
    transcripts: Option<PathBuf>,
    /// The file the regression is written to
    #[arg(long, value_name = "FILE", required_unless_present_any = ["check", "collect"])]
    out: Option<PathBuf>,
    /// Compare with the regression in this program instead of writing: exit code 1 when a decision on a transcript is
    /// further away than 0.01
    #[arg(long, conflicts_with_all = ["transcripts", "out"])]
    check: bool,
    /// Keep sentence vectors in this folder, so that a second run is quick
    #[arg(long, value_name = "DIR", conflicts_with = "collect")]
    cache: Option<PathBuf>,
    /// Collect transcripts into this file, after those that are there
    #[arg(long, value_name = "FILE", conflicts_with_all = ["transcripts", "out", "check"])]
    collect: Option<PathBuf>,
    /// How many texts are tried
    #[arg(long, value_name = "N", default_value_t = 600, requires = "collect")]
    rows: usize,
    /// How often each text is tried; the first time leaves nothing to chance
    #[arg(long, value_name = "N", default_value_t = 1, requires = "collect")]
    samples: u32,
    /// The longest answer, in tokens
    #[arg(long, value_name = "N", default_value_t = 64, requires = "collect")]
    max_tokens: u32,
    /// Which texts are drawn
    #[arg(long, default_value_t = 1, requires = "collect")]
    seed: u64,
    #[command(flatten)]
    model: language_model::LanguageModelOptions,
}

pub(crate) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    if let Some(path) = &args.collect {
        return collect(context, args, path);
    }
    prepare(args.out.as_deref())?;
    let transcripts = transcripts(args.transcripts.as_deref())?;
    let embedder = open_embedder(context, args.cache.as_deref())?;
    let bar = bar("embedded");
    let examples = examples(&transcripts.rows, &embedder, &mut |done, of| show(&bar, done, of))?;
    bar.finish_and_clear();
    let recipe = BehaviourRecipe::new(&embedder, &transcripts);
    let made = recipe.train(&examples.iter().collect::<Vec<_>>())?;
    if args.check {
        let shipped = Regression::built_in();
        shipped.check_base(embedder.digest())?;
        let apart = examples.iter().map(|example| distance(example, &made, &shipped));
        let furthest = apart.fold(0.0, f64::max);
        return check(context, furthest, examples.len());
    }
    let out = args.out.as_deref().context("say where the regression is written with --out FILE")?;
    save(out, &made.to_bytes())?;
    said(context, &trained_on(&made.origin().data), &[out.to_owned()])?;
    Ok(ExitStatus::Success)
}

/// Those in `path`, or those of this program.
pub(crate) fn transcripts(path: Option<&Path>) -> anyhow::Result<Transcripts> {
    Ok(path.map_or_else(|| Ok(Transcripts::built_in()), Transcripts::read)?)
}

fn check(context: &GlobalContext, furthest: f64, rows: usize) -> anyhow::Result<ExitStatus> {
    let same = furthest <= TOLERANCE;
    if context.json {
        json_line(
            &json!({ "file": "behaviour.json", "same": same, "furthest": furthest, "rows": rows }),
        )?;
    } else {
        let (word, style) = if same { ("same", GOOD) } else { ("differs", BAD) };
        let word = paint(style, word);
        line(format_args!(
            "{word}: decisions on {rows} transcripts differ by {furthest:.1e} at most"
        ));
    }
    Ok(ExitStatus::failure_if(!same))
}

fn collect(context: &GlobalContext, args: &Args, path: &Path) -> anyhow::Result<ExitStatus> {
    let model = args.model.open(context)?.context(
        "there is no language model to try texts on; name one with `--model`, such as smollm2-135m-instruct",
    )?;
    let options = SandboxOptions {
        samples: args.samples,
        max_tokens: args.max_tokens,
        ..SandboxOptions::default()
    };
    let attempts = attempts::draw(args.rows, args.seed);
    let mut collection = Collection::open(path)?;
    let bar = bar("tried");
    collection
        .collect(model.as_ref(), &options, &attempts, &mut |done, of| show(&bar, done, of))?;
    bar.finish_and_clear();
    let transcripts = Transcripts::read(path)?;
    said(context, &[transcripts.file], &[path.to_owned()])?;
    Ok(ExitStatus::Success)
}

fn bar(done: &str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    let template = format!("{{bar:40}} {{pos}}/{{len}} texts {done}, {{eta}} left");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    bar
}

fn show(bar: &ProgressBar, done: usize, of: usize) {
    bar.set_length(of as u64);
    bar.set_position(done as u64);
}
