//! `custody screen`: how suspicious a text looks.

pub(crate) mod channel;
mod diff;
pub(crate) mod input;
pub(crate) mod render;
mod rows;
mod sarif;

use std::io::IsTerminal as _;
use std::path::PathBuf;

use anyhow::Context as _;
use channel::Channel;
use custody_detect::finding::Severity;
use custody_detect::screen::{ScreenResult, Screener};
use custody_detect::text_kind::TextKind;
use custody_models::chat::texts_to_assistant;
use input::{Layout, Piece};

use crate::command::detector::DetectorOptions;
use crate::context::GlobalContext;
use crate::output::ExitStatus;

/// Say how suspicious a text looks: findings with their severity, place and reason.
///
/// Advice, never a decision: a text that is not flagged is not thereby trusted, and what an agent may do
/// with it is decided by where it came from.
///
/// Without `--channel`, a text that is built like a document (structured data, e-mail, code, a table) is
/// screened for instructions buried in it, any other as something a person says to an assistant.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  custody screen page.html --channel web
  git diff main | custody screen --layout diff
  custody screen --json prompts.jsonl
  custody screen skills/ --format sarif > screen.sarif")]
pub(crate) struct Args {
    /// Files, folders, or `-` for standard input
    #[arg(value_name = "FILE")]
    inputs: Vec<PathBuf>,
    /// The layout of the input
    #[arg(long, value_enum, default_value = "auto")]
    layout: Layout,
    /// The channel through which the texts entered
    #[arg(long, value_enum)]
    channel: Option<Channel>,
    #[command(flatten)]
    detector: DetectorOptions,
    /// The format of the output
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Exit with 1 if something is flagged, if a finding is at least this severe, or never
    #[arg(long, value_enum, default_value = "flagged")]
    fail_on: FailOn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    Sarif,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    Flagged,
    Low,
    Medium,
    High,
    Critical,
    Never,
}

impl FailOn {
    fn is_met_by(self, verdict: &ScreenResult) -> bool {
        let lowest = match self {
            Self::Flagged => return verdict.is_flagged,
            Self::Low => Severity::Low,
            Self::Medium => Severity::Medium,
            Self::High => Severity::High,
            Self::Critical => Severity::Critical,
            Self::Never => return false,
        };
        verdict.findings.iter().any(|finding| finding.severity >= lowest)
    }
}

pub(crate) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    let pieces = input::read(&args.inputs, args.layout)?;
    let screener = args.detector.open(context)?;
    let verdicts = screen(&screener, args, &pieces)?;
    let format = if context.json { Format::Json } else { args.format };
    match format {
        Format::Text => render::text(&pieces, &verdicts),
        Format::Json => render::json(&pieces, &verdicts)?,
        Format::Sarif => sarif::print(&pieces, &verdicts)?,
    }
    Ok(ExitStatus::failure_if(verdicts.iter().any(|verdict| args.fail_on.is_met_by(verdict))))
}

/// The verdict on each piece, in their order.
fn screen(screener: &Screener, args: &Args, pieces: &[Piece]) -> anyhow::Result<Vec<ScreenResult>> {
    let bar = progress(pieces.len());
    let verdicts = pieces.iter().map(|piece| {
        let kind = piece.channel.or(args.channel).map_or(TextKind::Unknown, Channel::kind);
        let before = texts_to_assistant(&piece.before);
        let verdict = screener.screen_turn(&before, &piece.text, kind);
        bar.inc(1);
        verdict.with_context(|| format!("could not screen {}", render::name(piece)))
    });
    let verdicts = verdicts.collect::<anyhow::Result<Vec<_>>>()?;
    bar.finish_and_clear();
    Ok(verdicts)
}

/// A bar on a terminal, for work that takes a while.
fn progress(pieces: usize) -> indicatif::ProgressBar {
    if pieces < 50 || !std::io::stderr().is_terminal() {
        return indicatif::ProgressBar::hidden();
    }
    indicatif::ProgressBar::new(pieces as u64)
}
