//! `custody eval`: whether the claims hold.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anstyle::Style;
use anyhow::Context as _;
use custody_eval::compare::{Change, Tolerances, compare_json};
use custody_eval::memory::crash::{Program, THREADS, crash_writer};
use custody_eval::memory::{self, Options, Size};

use crate::context::Context;
use crate::output::{BAD, DIM, GOOD, Outcome, WARN, json_line, line, paint};

/// What to measure.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Memory(Memory),
    Prefilter(super::eval_prefilter::Args),
    Compare(Compare),
    #[command(hide = true)]
    CrashWriter(CrashWriter),
}

/// Measure MON Tables 6 and 7 on the real data and a real store.
#[derive(Debug, clap::Args)]
pub(crate) struct Memory {
    /// Benchmark data [default: as for `custody data`]
    #[arg(long, value_name = "DIR", env = "CUSTODY_DATA")]
    data: Option<PathBuf>,
    /// How much: smoke takes a minute or two, full is for a release
    #[arg(long, value_name = "smoke|full", default_value = "smoke", value_parser = parse_size)]
    size: Size,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the report as memory.json and memory.md into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

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

/// The process that a crash run kills.
#[derive(Debug, clap::Args)]
pub(crate) struct CrashWriter {
    /// How many threads write
    #[arg(long, default_value_t = THREADS)]
    threads: usize,
}

fn parse_size(text: &str) -> Result<Size, String> {
    match text {
        "smoke" => Ok(Size::Smoke),
        "full" => Ok(Size::Full),
        _ => Err("use smoke or full".to_owned()),
    }
}

pub(crate) fn run(context: &Context, command: Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Memory(args) => measure(context, &args),
        Command::Prefilter(args) => super::eval_prefilter::run(context, &args),
        Command::Compare(args) => compare(context, &args),
        Command::CrashWriter(args) => {
            crash_writer(context.paths(), args.threads)?;
            Ok(Outcome::Fine)
        }
    }
}

fn measure(context: &Context, args: &Memory) -> anyhow::Result<Outcome> {
    let program = std::env::current_exe().context("could not find this program")?;
    let options = Options {
        data: Some(context.data_folder(args.data.clone())),
        seed: args.seed,
        size: args.size,
        program: Program::Custody(program),
    };
    let progress = Progress::new();
    let report = memory::run(&options, &mut |part, done, of| progress.show(part, done, of))?;
    progress.end();
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(folder.join("memory.json"), report.to_json()))
            .and_then(|()| std::fs::write(folder.join("memory.md"), report.to_markdown()))
            .with_context(|| format!("could not write into `{}`", folder.display()))?;
    }
    line(if context.json { report.to_json() } else { report.to_markdown() }.trim_end());
    Ok(Outcome::Fine)
}

fn compare(context: &Context, args: &Compare) -> anyhow::Result<Outcome> {
    let read = |path: &Path| {
        std::fs::read(path).with_context(|| format!("could not read `{}`", path.display()))
    };
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
    Ok(Outcome::found_if(comparison.is_worse()))
}

fn show_changes(word: &str, style: Style, changes: &[Change]) {
    let shown = |value: Option<f64>| value.map_or("null".to_owned(), |value| value.to_string());
    for change in changes {
        let (old, new) = (shown(change.old), shown(change.new));
        line(format_args!("{} {}: {old} → {new}", paint(style, format!("{word:7}")), change.id));
    }
}

/// What is being measured, on the terminal; silent everywhere else.
struct Progress {
    is_terminal: bool,
}

impl Progress {
    fn new() -> Self {
        Self { is_terminal: std::io::stderr().is_terminal() }
    }

    fn show(&self, part: &str, done: u64, of: u64) {
        const WIDTH: u64 = 24;
        if self.is_terminal {
            let filled = usize::try_from(done * WIDTH / of.max(1)).unwrap_or_default();
            let bar = format!("{:24}", "█".repeat(filled.min(24)));
            anstream::eprint!("\r{part:16} {bar} {done}/{of}\x1b[K");
        }
    }

    fn end(&self) {
        if self.is_terminal {
            anstream::eprint!("\r\x1b[K");
        }
    }
}
