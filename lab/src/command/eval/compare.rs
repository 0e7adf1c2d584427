//! `custody eval compare`: what became worse between two reports.

use std::path::{Path, PathBuf};

use anstyle::Style;
use anyhow::Context as _;
use custody_cli::context::GlobalContext;
use custody_cli::output::{BAD, DIM, ExitStatus, GOOD, WARN, json_line, line, paint};
use custody_lab::compare::{FigureChange, Tolerances, compare_json};

/// Compare two reports: exit code 1 when something got worse.
#[derive(Debug, clap::Args)]
pub(crate) struct Compare {
    /// The report to compare with
    old: PathBuf,
    /// The new report
    new: PathBuf,
    /// Allow the differences that the original harness allowed
    #[arg(long)]
    compatible: bool,
}

pub(super) fn run(context: &GlobalContext, args: &Compare) -> anyhow::Result<ExitStatus> {
    let tolerances = if args.compatible { Tolerances::Compatible } else { Tolerances::Exact };
    let comparison = compare_json(&read(&args.old)?, &read(&args.new)?, tolerances)?;
    if context.json {
        json_line(&comparison)?;
    } else {
        show_changes("worse", BAD, &comparison.regressions);
        show_changes("better", GOOD, &comparison.improvements);
        for id in &comparison.missing {
            line(format_args!("{} {id}", paint(BAD, "missing")));
        }
        for id in &comparison.new {
            line(format_args!("{} {id}", paint(DIM, "new    ")));
        }
        for note in &comparison.notes {
            line(paint(WARN, note));
        }
        line(format_args!("{} figures unchanged", comparison.unchanged));
    }
    Ok(ExitStatus::failure_if(comparison.is_worse()))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("could not read `{}`", path.display()))
}

fn show_changes(word: &str, style: Style, changes: &[FigureChange]) {
    for change in changes {
        let [old, new] = [change.old, change.new]
            .map(|value| value.map_or("null".to_owned(), |value| value.to_string()));
        line(format_args!("{} {}: {old} → {new}", paint(style, format!("{word:7}")), change.id));
    }
}
