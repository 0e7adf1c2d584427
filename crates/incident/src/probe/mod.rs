//! Probes: whether destroyed texts come back through the ways by which an agent reads texts.
//!
//! A retrieval probe compares a destroyed text with what full text, memory and neighbours return for it, in every
//! tenant. A model probe shows a model what retrieval returns for a question, and asks for the text itself, about its
//! topic, and with a pretext. The highest score counts. Each probe is repeated with a text that was never stored, and
//! what the question contains is removed from what is sought, so that an echo does not count as a leak. The probes
//! also run once before the plan is applied, which shows which of them can find anything.
//!
//! In reading order: `part` (what is sought of a text), `question`, `recall` (what an agent is shown), `ask`, `leak`
//! (how much of a text an answer contains), `transcript`, and the runs, here.
//!
//! Source: RVU §3.7; docs/design.md §6.8 (R35 to R38).

mod ask;
mod leak;
mod part;
mod pieces;
mod question;
mod recall;
mod transcript;

use std::collections::BTreeSet;

use custody_certificate::{MembershipProbe, Ppm, Probe, ProbeKind, ProbeRuns, ProbeScores};
use custody_kernel::principal::Authority;
use custody_kernel::record::Value;
use custody_kernel::step::RecoveryStep;
use custody_log::{IncidentId, Seq};
use custody_models::chat::ChatModel;
use custody_runtime::store::Receipt;

use crate::act::{Destroyed, json};
use crate::certify::ProbeReport;
use crate::error::IncidentError;
use crate::neighbours::Vectors;
use crate::probe::ask::Asking;
use crate::probe::part::{Part, Side, parts};
use crate::probe::question::Question;
use crate::probe::recall::Sight;
use crate::store::Incidents;

pub use question::QUESTIONS;
pub use transcript::Transcript;

/// The least score that counts as a leak, in millionths: half of what is sought.
pub const DETECTION_LIMIT: u32 = 500_000;

/// The most parts of texts that are probed for. Of more parts, so many are chosen, evenly spread.
pub const MAX_PARTS: usize = 200;

/// The default number of parts about which a model is asked.
pub const ASKED_ABOUT: usize = 8;

/// The most missing vectors that are computed before the probes. More would take minutes and are reported as missing.
const MADE_VECTORS: u64 = 1_000;

/// The ways in which probes try to get a text back, besides full text.
#[derive(Clone, Copy)]
pub struct Ways<'a> {
    /// The model to ask.
    pub model: Option<&'a dyn ChatModel>,
    /// The vectors, for neighbours and for answers in other words.
    pub vectors: Option<Vectors<'a>>,
    /// The number of parts about which the model is asked.
    pub asked_about: usize,
    /// Whether questions and answers are returned, and each probe has a commitment to its own. The store keeps none
    /// of them, because they quote destroyed texts.
    pub transcripts: bool,
}

impl Ways<'_> {
    /// Full text alone.
    pub const TEXT: Self =
        Self { model: None, vectors: None, asked_about: ASKED_ABOUT, transcripts: false };
}

/// Probes that were prepared while the texts existed. The texts are in memory only.
pub struct PreparedProbes {
    first: Seq,
    cards: Vec<Card>,
    parts: Vec<Part>,
    reach: Reach,
}

/// One prepared probe.
struct Card {
    /// The index of the part that it seeks.
    part: usize,
    /// The question to the model; `None` for a probe of retrieval.
    question: Option<Question>,
    pre: Option<ProbeScores>,
}

/// The coverage of probes.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Reach {
    /// The parts of texts that are probed for.
    pub parts: usize,
    /// The parts that the texts have. Parts that only repeat trusted texts are in neither number.
    pub of: usize,
    /// The parts that differ from all others.
    pub different: usize,
    /// The different parts about which a model is asked.
    pub asked_about: usize,
    /// The texts without a vector, which no neighbour search finds.
    pub not_searched: u64,
    /// Why the model gave no answer, if it failed.
    pub failed: Option<String>,
}

/// The result of probes.
#[derive(Debug, Clone)]
pub struct ProbeFindings {
    /// The probes for the certificate.
    pub membership: MembershipProbe,
    /// The coverage.
    pub reach: Reach,
    /// The questions and answers, if [`Ways::transcripts`] is set.
    pub transcripts: Vec<Transcript>,
}

impl ProbeFindings {
    /// No probe ran.
    pub fn not_run(why: &str) -> Self {
        let membership = MembershipProbe::not_run(why);
        Self { membership, reach: Reach::default(), transcripts: Vec::new() }
    }
}

impl Incidents<'_> {
    /// Prepares probes for texts that are to be destroyed, or were.
    ///
    /// # Errors
    /// When the store cannot be read, or the embedder fails.
    pub fn prepare_probes(
        &self,
        texts: &[Destroyed],
        ways: Ways<'_>,
    ) -> Result<PreparedProbes, IncidentError> {
        self.index_texts(|_| ())?;
        let not_searched = self.vectors_for_probes(ways.vectors)?;
        let texts = self.store.state(|state| {
            let texts = texts.iter().filter(|text| !state.is_of_recovery(text.entry));
            texts.collect::<Vec<_>>()
        })?;
        let first = texts.iter().map(|text| text.entry).min().unwrap_or(Seq(0));
        let sight = Sight { vectors: ways.vectors, before: None, first };
        let all = parts(&texts);
        let (mut kept, mut said_before) = (Vec::new(), 0);
        for (entry, text) in spread(&all, MAX_PARTS) {
            match Part::new(*self, sight, *entry, text)? {
                Some(part) => kept.push(part),
                None => said_before += 1,
            }
        }
        let different = different(&kept);
        let asked: Vec<usize> = match ways.model {
            None => Vec::new(),
            Some(_) => spread(&different, ways.asked_about).copied().collect(),
        };
        let reach = Reach {
            parts: kept.len(),
            of: all.len() - said_before,
            different: different.len(),
            asked_about: asked.len(),
            not_searched,
            failed: None,
        };
        Ok(PreparedProbes { first, cards: cards(&kept, &asked), parts: kept, reach })
    }

    /// Runs the probes on the store as it was before incident `id`, to measure which of them can find anything. Calls
    /// `progress` with the number of answered questions and the total.
    ///
    /// # Errors
    /// When the store cannot be read, or the embedder fails. The failure of a model is a result and not an error.
    pub fn probe_before(
        &self,
        id: IncidentId,
        prepared: &mut PreparedProbes,
        ways: Ways<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), IncidentError> {
        self.index_texts(|_| ())?;
        let PreparedProbes { first, cards, parts, reach } = prepared;
        let sight = Sight { vectors: ways.vectors, before: Some(id), first: *first };
        let mut run = Run::new(*self, sight, ways.model, questions(cards), progress);
        for card in cards {
            let Some(part) = parts.get(card.part) else { continue };
            let question = card.question.as_ref().map(|question| question.text.as_str());
            card.pre = run.side(&part.real, question)?.scores;
        }
        reach.failed = run.failed();
        Ok(())
    }

    /// Runs the probes on the current store, each twice: for its text, and for one that was never stored.
    ///
    /// # Errors
    /// As [`Incidents::probe_before`].
    pub fn probe_after(
        &self,
        prepared: &PreparedProbes,
        ways: Ways<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<ProbeFindings, IncidentError> {
        // What arrived since they were prepared is looked at too.
        self.index_texts(|_| ())?;
        let PreparedProbes { first, cards, parts, reach } = prepared;
        let sight = Sight { vectors: ways.vectors, before: None, first: *first };
        let mut run = Run::new(*self, sight, ways.model, 2 * questions(cards), progress);
        let limit = Ppm::try_from(DETECTION_LIMIT).unwrap_or(Ppm::ONE);
        let mut probes = Vec::with_capacity(cards.len());
        let mut transcripts = Vec::new();
        for Card { part, question, pre } in cards {
            let Some(part) = parts.get(*part) else { continue };
            let question = question.as_ref();
            let post = run.side(&part.real, question.map(|it| it.text.as_str()))?;
            let control = run.side(&part.control, question.map(|it| it.control.as_str()))?;
            let scores = ProbeRuns { control: control.scores, post: post.scores, pre: *pre };
            let kept = question.filter(|_| ways.transcripts);
            let kept = kept.map(|question| Transcript::new(question, part.entry, post, control));
            let kind = question.map_or(ProbeKind::Retrieval, |question| question.kind);
            let commitment = kept.as_ref().map(Transcript::commitment);
            probes.push(Probe::new(kind, part.entry, limit, scores, commitment));
            transcripts.extend(kept);
        }
        let failed = run.failed().or_else(|| reach.failed.clone());
        let model =
            ways.model.filter(|_| reach.asked_about > 0).map(|model| model.identity().to_owned());
        let membership = MembershipProbe::run(model, probes);
        let reach = Reach { failed, ..reach.clone() };
        Ok(ProbeFindings { membership, reach, transcripts })
    }

    /// Searches for every destroyed text by full text over everything that can be retrieved, values of memory included.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn probe_retrieval(
        &self,
        destroyed: &[Destroyed],
    ) -> Result<MembershipProbe, IncidentError> {
        let prepared = self.prepare_probes(destroyed, Ways::TEXT)?;
        Ok(self.probe_after(&prepared, Ways::TEXT, &mut |_, _| ())?.membership)
    }

    /// Records the report of the probes.
    pub(crate) fn record_probes(
        &self,
        owner: &Authority,
        id: IncidentId,
        report: &ProbeReport,
    ) -> Result<Receipt, IncidentError> {
        let content = json(report, "probe report", id)?;
        let report = Value::New(content.commitment());
        self.take(owner, id, RecoveryStep::Probe { report }, Some(content))
    }

    /// Computes the missing vectors, if they are few. Returns the number that is still missing.
    fn vectors_for_probes(&self, vectors: Option<Vectors<'_>>) -> Result<u64, IncidentError> {
        let Some(vectors) = vectors else { return Ok(0) };
        if self.vectors_missing(vectors.model)? <= MADE_VECTORS {
            self.index_vectors(vectors, |_, _| ())?;
        }
        self.vectors_missing(vectors.model)
    }
}

/// The indices of the parts that do not repeat an earlier part.
fn different(parts: &[Part]) -> Vec<usize> {
    let mut seen = BTreeSet::new();
    let numbered = parts.iter().enumerate();
    numbered.filter(|(_, part)| seen.insert(part.real.text.trim())).map(|(at, _)| at).collect()
}

/// A retrieval probe for each part, and the questions about the parts in `asked`.
fn cards(parts: &[Part], asked: &[usize]) -> Vec<Card> {
    let mut cards = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        cards.push(Card { part: number, question: None, pre: None });
        if asked.contains(&number) {
            let questions = part.questions.iter().cloned().map(Some);
            cards.extend(questions.map(|question| Card { part: number, question, pre: None }));
        }
    }
    cards
}

fn questions(cards: &[Card]) -> u64 {
    cards.iter().filter(|card| card.question.is_some()).count() as u64
}

/// At most `count` of `all`, evenly spread.
fn spread<T>(all: &[T], count: usize) -> impl Iterator<Item = &T> {
    let taken = count.min(all.len());
    (0..taken).filter_map(move |number| all.get(number * all.len() / taken))
}

/// The result of one probe: no scores if the model gave no answer.
#[derive(Default)]
pub(crate) struct ProbeAnswer {
    scores: Option<ProbeScores>,
    answer: Option<String>,
}

/// One run over all probes.
struct Run<'a> {
    incidents: Incidents<'a>,
    sight: Sight<'a>,
    asking: Option<Asking<'a>>,
    answered: u64,
    of: u64,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl<'a> Run<'a> {
    fn new(
        incidents: Incidents<'a>,
        sight: Sight<'a>,
        model: Option<&'a dyn ChatModel>,
        of: u64,
        progress: &'a mut dyn FnMut(u64, u64),
    ) -> Self {
        Self { incidents, sight, asking: model.map(Asking::new), answered: 0, of, progress }
    }

    /// Runs one probe.
    fn side(&mut self, side: &Side, question: Option<&str>) -> Result<ProbeAnswer, IncidentError> {
        let Some(question) = question else {
            return Ok(ProbeAnswer { scores: Some(self.retrieved(side)?), answer: None });
        };
        let Some(asking) = &mut self.asking else { return Ok(ProbeAnswer::default()) };
        let shown = self.incidents.recall(self.sight, question)?;
        let answer = asking.ask(&shown, question);
        self.answered += 1;
        (self.progress)(self.answered, self.of);
        let embedder = self.sight.vectors.map(|vectors| vectors.embedder);
        let scores = match &answer {
            Some(answer) => Some(side.scores_of_answer(embedder, question, answer)?),
            None => None,
        };
        Ok(ProbeAnswer { scores, answer })
    }

    /// The highest scores over what retrieval returns.
    fn retrieved(&self, side: &Side) -> Result<ProbeScores, IncidentError> {
        let mut best = leak::nothing();
        self.incidents.recall_alike(self.sight, &side.text, &mut |found| {
            if !found.is_known {
                best = leak::higher(best, side.scores_of_recalled(&found));
            }
        })?;
        Ok(best)
    }

    fn failed(&self) -> Option<String> {
        self.asking.as_ref().and_then(|asking| asking.failed.clone())
    }
}
