//! `custody eval overdefence`: what the shipped detectors flag where nothing should be.

use std::path::PathBuf;

use custody_cli::context::GlobalContext;
use custody_cli::output::ExitStatus;
use custody_detect::text_kind::TextKind;
use custody_lab::detection::detector::ByKind;
use custody_lab::detection::methods::shipped::{self, ShippedRecipe, ShippedScreening};
use custody_lab::detection::overdefence::{self, Shipped};

use super::output::{prepare, print, write};
use super::progress::Progress;

/// How many texts of each set are timed one by one.
const TIMED_CALLS: usize = 100;

/// Measure what the shipped detectors flag wrongly: four sets of ordinary texts, by language.
#[derive(Debug, clap::Args)]
pub(crate) struct Overdefence {
    /// Benchmark data [default: as for `custody data`]
    #[arg(long, value_name = "DIR", env = "CUSTODY_DATA")]
    data: Option<PathBuf>,
    /// Write the report as overdefence.json and overdefence.md with its picture into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn run(context: &GlobalContext, args: &Overdefence) -> anyhow::Result<ExitStatus> {
    let detectors = Detectors::open(context)?;
    prepare(args.out.as_deref())?;
    let data = context.data_folder(args.data.clone());
    let mut progress = Progress::new();
    let measured =
        overdefence::run(&data, &detectors.list(), TIMED_CALLS, &mut |part: &str, done, total| {
            progress.show(part, done, total, None);
        })?;
    progress.end();
    write(args.out.as_deref(), &measured)?;
    print(context, &measured.report);
    Ok(ExitStatus::Success)
}

/// The shipped detectors, each for both kinds of text; the reason where one is not here.
pub(super) struct Detectors(Vec<(&'static str, Result<Kinds, String>)>);

struct Kinds {
    prompts: ShippedScreening,
    documents: ShippedScreening,
}

impl Detectors {
    pub(super) fn open(context: &GlobalContext) -> anyhow::Result<Self> {
        let full = match shipped::base(&context.models())? {
            Ok(base) => Ok(Kinds::of(&shipped::full(&base)?)),
            Err(why) => Err(why),
        };
        Ok(Self(vec![("default", Ok(Kinds::of(&shipped::default()))), ("full", full)]))
    }

    pub(super) fn list<'a>(&'a self) -> Vec<Shipped<'a>> {
        self.0
            .iter()
            .map(|(id, kinds): &'a (&'static str, Result<Kinds, String>)| Shipped {
                id,
                title: id,
                detector: match kinds {
                    Ok(kinds) => {
                        Ok(ByKind { prompts: &kinds.prompts, documents: &kinds.documents })
                    }
                    Err(why) => Err(why.clone()),
                },
            })
            .collect()
    }
}

impl Kinds {
    fn of(recipe: &ShippedRecipe) -> Self {
        Self {
            prompts: recipe.screening(TextKind::Prompt),
            documents: recipe.screening(TextKind::Content),
        }
    }
}
