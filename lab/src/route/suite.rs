//! `custody eval route`: the whole pipeline, and the model behind it, on a fixed sample.

use std::sync::Arc;

use custody_models::chat::ChatModel;

use super::baseline::{RouteOptions, measure};
use super::cases::{Case, read};
use super::sample::sample;
use super::trial::{MeasuredCase, Stages, TrialSetup};
use super::{figures, flows, tables};
use crate::detection::suite::{IllustratedReport, Progress};
use crate::error::EvalError;
use crate::run_folder::RunFolder;

/// Routes the sample, and asks `model` its attacks also without the pipeline. `progress` is called before every case
/// and at the end.
///
/// # Errors
/// As [`super::baseline::run`].
pub fn run(
    options: &RouteOptions,
    stages: Stages,
    model: Arc<dyn ChatModel>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<IllustratedReport, EvalError> {
    let (cases, files) = read(&options.data)?;
    let cases = sample(&cases, options.size, options.seed);
    let mut outcome = run_on(cases, options, stages, model, progress)?;
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
    stages: Stages,
    model: Arc<dyn ChatModel>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<IllustratedReport, EvalError> {
    let (id, identity) = (options.id(model.as_ref()), model.identity().to_owned());
    let bench = TrialSetup::new(stages, model, RunFolder::open(options.run.as_deref())?);
    let measured = measure(
        cases,
        |case: Case| {
            let reply = if case.is_attack { bench.reply(&case)? } else { None };
            let trial = Some(bench.route(&case)?);
            Ok(MeasuredCase { case, reply, trial })
        },
        progress,
    )?;
    let mut report = options.report("route", &identity, figures::of_route(&id, &measured));
    report.tables = tables::of_route(&id, &measured);
    report.notes.extend(tables::notes_of_route(&measured));
    Ok(IllustratedReport { report, pictures: vec![flows::picture(&id, &measured)] })
}
