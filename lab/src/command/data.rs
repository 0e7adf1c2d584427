//! `custody data`: the benchmark data on this machine.

use std::path::PathBuf;

use custody_cli::context::GlobalContext;
use custody_cli::output::{
    BAD, DIM, ExitStatus, GOOD, Transfer, cell, count, json_line, line, paint, shown, size, table,
};
use custody_lab::data::{DataFileState, DataFolder, DataPin, ORIGINALS, known};
use custody_models::fetch::{Fetcher, Timeouts};
use serde::Serialize;

/// Fetch, import and verify the benchmark data.
///
/// Needed only to measure and to train. Each file is held to a compiled-in SHA-256.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The data folder [default: custody/data in the platform's data folder]
    #[arg(long, global = true, value_name = "DIR", env = "CUSTODY_DATA")]
    data: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

/// What to do with the data.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show the files, their licences, what they may be used for, and whether they are here and right
    List,
    Fetch(Fetch),
    Import(Import),
    /// Hash the files that are here: exit code 1 when one is not as it should be
    Verify,
}

/// Fetch the original files, as their authors published them.
///
/// Each is named by repository, commit and path, and held to its SHA-256; they are kept under original/ in
/// the data folder. Files of the data set that equal an original are made from it. The others were
/// normalised by steps that nothing here could prove to be repeated exactly, so they come from a copy:
/// see `custody data import`.
#[derive(Debug, clap::Args)]
pub(crate) struct Fetch {
    /// Which data file's originals [default: all]
    #[arg(value_name = "FILE")]
    files: Vec<String>,
    /// The server of raw files: OWNER/NAME/COMMIT/PATH below it
    #[arg(long, value_name = "URL", env = "CUSTODY_ORIGINALS", default_value = ORIGINALS)]
    server: String,
}

/// Copy the normalised files from another folder.
///
/// Every file is hashed first; when one is wrong, nothing is copied.
#[derive(Debug, clap::Args)]
pub(crate) struct Import {
    /// A folder of normalised files
    #[arg(value_name = "DIR")]
    from: PathBuf,
}

pub(crate) fn run(context: &GlobalContext, args: Args) -> anyhow::Result<ExitStatus> {
    let folder = DataFolder::open(context.data_folder(args.data));
    match args.command {
        Command::List => list(context, &folder),
        Command::Fetch(args) => fetch(context, &folder, &args),
        Command::Import(args) => import(context, &folder, &args),
        Command::Verify => verify(context, &folder),
    }
}

/// A file and how it is, for programs.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    file: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    rows: u64,
    bytes: u64,
    sha256: String,
    licence: &'a str,
    #[serde(rename = "use")]
    may: &'a str,
}

impl<'a> Listed<'a> {
    fn of(pin: &'a DataPin, state: DataFileState) -> Self {
        let (state, why) = match state {
            DataFileState::Absent => ("absent", None),
            DataFileState::Verified => ("verified", None),
            DataFileState::Differs(why) => ("differs", Some(why)),
        };
        Self {
            file: &pin.name,
            state,
            why,
            rows: pin.rows,
            bytes: pin.bytes,
            sha256: pin.sha256.to_string(),
            licence: &pin.licence,
            may: &pin.may,
        }
    }

    fn style(&self) -> anstyle::Style {
        match self.state {
            "verified" => GOOD,
            "differs" => BAD,
            _ => DIM,
        }
    }
}

fn list(context: &GlobalContext, folder: &DataFolder) -> anyhow::Result<ExitStatus> {
    let mut rows = Vec::new();
    for (pin, state) in folder.verify() {
        let listed = Listed::of(pin, state);
        if context.json {
            json_line(&listed)?;
            continue;
        }
        rows.push(vec![
            cell(listed.file),
            (listed.state.to_owned(), listed.style()),
            cell(listed.rows),
            cell(size(listed.bytes)),
            cell(listed.may),
            cell(listed.licence),
        ]);
    }
    if !context.json {
        table(&["file", "here", "rows", "size", "use", "licence"], &rows);
        line(paint(DIM, format_args!("in {}", shown(&folder.path().display().to_string()))));
    }
    Ok(ExitStatus::Success)
}

fn verify(context: &GlobalContext, folder: &DataFolder) -> anyhow::Result<ExitStatus> {
    let (mut verified, mut absent, mut differ) = (0, 0, 0);
    for (pin, state) in folder.verify() {
        let listed = Listed::of(pin, state);
        match listed.state {
            "verified" => verified += 1,
            "differs" => differ += 1,
            _ => absent += 1,
        }
        if context.json {
            json_line(&listed)?;
        } else if let Some(why) = &listed.why {
            line(format_args!("{}  {} {}", paint(BAD, "differs"), listed.file, shown(why)));
        }
    }
    if !context.json {
        let sum = format!("{verified} as pinned, {differ} not, {absent} not here");
        let folder = shown(&folder.path().display().to_string());
        line(format_args!("{}, in {folder}", paint(if differ == 0 { GOOD } else { BAD }, sum)));
        if absent > 0 {
            line(paint(DIM, "`custody data import DIR` copies what is not here"));
        }
    }
    Ok(ExitStatus::failure_if(differ > 0))
}

fn fetch(context: &GlobalContext, folder: &DataFolder, args: &Fetch) -> anyhow::Result<ExitStatus> {
    let mut pins = Vec::new();
    for name in &args.files {
        let pin = known().iter().find(|pin| pin.name == *name);
        pins.push(pin.ok_or_else(|| custody_lab::data::DataError::Unknown(name.clone()))?);
    }
    if pins.is_empty() {
        pins = known().iter().collect();
    }
    let fetcher = Fetcher::new(Timeouts::default())?;
    let mut transfer = Transfer::start();
    let fetched = folder.fetch(&pins, &args.server, &fetcher, &mut |at| transfer.show(&at));
    transfer.end();
    let fetched = fetched?;
    if context.json {
        json_line(&serde_json::json!({
            "fetched": fetched.fetched, "here": fetched.here, "left_out": fetched.left_out,
            "made": fetched.made, "missing": fetched.missing,
        }))?;
        return Ok(ExitStatus::Success);
    }
    line(format_args!(
        "{} fetched, {} here before, {} left out (it stands for many files).",
        count(fetched.fetched as u64, "original"),
        fetched.here,
        fetched.left_out
    ));
    for file in &fetched.made {
        line(format_args!("{} {file}", paint(GOOD, "made")));
    }
    if !fetched.missing.is_empty() {
        line(format_args!(
            "{} cannot be made from originals here; copy with `custody data import DIR`.",
            count(fetched.missing.len() as u64, "file")
        ));
    }
    Ok(ExitStatus::Success)
}

fn import(
    context: &GlobalContext,
    folder: &DataFolder,
    args: &Import,
) -> anyhow::Result<ExitStatus> {
    let pins: Vec<&DataPin> = known().iter().collect();
    let mut transfer = Transfer::start();
    let imported = folder.import(&pins, &args.from, &mut |at| transfer.show(&at));
    transfer.end();
    let imported = imported?;
    if context.json {
        let (copied, absent) = (&imported.copied, &imported.absent);
        json_line(&serde_json::json!({ "copied": copied, "absent": absent }))?;
        return Ok(ExitStatus::Success);
    }
    let into = shown(&folder.path().display().to_string());
    line(format_args!("{} copied into {into}.", count(imported.copied.len() as u64, "file")));
    for file in &imported.absent {
        line(format_args!("{} {file}", paint(DIM, "not there")));
    }
    Ok(ExitStatus::Success)
}
