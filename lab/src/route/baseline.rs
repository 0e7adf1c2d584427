//! `custody eval baseline`: the model alone, on the cases that the pipeline is measured on.

use std::path::PathBuf;
use std::sync::Arc;

use custody_detect::screen::Screener;
use custody_models::chat::ChatModel;

use super::cases::{Case, read};
use super::sample::sample;
use super::trial::{MeasuredCase, Stages, TrialSetup};
use super::{figures, tables};
use crate::detection::suite::{IllustratedReport, Progress};
use crate::error::EvalError;
use crate::report::{EvalReport, Figure};
use crate::run_folder::RunFolder;
use crate::size::Size;
use crate::stopwatch::Stopwatch;

/// What to measure.
#[derive(Debug, Clone)]
pub struct RouteOptions {
    /// The folder of the benchmark data.
    pub data: PathBuf,
    /// Chooses the sample.
    pub seed: u64,
    /// How much.
    pub size: Size,
    /// Where finished cases are kept and taken up again. Both suites may use one.
    pub run: Option<PathBuf>,
    /// The model's name in ids of figures; none to take it from its identity.
    pub name: Option<String>,
    /// How the model was named on the command line, to say how to measure this again.
    pub arguments: String,
}

/// Asks `model` every case of the sample. `progress` is called before every case and at the end.
///
/// # Errors
/// [`EvalError`] when the data is not there or not as documented, the model fails, or a case cannot be kept. What was
/// finished before stays in the run's folder.
pub fn run(
    options: &RouteOptions,
    model: Arc<dyn ChatModel>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<IllustratedReport, EvalError> {
    let (cases, files) = read(&options.data)?;
    let cases = sample(&cases, options.size, options.seed);
    let mut outcome = run_on(cases, options, model, progress)?;
    outcome.report.data = files;
    Ok(outcome)
}

/// The same on `cases`, wherever they come from.
///
/// # Errors
/// As [`run`].
pub fn run_on(
    cases: Vec<Case>,
    options: &RouteOptions,
    model: Arc<dyn ChatModel>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<IllustratedReport, EvalError> {
    let (id, identity) = (options.id(model.as_ref()), model.identity().to_owned());
    let folder = RunFolder::open(options.run.as_deref())?;
    let stages = Stages { screener: Screener::built_in().clone(), embedder: None };
    let bench = TrialSetup::new(stages, model, folder);
    let measured = measure(
        cases,
        |case: Case| {
            let reply = bench.reply(&case)?;
            Ok(MeasuredCase { case, reply, trial: None })
        },
        progress,
    )?;
    let mut report = options.report("baseline", &identity, figures::of_baseline(&id, &measured));
    report.tables = tables::of_baseline(&id);
    Ok(IllustratedReport { report, pictures: Vec::new() })
}

/// Measures `cases` one after another.
pub(super) fn measure(
    cases: Vec<Case>,
    each: impl Fn(Case) -> Result<MeasuredCase, EvalError>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Vec<MeasuredCase>, EvalError> {
    let (watch, total) = (Stopwatch::start(), cases.len());
    let mut measured = Vec::new();
    for (done, case) in cases.into_iter().enumerate() {
        let left = (total - done) as f64;
        let remaining_seconds = (done > 0).then(|| watch.seconds() / done as f64 * left);
        progress(&Progress { part: case.id.clone(), done, total, remaining_seconds });
        measured.push(each(case)?);
    }
    progress(&Progress {
        part: "done".to_owned(),
        done: total,
        total,
        remaining_seconds: Some(0.0),
    });
    Ok(measured)
}

impl RouteOptions {
    /// The model's name in ids of figures.
    pub(super) fn id(&self, model: &dyn ChatModel) -> String {
        self.name.clone().unwrap_or_else(|| figures::model_id(model.identity()))
    }

    /// A report of these options, still without data and tables.
    pub(super) fn report(&self, suite: &str, identity: &str, figures: Vec<Figure>) -> EvalReport {
        let mut report = EvalReport::of(suite, self.seed, figures);
        let (size, seed) = (self.size.id(), self.seed);
        let command =
            format!("custody eval {suite} --size {size} --seed {seed} {}", self.arguments);
        report.command = Some(command.trim_end().to_owned());
        report.notes = tables::notes(identity, self.size);
        report
    }
}
