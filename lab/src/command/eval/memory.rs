//! `custody eval memory`: MON's evaluation of the memory's integrity.

use std::path::PathBuf;

use anyhow::Context as _;
use custody_cli::context::GlobalContext;
use custody_cli::output::ExitStatus;
use custody_lab::memory::crash::{Program, THREADS, crash_writer};
use custody_lab::memory::{self, MemoryOptions};
use custody_lab::size::Size;

use super::output::{prepare, print, write_report};
use super::parse_size;
use super::progress::Progress;

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

/// The process that a crash run kills.
#[derive(Debug, clap::Args)]
pub(crate) struct CrashWriter {
    /// How many threads write
    #[arg(long, default_value_t = THREADS)]
    threads: usize,
}

pub(super) fn run(context: &GlobalContext, args: &Memory) -> anyhow::Result<ExitStatus> {
    let program = std::env::current_exe().context("could not find this program")?;
    let options = MemoryOptions {
        data: Some(context.data_folder(args.data.clone())),
        seed: args.seed,
        size: args.size,
        program: Program::Laboratory(program),
    };
    prepare(args.out.as_deref())?;
    let mut progress = Progress::new();
    let report = memory::run(&options, &mut |part, done, total| {
        let [done, total] = [done, total].map(|of| usize::try_from(of).unwrap_or(usize::MAX));
        progress.show(part, done, total, None);
    })?;
    progress.end();
    write_report(args.out.as_deref(), &report)?;
    print(context, &report);
    Ok(ExitStatus::Success)
}

pub(super) fn write_until_killed(
    context: &GlobalContext,
    args: &CrashWriter,
) -> anyhow::Result<ExitStatus> {
    crash_writer(context.paths(), args.threads)?;
    Ok(ExitStatus::Success)
}
