//! By what it is tried to get destroyed texts back: the options, and the models opened.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use custody_incident::probe::{ASKED_ABOUT, MAX_PARTS, PreparedProbes, ProbeFindings, Transcript};
use custody_incident::stage::{Applied, Examination, Planned};
use custody_incident::{Incident, Incidents, Vectors, Ways};
use custody_log::Digest;
use custody_models::SentenceEmbedder;
use custody_models::chat::ChatModel;
use custody_models::registry::ModelStoreError;
use custody_runtime::Store;
use indicatif::{ProgressBar, ProgressStyle};

use crate::command::{detector, language_model};
use crate::context::GlobalContext;

/// Which model is asked for destroyed texts, and how much. Without a model, the store alone is searched.
#[derive(Debug, clap::Args)]
pub(super) struct Probing {
    /// How many parts of destroyed texts the model is asked about: four questions each, before the recovery,
    /// after it, and about a text that was never stored
    #[arg(long, value_name = "N", default_value_t = ASKED_ABOUT, value_parser = at_most_all,
        help_heading = "Language model")]
    asked_about: usize,
    /// Write what was asked and answered into this file. It may quote what was destroyed, so the store does not keep
    /// it; the certificate holds a commitment of each line
    #[arg(long, value_name = "FILE", help_heading = "Language model")]
    transcript: Option<PathBuf>,
    #[command(flatten)]
    model: language_model::LanguageModelOptions,
}

fn at_most_all(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=MAX_PARTS).contains(number));
    number.ok_or_else(|| format!("use a number from 1 to {MAX_PARTS}"))
}

/// The models, opened before anything is done.
pub(super) struct ProbeModels {
    model: Option<Arc<dyn ChatModel>>,
    embedder: Option<(SentenceEmbedder, Digest)>,
    asked_about: usize,
    transcript: Option<(PathBuf, File)>,
}

impl Probing {
    /// Opens the language model that was named, and the embedder if it is installed.
    pub(super) fn open(&self, context: &GlobalContext) -> anyhow::Result<ProbeModels> {
        let embedder = match context.models().find(detector::BASE_MODEL) {
            Err(ModelStoreError::Absent { .. }) => None,
            Err(other) => return Err(other.into()),
            Ok(_) => Some(detector::embedder(context)?),
        };
        let model = self.model.open(context)?;
        let transcript = match &self.transcript {
            None => None,
            Some(_) if model.is_none() => {
                bail!("without a model there is no transcript; add `--model NAME`")
            }
            // Made before anything is destroyed: afterwards nobody could ask again.
            Some(path) => {
                Some((path.clone(), File::create_new(path).with_context(|| unwritten(path))?))
            }
        };
        Ok(ProbeModels { model, embedder, asked_about: self.asked_about, transcript })
    }
}

impl ProbeModels {
    /// What probes are given.
    pub(super) fn ways(&self) -> Ways<'_> {
        let vectors = self.embedder.as_ref();
        Ways {
            model: self.model.as_deref(),
            vectors: vectors.map(|(embedder, model)| Vectors { embedder, model: *model }),
            asked_about: self.asked_about,
            transcripts: self.transcript.is_some(),
        }
    }

    /// Prepares probes for what is to be destroyed, and runs them while it is still there.
    pub(super) fn before(&self, planned: &Incident<'_, Planned>) -> anyhow::Result<PreparedProbes> {
        let bar = bar("asking before the recovery");
        let prepared = planned.prepare_probes(self.ways(), &mut |done, of| show(&bar, done, of))?;
        bar.finish_and_clear();
        Ok(prepared)
    }

    /// Looks for what is left after a plan was applied.
    pub(super) fn examine(
        &self,
        applied: &Incident<'_, Applied>,
        prepared: Option<&PreparedProbes>,
    ) -> anyhow::Result<Option<Examination>> {
        let bar = bar("asking after the recovery");
        let found = applied.examine(prepared, self.ways(), &mut |done, of| show(&bar, done, of))?;
        bar.finish_and_clear();
        if let Some(found) = &found {
            self.keep(&found.transcripts)?;
        }
        Ok(found)
    }

    /// Runs probes alone.
    pub(super) fn after(
        &self,
        store: &Store,
        prepared: &PreparedProbes,
    ) -> anyhow::Result<ProbeFindings> {
        let bar = bar("asking after the recovery");
        let ways = self.ways();
        let found = Incidents::of(store)
            .probe_after(prepared, ways, &mut |done, of| show(&bar, done, of))?;
        bar.finish_and_clear();
        self.keep(&found.transcripts)?;
        Ok(found)
    }

    /// Writes transcripts where the user wants them, before anything of them is recorded.
    fn keep(&self, transcripts: &[Transcript]) -> anyhow::Result<()> {
        let Some((path, file)) = &self.transcript else { return Ok(()) };
        let mut file = file;
        for transcript in transcripts {
            writeln!(file, "{}", transcript.to_json()).with_context(|| unwritten(path))?;
        }
        Ok(())
    }
}

fn unwritten(path: &Path) -> String {
    format!("could not write the transcript `{}`", path.display())
}

/// Draws nothing unless standard error is a terminal.
fn bar(message: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(0).with_message(message);
    match ProgressStyle::with_template("{msg} {bar:24} {pos}/{len} questions, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn show(bar: &ProgressBar, done: u64, of: u64) {
    bar.set_length(of);
    bar.set_position(done);
}
