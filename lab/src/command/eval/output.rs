//! Where reports go: onto the terminal, and with their pictures into a folder.

use std::path::Path;

use anyhow::Context as _;
use custody_cli::context::GlobalContext;
use custody_cli::output::line;
use custody_lab::detection::suite::IllustratedReport as Measured;
use custody_lab::report::EvalReport;

/// Prints the report as Markdown, or as JSON on request.
pub(super) fn print(context: &GlobalContext, report: &EvalReport) {
    line(if context.json { report.to_json() } else { report.to_markdown() }.trim_end());
}

/// Makes the folder now, so that hours of work do not end in one that cannot be made.
pub(super) fn prepare(folder: Option<&Path>) -> anyhow::Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    std::fs::create_dir_all(folder)
        .with_context(|| format!("could not make `{}`", folder.display()))
}

/// Writes `NAME.json`, `NAME.md` and the pictures.
pub(super) fn write(folder: Option<&Path>, measured: &Measured) -> anyhow::Result<()> {
    write_report(folder, &measured.report)?;
    for picture in &measured.pictures {
        write_file(folder, &picture.file, &picture.svg)?;
    }
    Ok(())
}

/// Writes `NAME.json` and `NAME.md`.
pub(super) fn write_report(folder: Option<&Path>, report: &EvalReport) -> anyhow::Result<()> {
    write_file(folder, &format!("{}.json", report.suite), &report.to_json())?;
    write_file(folder, &format!("{}.md", report.suite), &report.to_markdown())
}

fn write_file(folder: Option<&Path>, name: &str, content: &str) -> anyhow::Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    let path = folder.join(name);
    std::fs::write(&path, content).with_context(|| format!("could not write `{}`", path.display()))
}
