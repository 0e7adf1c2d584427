//! What each part of a recovery takes, beside the paper's table.
//!
//! Source: RVU §6.7.

use std::sync::Arc;

use custody_incident::{Incidents, Indicator, Settings};
use custody_kernel::label::Channel;
use custody_kernel::memory::rate::Limits;
use custody_models::Embedder;
use custody_models::chat::ChatModel;
use custody_runtime::Session;
use custody_runtime::clock::Clock;
use custody_runtime::ingress::Observation;
use custody_runtime::scratch::Scratch;

use super::probes::{self, ProbeModels};
use crate::error::EvalError;
use crate::report::{Figure, Shows, Table, TableColumn, TableRow};
use crate::stopwatch::timed;

/// Opens a model; says why where that cannot be done.
pub type Open<'a, M> = &'a dyn Fn() -> Result<Arc<M>, String>;

/// How the models are opened that are asked and timed.
#[derive(Clone, Copy)]
pub struct Models<'a> {
    /// The language model.
    pub language: Open<'a, dyn ChatModel>,
    /// The embedder.
    pub embedder: Open<'a, dyn Embedder>,
}

/// What the models did, and the name of the one that was asked.
pub(super) struct Measured {
    pub(super) figures: Vec<Figure>,
    pub(super) model: Option<String>,
}

/// The parts in the table's order: id, name, and what the paper has in milliseconds.
const PARTS: [(&str, &str, f64); 8] = [
    ("embedder_load", "embedding model load", 45_600.0),
    ("model_load", "language model load", 44_300.0),
    ("inference", "inference, one answer", 21_000.0),
    ("record_write", "record write, durable", 1.0),
    ("embed_index", "embed and index", 50.0),
    ("risk", "plan with its risk scores", 1.0),
    ("certificate", "certificate, signed and recorded", 1.0),
    ("total", "whole evaluation", 429_000.0),
];

const SOURCE: &str = "RVU §6.7";

/// How often what takes less than a millisecond is done.
const REPEATED: u32 = 50;

/// Opens the models, asks them, and times what there is.
pub(super) fn figures(models: Models<'_>) -> Result<Measured, EvalError> {
    let (language, model_load) = timed(models.language);
    let (embedder, embedder_load) = timed(models.embedder);
    let asked = ProbeModels {
        model: language.as_deref().map_err(String::as_str),
        embedder: embedder.as_deref().map_err(String::as_str),
    };
    let (mut figures, inference) = probes::figures(&asked)?;
    let no_model = language.as_ref().map(|_| ()).map_err(Clone::clone);
    let no_embedder = embedder.as_ref().map(|_| ()).map_err(Clone::clone);
    let indexed = embedder.as_deref().ok().map(probes::embed_and_index).transpose()?;
    let (write, plan, certificate) = of_the_store()?;
    let timings = [
        (
            "embedder_load",
            embedder.as_ref().ok().map(|_| embedder_load),
            no_embedder.clone().err().unwrap_or_default(),
        ),
        (
            "model_load",
            language.as_ref().ok().map(|_| model_load),
            no_model.clone().err().unwrap_or_default(),
        ),
        (
            "inference",
            inference,
            no_model.clone().and(no_embedder.clone()).err().unwrap_or_default(),
        ),
        ("record_write", Some(write), String::new()),
        ("embed_index", indexed, no_embedder.clone().err().unwrap_or_default()),
        ("risk", Some(plan), String::new()),
        ("certificate", Some(certificate), String::new()),
    ];
    figures.extend(timings.into_iter().map(|(part, seconds, why)| figure(part, seconds, &why)));
    let model = language.ok().map(|model| model.identity().to_owned());
    Ok(Measured { figures, model })
}

/// One part's time, beside the paper's.
pub(super) fn figure(part: &str, seconds: Option<f64>, why: &str) -> Figure {
    let id = format!("overhead.{part}.ms");
    let figure = match seconds {
        Some(seconds) => Figure::real(&id, seconds * 1000.0, "ms"),
        None => Figure::unmeasured(&id, "ms", why),
    };
    let published = PARTS.iter().find(|(known, ..)| *known == part);
    published.map_or(figure.clone(), |(_, _, published)| figure.published(*published, SOURCE))
}

/// Seconds of one durable record, of a plan and of a certificate.
fn of_the_store() -> Result<(f64, f64, f64), EvalError> {
    const BAD: &str =
        "The reserve of 48213 francs goes to the Marquardt account before Thursday noon.";
    let scratch = Scratch::new(Limits::UNLIMITED, Clock::manual(1_000))?;
    let (store, owner) = (&scratch.store, &scratch.owner);
    let session = Session::open(store, owner, None)?;
    let (written, write) = timed(|| {
        (0..REPEATED).try_for_each(|number| {
            let said = Observation::message(Channel::User, format!("{BAD} {number}"));
            session.observe(said).wait().map(drop)
        })
    });
    written?;
    let indicators = [Indicator::Text(BAD.to_owned())];
    let found = Incidents::of(store).find(&indicators)?.findings;
    let opened = Incidents::of(store).open(owner, &indicators, found)?.taken()?;
    let (plan, planned) = timed(|| opened.plan(Settings::default()));
    let probed = plan?.apply(owner)?.taken()?.skip_probes();
    let (file, certified) = timed(|| probed.certify(owner, &scratch.owner_key, "custody eval"));
    let _ = file?.taken()?;
    Ok((write / f64::from(REPEATED), planned, certified))
}

/// The paper's table, with ours beside it.
pub(super) fn table() -> Table {
    let rows = PARTS.iter().map(|(part, name, _)| TableRow {
        name: (*name).to_owned(),
        prefix: format!("overhead.{part}"),
    });
    Table {
        title: "overhead".to_owned(),
        note: "Milliseconds. The paper's model has 1.5 billion parameters and ran on 16 cores; its answers are longer, \
               its database write is not durable, its certificate is a hash, and its total is that of eight \
               evaluations with 50 multiple-choice questions among them. Of parts that it gives as below one \
               millisecond, one stands."
            .to_owned(),
        rows_are: "part".to_owned(),
        rows: rows.collect(),
        columns: vec![
            TableColumn::new("measured", "ms", Shows::Measured),
            TableColumn::new("published", "ms", Shows::Published),
        ],
    }
}
