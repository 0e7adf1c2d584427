//! `custody adapter scan`: what adapter files hold, before a model carries them.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use custody_adapters::{AdapterReport, AdapterSeverity, ChangeStatistics};
use indicatif::ProgressBar;
use serde_json::json;

use crate::context::GlobalContext;
use crate::output::{
    BAD, BOLD, DIM, ExitStatus, WARN, cell, excerpt, json_line, line, paint, table,
};

/// How many layers are shown of many, those with the largest change first.
const SHOWN_LAYERS: usize = 10;

/// Look at adapters before a model carries them: their kind, their identity, what they hold besides, and how large
/// the change is that they make to each layer.
///
/// Reads folders as PEFT writes them, and safetensors files. Nothing is loaded and no code is run. What only the
/// configuration of an adapter says is shown as a claim. A scan that finds nothing does not make an adapter good: what
/// its weights say is not looked at.
#[derive(Debug, clap::Args)]
pub(crate) struct Scan {
    /// Folders, or files of weights
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Exit with 1 if a finding is at least this severe, or never
    #[arg(long, value_enum, default_value = "refuse")]
    fail_on: FailOn,
    /// Show every layer
    #[arg(long)]
    layers: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    Note,
    Review,
    Refuse,
    Never,
}

impl FailOn {
    fn is_met_by(self, severity: Option<AdapterSeverity>) -> bool {
        match self {
            Self::Note => severity >= Some(AdapterSeverity::Note),
            Self::Review => severity >= Some(AdapterSeverity::Review),
            Self::Refuse => severity >= Some(AdapterSeverity::Refuse),
            Self::Never => false,
        }
    }
}

pub(super) fn run(context: &GlobalContext, args: &Scan) -> anyhow::Result<ExitStatus> {
    let mut is_met = false;
    for path in &args.paths {
        let bar = progress(context);
        let scanned = custody_adapters::scan(path, &mut |done, layers| {
            bar.set_length(layers as u64);
            bar.set_position(done as u64);
        });
        bar.finish_and_clear();
        match scanned {
            Ok(report) => {
                is_met |= args.fail_on.is_met_by(report.severity());
                print(context, args, path, &report)?;
            }
            // One that cannot be read is not to be loaded, and the others are looked at all the same.
            Err(error) => {
                is_met |= args.fail_on.is_met_by(Some(AdapterSeverity::Refuse));
                let error = error.to_string();
                if context.json {
                    json_line(&json!({ "path": path, "error": error }))?;
                } else {
                    line(format_args!(
                        "{}  {}",
                        paint(BOLD, shown(path)),
                        paint(BAD, "not readable")
                    ));
                    line(format_args!("  {error}"));
                }
            }
        }
    }
    Ok(ExitStatus::failure_if(is_met))
}

/// A bar on a terminal, for adapters of many layers.
fn progress(context: &GlobalContext) -> ProgressBar {
    if context.json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    ProgressBar::new(0)
}

fn print(
    context: &GlobalContext,
    args: &Scan,
    path: &Path,
    report: &AdapterReport,
) -> anyhow::Result<()> {
    if context.json {
        return json_line(&json!({ "path": path, "report": report }));
    }
    let kind = report.kind.map_or_else(|| "unknown kind".to_owned(), |kind| kind.to_string());
    line(format_args!(
        "{}  {kind}, {} numbers, {} of {} changes evaluated",
        paint(BOLD, shown(path)),
        report.parameters,
        report.changes.len() - report.not_evaluated(),
        report.changes.len()
    ));
    line(format_args!("  identity  {}", report.identity));
    if let Some(base) = &report.claimed_base {
        let revision = report.claimed_base_revision.as_deref().unwrap_or("no commit");
        let claimed = format!("{}, {}", excerpt(base, 60), excerpt(revision, 40));
        line(format_args!("  base      {claimed} {}", paint(DIM, "(claimed)")));
    }
    for finding in &report.findings {
        let style = match finding.severity {
            AdapterSeverity::Refuse => BAD,
            AdapterSeverity::Review => WARN,
            AdapterSeverity::Note => DIM,
        };
        let severity = format!("{:<8}", finding.severity.as_str());
        line(format_args!("  {}  {}: {}", paint(style, severity), finding.rule, finding.what));
    }
    layers(args, report);
    Ok(())
}

fn layers(args: &Scan, report: &AdapterReport) {
    let mut evaluated: Vec<(&str, &ChangeStatistics)> = report
        .changes
        .iter()
        .filter_map(|module| Some((module.module.as_str(), module.change.as_ref()?)))
        .collect();
    evaluated.sort_by(|(_, a), (_, b)| b.relative_spectral.total_cmp(&a.relative_spectral));
    let shown = if args.layers { evaluated.len() } else { SHOWN_LAYERS };
    let rows = evaluated.iter().take(shown).map(|(module, change)| {
        vec![
            (excerpt(module, 60), BOLD),
            cell(format!("{}×{}", change.outputs, change.inputs)),
            cell(change.rank),
            cell(format!("{:.4}", change.frobenius)),
            cell(format!("{:.4}", change.spectral)),
            cell(format!("{:.2}", change.stable_rank)),
            cell(format!("{:.0} %", change.energy_in_first * 100.0)),
        ]
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return;
    }
    table(&["layer", "shape", "rank", "Frobenius", "spectral", "stable rank", "in first"], &rows);
    if evaluated.len() > shown {
        let left = evaluated.len() - shown;
        line(paint(DIM, format_args!("{left} more layers; show them with --layers")));
    }
}

fn shown(path: &Path) -> String {
    excerpt(&path.to_string_lossy(), 80)
}
