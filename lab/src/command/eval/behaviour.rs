//! `custody eval behaviour`: the behaviour detectors on transcripts of the sandbox.

use std::path::PathBuf;

use custody_cli::context::GlobalContext;
use custody_cli::output::ExitStatus;
use custody_detect::behaviour::Regression;
use custody_lab::detection::behaviour;
use custody_lab::recipe::transcripts::Transcripts;

use super::output::{prepare, print, write_report};
use super::progress::Progress;
use crate::command::train::behaviour::transcripts;
use crate::command::train::embedding::open_embedder;

/// Measure recall and specificity of the behaviour detectors, rules and trained, on transcripts of the sandbox.
///
/// The trained one is measured on families of attacks and on texts that were held back from its training, and as it is
/// shipped on texts that it has not seen.
#[derive(Debug, clap::Args)]
pub(crate) struct Behaviour {
    /// Transcripts that `custody train behaviour --collect` made [default: those of this program]
    #[arg(long, value_name = "FILE")]
    transcripts: Option<PathBuf>,
    /// Keep sentence vectors in this folder, so that a second run is quick
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Write the report as behaviour.json and behaviour.md into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn run(context: &GlobalContext, args: &Behaviour) -> anyhow::Result<ExitStatus> {
    let transcripts = transcripts(args.transcripts.as_deref())?;
    let embedder = open_embedder(context, args.cache.as_deref())?;
    let shipped = Regression::built_in();
    shipped.check_base(embedder.digest())?;
    let fresh = args.transcripts.as_ref().map_or_else(Transcripts::unseen, |_| transcripts.clone());
    prepare(args.out.as_deref())?;
    let mut progress = Progress::new();
    let report = behaviour::run(
        &transcripts,
        (&shipped, &fresh),
        &embedder,
        &mut |part: &str, done, total| progress.show(part, done, total, None),
    )?;
    progress.end();
    write_report(args.out.as_deref(), &report)?;
    print(context, &report);
    Ok(ExitStatus::Success)
}
