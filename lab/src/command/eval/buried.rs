//! `custody eval buried`: attacks inside what tools bring back.

use std::path::PathBuf;

use custody_cli::context::GlobalContext;
use custody_cli::output::ExitStatus;
use custody_lab::detection::buried::{self, BuriedOptions};
use custody_lab::detection::detector::Recipe;
use custody_lab::detection::methods::retrained::RetrainedDefault;
use custody_lab::size::Size;

use super::output::{prepare, print, write};
use super::overdefence::Detectors;
use super::parse_size;
use super::progress::Progress;

/// Measure how many attacks inside tool output are found at 1 % false positives.
///
/// The shipped recipes are trained again without the attacks that are measured. Smoke does that for the
/// default detector; full also for the full one, which takes an hour or two.
#[derive(Debug, clap::Args)]
pub(crate) struct Buried {
    /// Benchmark data [default: as for `custody data`]
    #[arg(long, value_name = "DIR", env = "CUSTODY_DATA")]
    data: Option<PathBuf>,
    /// How much
    #[arg(long, value_name = "smoke|full", default_value = "smoke", value_parser = parse_size)]
    size: Size,
    /// Decides the folds
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the report as buried.json and buried.md with its pictures into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Keep what is finished in this folder, and take it up again from there
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
}

pub(super) fn run(context: &GlobalContext, args: &Buried) -> anyhow::Result<ExitStatus> {
    let data = context.data_folder(args.data.clone());
    let mut recipes: Vec<Box<dyn Recipe>> = vec![Box::new(RetrainedDefault::new(data.clone()))];
    if args.size == Size::Full {
        recipes.push(full(context, &data)?);
    }
    let shipped = Detectors::open(context)?;
    prepare(args.out.as_deref())?;
    let options = BuriedOptions { data, seed: args.seed, size: args.size, run: args.run.clone() };
    let recipes: Vec<&dyn Recipe> = recipes.iter().map(AsRef::as_ref).collect();
    let mut progress = Progress::new();
    let measured =
        buried::run(&options, &recipes, &shipped.list(), &mut |part: &str, done, total| {
            progress.show(part, done, total, None);
        })?;
    progress.end();
    write(args.out.as_deref(), &measured)?;
    print(context, &measured.report);
    Ok(ExitStatus::Success)
}

fn full(context: &GlobalContext, data: &std::path::Path) -> anyhow::Result<Box<dyn Recipe>> {
    use custody_lab::detection::methods::retrained::RetrainedFull;
    use custody_lab::detection::methods::shipped;

    let base = shipped::base(&context.models())?.map_err(anyhow::Error::msg)?;
    Ok(Box::new(RetrainedFull::new(data.to_owned(), base)))
}
