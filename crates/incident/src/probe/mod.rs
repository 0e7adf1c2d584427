//! Probes: whether what was destroyed comes back by the ways in which an agent gets at texts.
//!
//! Retrieval: what full text, memory and neighbours in every tenant give for a destroyed text is compared with it.
//! Models: one is shown what retrieval gives for a question and asked, for the text itself, about its topic, and by a
//! pretext. The highest score decides. Each probe is run once more with a text that was never stored, and what the
//! question said is taken out of what is sought, so that an echo is not taken for a leak. Before the plan is applied
//! the same is done, so that a reader knows which probes could find anything.
//!
//! In reading order: `part` (what is sought of a text), `question`, `recall` (what an agent sees), `ask`, `leak` (how
//! much of a text is in an answer), `transcript`, and the runs, here.
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

/// From which score on an answer counts as a leak, in millionths: half of what is sought.
pub const DETECTION_LIMIT: u32 = 500_000;

/// The most parts of texts that are probed for. Of more, these many, evenly spread.
pub const MAX_PARTS: usize = 200;

/// How many of them a model is asked about, unless somebody says otherwise.
pub const ASKED_ABOUT: usize = 8;

/// Up to how many missing vectors are made before the probes; more take minutes, and are said to be missing.
const MADE_VECTORS: u64 = 1_000;

/// By what it is tried to get a text back, beside full text.
#[derive(Clone, Copy)]
pub struct Ways<'a> {
    /// The model that is asked.
    pub model: Option<&'a dyn ChatModel>,
    /// For neighbours, and for answers in other words.
    pub vectors: Option<Vectors<'a>>,
    /// How many parts of texts the model is asked about.
    pub asked_about: usize,
    /// Whether questions and answers are handed out, and each probe is bound to its own. The store keeps none of them:
    /// they quote what was destroyed.
    pub transcripts: bool,
}

impl Ways<'_> {
    /// Full text alone.
    pub const TEXT: Self =
        Self { model: None, vectors: None, asked_about: ASKED_ABOUT, transcripts: false };
}

/// Probes that were thought of while the texts were there. Holds the texts, in memory and nowhere else.
pub struct PreparedProbes {
    first: Seq,
    cards: Vec<Card>,
    parts: Vec<Part>,
    reach: Reach,
}

/// One probe that is to be run.
struct Card {
    /// Which part it looks for, by number.
    part: usize,
    /// What the model is asked; without one, retrieval is tried.
    question: Option<Question>,
    pre: Option<ProbeScores>,
}

/// How far probes reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Reach {
    /// Parts of texts that are probed for.
    pub parts: usize,
    /// Of so many that the texts have, those that say nothing of their own left out of both.
    pub of: usize,
    /// Parts that say different things.
    pub different: usize,
    /// Of those, the ones that a model is asked about.
    pub asked_about: usize,
    /// Texts without a vector, which no neighbour search finds.
    pub not_searched: u64,
    /// Why the model gave no answer, where it did not.
    pub failed: Option<String>,
}

/// What probes found.
#[derive(Debug, Clone)]
pub struct ProbeFindings {
    /// For the certificate.
    pub membership: MembershipProbe,
    /// How far they reached.
    pub reach: Reach,
    /// What was asked and answered, where that is wanted.
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
            let is_theirs = |text: &&Destroyed| !state.is_of_recovery(text.entry);
            texts.iter().filter(is_theirs).collect::<Vec<_>>()
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

    /// Runs the probes as the store was before incident `id`, so that it is known which of them can find anything.
    /// `progress` is told how many questions are answered, and of how many.
    ///
    /// # Errors
    /// When the store cannot be read, or the embedder fails. A model that fails is an answer, and no error.
    pub fn probe_before(
        &self,
        id: IncidentId,
        prepared: &mut PreparedProbes,
        ways: Ways<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), IncidentError> {
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

    /// Runs the probes as the store is, each twice: for its text, and for one that was never stored.
    ///
    /// # Errors
    /// As [`Incidents::probe_before`].
    pub fn probe_after(
        &self,
        prepared: &PreparedProbes,
        ways: Ways<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<ProbeFindings, IncidentError> {
        let PreparedProbes { first, cards, parts, reach } = prepared;
        let sight = Sight { vectors: ways.vectors, before: None, first: *first };
        let mut run = Run::new(*self, sight, ways.model, 2 * questions(cards), progress);
        let limit = Ppm::try_from(DETECTION_LIMIT).unwrap_or(Ppm::ONE);
        let mut probes = Vec::with_capacity(cards.len());
        let mut transcripts = Vec::new();
        for Card { part, question, pre } in cards {
            let Some(part) = parts.get(*part) else { continue };
            let asked = |of: fn(&Question) -> &String| question.as_ref().map(|it| of(it).as_str());
            let post = run.side(&part.real, asked(|question| &question.text))?;
            let control = run.side(&part.control, asked(|question| &question.control))?;
            let scores = ProbeRuns { control: control.scores, post: post.scores, pre: *pre };
            let kept = question.as_ref().filter(|_| ways.transcripts);
            let kept = kept.map(|question| Transcript::new(question, part.entry, post, control));
            let kind = question.as_ref().map_or(ProbeKind::Retrieval, |question| question.kind);
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

    /// Looks for every destroyed text by full text over all that can be retrieved, the values of memory among it.
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

    /// Records what probes found.
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

    /// Makes the vectors that are missing, if they are few. Returns how many are missing then.
    fn vectors_for_probes(&self, vectors: Option<Vectors<'_>>) -> Result<u64, IncidentError> {
        let Some(vectors) = vectors else { return Ok(0) };
        if self.vectors_missing(vectors.model)? <= MADE_VECTORS {
            self.index_vectors(vectors, |_, _| ())?;
        }
        self.vectors_missing(vectors.model)
    }
}

/// The parts without those that say what one before them says.
fn different(parts: &[Part]) -> Vec<usize> {
    let mut seen = BTreeSet::new();
    let numbered = parts.iter().enumerate();
    numbered.filter(|(_, part)| seen.insert(part.real.text.trim())).map(|(at, _)| at).collect()
}

/// A probe by retrieval for each part, and the questions about those that a model is asked about.
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

/// What one probe gave: no scores when the model gave no answer.
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
        let score = |answer: &String| side.scores_of_answer(embedder, question, answer);
        Ok(ProbeAnswer { scores: answer.as_ref().map(score).transpose()?, answer })
    }

    /// The best that retrieval gives.
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
