//! `custody eval recovery`: what is found, taken out and left, on histories with a known truth.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use custody_cli::context::GlobalContext;
use custody_cli::output::{ExitStatus, note};
use custody_cli::{detector, language_model, programs};
use custody_lab::recovery::agmi::Agmi;
use custody_lab::recovery::overhead::Models;
use custody_lab::recovery::suite;
use custody_lab::report::EvalReport;
use custody_lab::size::Size;
use custody_models::Embedder;
use custody_models::chat::ChatModel;

use super::output::{prepare, print, write};
use super::parse_size;
use super::progress::Progress;

/// The report that was measured for this version.
const COMMITTED: &str = include_str!("../../../../docs/reports/recovery.json");

/// Measure recovery on generated histories whose truth is known, beside the papers' two methods and rollback by time.
///
/// Needs no data. agmi's nine edits are tried if CUSTODY_PYTHON names an interpreter that has its package. A language
/// model is asked for what was destroyed, if one is named; with --size full else smollm2-135m-instruct, if it is
/// installed, and all-minilm-l6-v2 beside it.
/// Without --size, prints the report that was measured for this version.
#[derive(Debug, clap::Args)]
pub(crate) struct Recovery {
    /// Measure now. Smoke: one history of 1,000 entries. Full: one of 10,000, and twelve variations of it
    #[arg(long, value_name = "smoke|full", value_parser = parse_size)]
    size: Option<Size>,
    /// Write the report as JSON and Markdown into this folder
    #[arg(long, value_name = "DIR", requires = "size")]
    out: Option<PathBuf>,
    #[command(flatten)]
    model: language_model::LanguageModelOptions,
}

/// The model that is asked when none is named.
const MODEL: &str = "smollm2-135m-instruct";

pub(super) fn run(context: &GlobalContext, args: &Recovery) -> anyhow::Result<ExitStatus> {
    let Some(size) = args.size else {
        let report = EvalReport::from_json(COMMITTED.as_bytes())
            .context("the report inside this program cannot be read")?;
        note("Measured for this version and not now; add --size smoke or --size full to measure.");
        print(context, &report);
        return Ok(ExitStatus::Success);
    };
    prepare(args.out.as_deref())?;
    let mut progress = Progress::new();
    let is_named = args.model.open(context)?.is_some();
    let opens = Models {
        language: &|| language(context, args, size),
        embedder: &|| embedder(context, is_named, size),
    };
    let measured = suite::run(size, Some(&agmi()?), opens, &mut |part, done, total| {
        progress.show(part, done, total, None);
    })?;
    progress.end();
    write(args.out.as_deref(), &measured)?;
    print(context, &measured.report);
    Ok(ExitStatus::Success)
}

/// Opened here, where it is timed.
fn language(
    context: &GlobalContext,
    args: &Recovery,
    size: Size,
) -> Result<Arc<dyn ChatModel>, String> {
    let named = args.model.open(context).map_err(|error| error.to_string())?;
    match (named, size) {
        (Some(model), _) => Ok(model),
        (None, Size::Full) => {
            language_model::built_in(context, MODEL).map_err(|error| error.to_string())
        }
        (None, Size::Smoke) => Err(NOT_ASKED.to_owned()),
    }
}

fn embedder(
    context: &GlobalContext,
    is_named: bool,
    size: Size,
) -> Result<Arc<dyn Embedder>, String> {
    if size == Size::Smoke && !is_named {
        return Err(NOT_ASKED.to_owned());
    }
    let (embedder, _) = detector::embedder(context).map_err(|error| error.to_string())?;
    Ok(Arc::new(embedder))
}

const NOT_ASKED: &str = "the small run asks no model that is not named; add --model or --size full";

/// The interpreter that is named, the adapter that is here, and `custody` beside this program or on `PATH`.
fn agmi() -> anyhow::Result<Agmi> {
    let interpreter = std::env::var_os("CUSTODY_PYTHON").unwrap_or_else(|| "python3".into());
    let beside = std::path::absolute("integrations/agmi")?;
    Ok(Agmi {
        interpreter: interpreter.into(),
        package: beside.join("custody_agmi").is_dir().then_some(beside),
        custody: programs::find("custody"),
    })
}
