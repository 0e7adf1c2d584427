//! `custody eval`: whether the claims hold.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use custody_eval::compare::{Tolerances, compare_json};
use custody_eval::memory::{self, Options, Size};
use custody_runtime::Paths;

use crate::context::Context;
use crate::output::{Outcome, json_line, line};

/// What to measure.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// MON Tables 6 and 7: payloads, attacks, isolation, protected files, model steps, crash runs
    Memory(Memory),
    /// Compare two reports and find what got worse
    Compare(Compare),
    /// The process that a crash run kills
    #[command(hide = true)]
    CrashWriter(CrashWriter),
}

/// Measure MON Tables 6 and 7 on the real data and a real store.
#[derive(Debug, clap::Args)]
pub(crate) struct Memory {
    /// Benchmark data [default: ../shared/data, or CUSTODY_DATA]
    #[arg(long, value_name = "DIR", env = "CUSTODY_DATA", default_value = "../shared/data")]
    data: PathBuf,
    /// `smoke` for a minute, `full` for every published figure
    #[arg(long, default_value = "smoke")]
    size: Size,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the report as report.json and report.md into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Compare two reports.
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
