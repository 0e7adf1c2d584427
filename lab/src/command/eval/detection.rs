//! `custody eval detection`: D1 to D5 and the shipped detectors on the papers' data sets.

use std::path::PathBuf;

use anyhow::Context as _;
use custody_cli::context::GlobalContext;
use custody_cli::output::{DIM, ExitStatus, paint};
use custody_lab::detection::methods::{METHODS, Methods};
use custody_lab::detection::suite::{self, DetectionOptions};
use custody_lab::detection::{methods::shipped, speed};
use custody_lab::report::EvalReport;
use custody_lab::size::Size;

use super::output::{prepare, print, write};
use super::parse_size;
use super::progress::Progress;

/// The report that was measured for this version.
const COMMITTED: &str = include_str!("../../../../docs/reports/detection.json");

/// Measure D1 to D5 and the shipped detectors on deepset, jackhhao and the combined corpus.
///
/// Without --size, prints the report that was measured for this version.
#[derive(Debug, clap::Args)]
pub(crate) struct Detection {
    /// Benchmark data [default: as for `custody data`]
    #[arg(long, value_name = "DIR", env = "CUSTODY_DATA")]
    data: Option<PathBuf>,
    /// Measure now. Smoke: one seed, the fixed split. Full: five seeds, five folds; d4 takes hours
    #[arg(long, value_name = "smoke|full", value_parser = parse_size)]
    size: Option<Size>,
    /// The first seed
    #[arg(long, default_value_t = 1, requires = "size")]
    seed: u64,
    /// Write the report as detection.json and detection.md with its pictures into this folder
    #[arg(long, value_name = "DIR", requires = "size")]
    out: Option<PathBuf>,
    /// Keep what is finished in this folder, and take it up again from there
    #[arg(long, value_name = "DIR", requires = "size")]
    run: Option<PathBuf>,
    /// Measure no more: report what is finished in the folder of --run, and say what is not
    #[arg(long, requires = "run")]
    finished: bool,
    /// Only these detectors [default: all]
    #[arg(
        long,
        value_name = "d1,d2,…",
        value_delimiter = ',',
        requires = "size",
        value_parser = clap::builder::PossibleValuesParser::new(METHODS)
    )]
    methods: Vec<String>,
}

pub(super) fn run(context: &GlobalContext, args: &Detection) -> anyhow::Result<ExitStatus> {
    let Some(size) = args.size else { return committed(context) };
    let models = context.models();
    let wanted = if args.methods.is_empty() {
        METHODS.map(str::to_owned).to_vec()
    } else {
        args.methods.clone()
    };
    let methods = Methods::open(&models, &wanted)?;
    let data = context.data_folder(args.data.clone());
    prepare(args.out.as_deref())?;
    let (seed, run, finished) = (args.seed, args.run.clone(), args.finished);
    let options = DetectionOptions { data, seed, size, run, finished };
    let mut progress = Progress::new();
    let mut measured = suite::run(&options, &methods.list(), &mut |now| {
        progress.show(&now.part, now.done, now.total, now.remaining_seconds);
    })?;
    let base = models.verified(shipped::BASE_MODEL).ok().map(|files| files.dir);
    progress.show("speed, beside Python", 1, 1, None);
    let speed = speed::measure(&options.data, base.as_deref())?;
    measured.report.figures.extend(speed);
    if let (false, Some(command)) = (args.methods.is_empty(), &mut measured.report.command) {
        command.push_str(&format!(" --methods {}", args.methods.join(",")));
    }
    progress.end();
    write(args.out.as_deref(), &measured)?;
    print(context, &measured.report);
    Ok(ExitStatus::Success)
}

fn committed(context: &GlobalContext) -> anyhow::Result<ExitStatus> {
    let report = EvalReport::from_json(COMMITTED.as_bytes())
        .context("the report inside this program cannot be read")?;
    let said = "Measured for this version and not now; add --size smoke or --size full to measure.";
    anstream::eprintln!("{}", paint(DIM, said));
    print(context, &report);
    Ok(ExitStatus::Success)
}
