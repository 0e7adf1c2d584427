//! `custody train ngram`: detector D2, on the shipped recipe or on rows of your own.

use std::path::PathBuf;

use anyhow::Context as _;
use custody_cli::context::GlobalContext;
use custody_cli::output::{BAD, ExitStatus, GOOD, json_line, line, paint};
use custody_detect::ngram::{self, NgramLengths, NgramModel, NgramOptions};
use custody_lab::data::DataFolder;
use custody_lab::recipe::corpus::{self, Corpus};
use custody_lab::recipe::{cuts, ngrams};
use serde_json::json;

use super::{own_rows, prepare, said, save, thresholds_json, trained_on};

/// Train character n-grams and a logistic regression.
///
/// Without `--rows`, makes the two models of the default detector and their thresholds again, from the
/// benchmark data and the texts written for this project: the same bytes on every x86-64 machine.
/// With `--rows`, trains one model on JSON Lines with a `text` and a `label` of 0 or 1.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// JSON Lines to train on instead of the shipped recipe; may be given again
    #[arg(long, value_name = "FILE")]
    rows: Vec<PathBuf>,
    /// Benchmark data [default: as `custody data list` says]
    #[arg(long, value_name = "DIR", env = "CUSTODY_DATA")]
    data: Option<PathBuf>,
    /// Where the weights are written: a folder, or with --rows a file
    #[arg(long, value_name = "PATH", required_unless_present = "check")]
    out: Option<PathBuf>,
    /// Compare with the weights of this program instead of writing: exit code 1 when a byte differs
    #[arg(long, conflicts_with_all = ["rows", "out"])]
    check: bool,
    /// How many n-grams are kept
    #[arg(long, default_value_t = 15_000, requires = "rows")]
    features: usize,
    /// The longest n-gram, in characters
    #[arg(long, default_value_t = 4, requires = "rows")]
    longest: usize,
}

pub(crate) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    if args.rows.is_empty() {
        return shipped(context, args);
    }
    prepare(args.out.as_deref())?;
    let model = own(args)?;
    let out = args.out.as_deref().context("say where the model is written with --out FILE")?;
    save(out, &model.to_bytes())?;
    said(context, &trained_on(&model.origin().data), &[out.to_owned()])?;
    Ok(ExitStatus::Success)
}

/// A file of weights by its name.
type File = (&'static str, Vec<u8>);

/// The files of the shipped recipe.
fn recipe(corpus: &Corpus) -> anyhow::Result<Vec<File>> {
    let models = ngrams::train(corpus)?;
    let cuts = cuts::calibrate(corpus, |text, kind| models.decision(text, kind))?;
    Ok(vec![
        ("prompts.safetensors", models.prompts.to_bytes()),
        ("contents.safetensors", models.contents.to_bytes()),
        ("ngrams.json", thresholds_json(&cuts)?),
    ])
}

fn shipped(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    let data = DataFolder::open(context.data_folder(args.data.clone()));
    let corpus = corpus::build(&data, &corpus::Held::default(), corpus::SEED)?;
    if args.check {
        return check(context, &recipe(&corpus)?);
    }
    let out = args.out.as_deref().context("say where the weights are written with --out DIR")?;
    std::fs::create_dir_all(out).with_context(|| format!("could not make `{}`", out.display()))?;
    let files = recipe(&corpus)?;
    let mut written = Vec::new();
    for (name, bytes) in &files {
        let path = out.join(name);
        save(&path, bytes)?;
        written.push(path);
    }
    said(context, &corpus.files, &written)?;
    Ok(ExitStatus::Success)
}

fn check(context: &GlobalContext, files: &[File]) -> anyhow::Result<ExitStatus> {
    let mut differs = false;
    for (name, bytes) in files {
        let same = custody_detect::built_in_file(name) == Some(bytes.as_slice());
        differs |= !same;
        if context.json {
            json_line(&json!({ "file": name, "same": same, "bytes": bytes.len() }))?;
        } else {
            let (word, style) = if same { ("same", GOOD) } else { ("differs", BAD) };
            line(format_args!("{} {name} ({} bytes)", paint(style, word), bytes.len()));
        }
    }
    Ok(ExitStatus::failure_if(differs))
}

fn own(args: &Args) -> anyhow::Result<NgramModel> {
    let (rows, data) = own_rows(&args.rows)?;
    let texts: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
    let labels: Vec<bool> = rows.iter().map(|row| row.label).collect();
    let lengths = NgramLengths { min: 1, max: args.longest };
    let options = NgramOptions { lengths, max_features: args.features, ..NgramOptions::default() };
    let origin = ngram::TrainingOrigin { data, licence: "as its rows".to_owned() };
    Ok(ngram::train(&texts, &labels, None, &options)?.with_origin(origin))
}
