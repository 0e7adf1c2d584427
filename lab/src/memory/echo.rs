//! Texts that arrive again: whether the store recognises an untrusted text in the copies that people and models make
//! of it (G10), leaves one's own texts alone that pages repeat (G9), and believes no older source that a forger can
//! arrange (G9).
//!
//! Every case is played in a store of its own, each of its texts in a session of its own. What counts is the label
//! that the store gives to what arrives.

use std::collections::BTreeMap;

use custody_cli::attacks::scratch::{FREE, ScratchStore};
use custody_incident::{Incidents, Indicator};
use custody_kernel::label::Channel;
use custody_kernel::namespace::Scope;
use custody_kernel::principal::{Authority, Role};
use custody_kernel::record::{Answer, Request, SessionRequest, Value};
use custody_log::Seq;
use custody_runtime::Session;
use custody_runtime::ingress::Observation;
use custody_runtime::session::Write;
use custody_runtime::store::{Receipt, content_of};
use custody_text::CanonicalText;
use serde::Deserialize;

use crate::error::EvalError;

const REUSES: &str = include_str!("echo/reuses.toml");
const INNOCENTS: &str = include_str!("echo/innocents.toml");
const LAUNDERINGS: &str = include_str!("echo/launderings.toml");

/// What was measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EchoFigures {
    /// Copies of untrusted texts.
    pub reuses: u64,
    /// The copies that were not labelled untrusted.
    pub missed: Vec<String>,
    /// One's own texts that pages repeat.
    pub innocents: u64,
    /// Those that were labelled untrusted in any part.
    pub false_taints: Vec<String>,
    /// Attempts to have an untrusted text taken for an older source's.
    pub attempts: u64,
    /// The attempts that succeeded.
    pub laundered: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Corpus {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    /// What was done to the text, or what ought to discount it.
    way: String,
    /// The part of what arrives that repeats the older text; the first older text if it is not named.
    carried: Option<String>,
    before: Vec<Text>,
    arrives: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    channel: Channel,
    text: String,
    /// In whose session. `bot` is an agent that works for nobody.
    #[serde(default = "ada")]
    principal: String,
    /// An incident marks it.
    #[serde(default)]
    flagged: bool,
    /// A text that the same session then writes to memory, and that the owner releases.
    released: Option<String>,
    /// The same session then writes the text to memory.
    #[serde(default)]
    written: bool,
}

fn ada() -> String {
    "ada".to_owned()
}

/// Plays every case.
///
/// # Errors
/// When the corpus cannot be read, or the store fails.
pub fn run(progress: &mut dyn FnMut(&str, u64, u64)) -> Result<EchoFigures, EvalError> {
    let [reuses, innocents, launderings] =
        [corpus(REUSES)?, corpus(INNOCENTS)?, corpus(LAUNDERINGS)?];
    Ok(EchoFigures {
        reuses: reuses.len() as u64,
        missed: names_of("copies", &reuses, Arrived::is_missed, progress)?,
        innocents: innocents.len() as u64,
        false_taints: names_of("own texts", &innocents, Arrived::is_tainted, progress)?,
        attempts: launderings.len() as u64,
        laundered: names_of("launderings", &launderings, Arrived::is_missed, progress)?,
    })
}

/// Plays `cases`, and names those of which `is` holds.
fn names_of(
    part: &str,
    cases: &[Case],
    is: fn(&Arrived, &Case) -> bool,
    progress: &mut dyn FnMut(&str, u64, u64),
) -> Result<Vec<String>, EvalError> {
    let mut names = Vec::new();
    for (done, case) in (0..).zip(cases) {
        progress(part, done, cases.len() as u64);
        if is(&play(case)?, case) {
            names.push(format!("{} ({})", case.id, case.way));
        }
    }
    Ok(names)
}

fn corpus(text: &str) -> Result<Vec<Case>, EvalError> {
    let corpus: Corpus = toml::from_str(text)
        .map_err(|error| EvalError::Setup(format!("the corpus of echoes: {error}")))?;
    Ok(corpus.case)
}

impl Case {
    /// The number of canonical characters that were carried over.
    fn carried(&self) -> usize {
        let first = self.before.first().map(|text| text.text.as_str());
        let carried = self.carried.as_deref().or(first);
        carried.map_or(0, |carried| CanonicalText::of(carried).len())
    }
}

/// What the store made of the text that arrived.
struct Arrived {
    /// The canonical characters of its untrusted parts.
    tainted: usize,
    /// Whether what was then written to memory is untrusted, or was refused.
    is_write_tainted: Option<bool>,
}

impl Arrived {
    /// Whether anything of it is untrusted.
    fn is_tainted(&self, _: &Case) -> bool {
        self.tainted > 0 || self.is_write_tainted == Some(true)
    }

    /// Whether more than a fifth of what was carried over is not untrusted.
    fn is_missed(&self, case: &Case) -> bool {
        let is_read = self.tainted > 0 && self.tainted * 5 >= case.carried() * 4;
        !is_read || self.is_write_tainted == Some(false)
    }
}

fn play(case: &Case) -> Result<Arrived, EvalError> {
    let mut scene = Scene { scratch: ScratchStore::new(FREE)?, known: BTreeMap::new() };
    for text in &case.before {
        scene.prepare(text)?;
    }
    let session = scene.open(&case.arrives)?;
    let receipts = observe(&session, &case.arrives)?;
    let mut tainted = 0;
    for receipt in receipts.iter().filter(|receipt| receipt.label.is_tainted()) {
        tainted += CanonicalText::of(&scene.text(receipt.seq)?).len();
    }
    let written = case.arrives.written.then(|| scene.write(&session, &case.arrives.text));
    let is_write_tainted =
        written.transpose()?.map(|receipt| is_refused(&receipt) || receipt.label.is_tainted());
    Ok(Arrived { tainted, is_write_tainted })
}

fn is_refused(receipt: &Receipt) -> bool {
    receipt.answer != Answer::Done
}

/// A store, and who is known in it.
struct Scene {
    scratch: ScratchStore,
    known: BTreeMap<String, Authority>,
}

impl Scene {
    /// A session for whom `text` belongs to. A model speaks only after its user did.
    fn open(&mut self, text: &Text) -> Result<Session, EvalError> {
        let who = match self.known.get(&text.principal) {
            Some(who) => who.clone(),
            None if text.principal == "bot" => self.scratch.agent("bot")?,
            None => self.scratch.human(&text.principal, Role::User)?.by_token,
        };
        self.known.insert(text.principal.clone(), who.clone());
        let session = self.scratch.open(&who)?;
        if matches!(text.channel, Channel::Model | Channel::Memory) {
            self.scratch.message(&session, Channel::User, "Go on, please.")?;
        }
        Ok(session)
    }

    fn prepare(&mut self, text: &Text) -> Result<(), EvalError> {
        let session = self.open(text)?;
        if text.channel == Channel::Memory {
            let written = self.write(&session, &text.text)?;
            return ensure(!is_refused(&written), "a note could not be written");
        }
        let receipts = observe(&session, text)?;
        if text.flagged {
            let marked: Vec<Indicator> =
                receipts.iter().map(|receipt| Indicator::Position(receipt.seq)).collect();
            self.mark(&marked)?;
        }
        match &text.released {
            Some(released) => self.release(&session, released),
            None => Ok(()),
        }
    }

    fn write(&self, session: &Session, text: &str) -> Result<Receipt, EvalError> {
        Ok(self.scratch.write(session, Scope::Shared, "kept", text)?)
    }

    /// Proposes `text` for memory in a session that read something untrusted, and has the owner release it.
    fn release(&self, session: &Session, text: &str) -> Result<(), EvalError> {
        let key = "released".parse().map_err(|error| EvalError::Setup(format!("{error}")))?;
        let write = Write { queue: true, ..Write::new(Scope::Shared, key, text) };
        let waiting = session.write(write).wait()?;
        let record = self.scratch.store.record(waiting.seq)?;
        let Request::Session(SessionRequest::Write { value: Value::New(shown), .. }) =
            record.request
        else {
            return ensure(false, "no write waits");
        };
        let approved = self.scratch.store.approve(&self.scratch.owner, waiting.id, Some(shown))?;
        ensure(!is_refused(&approved), "a release was refused")
    }

    /// Puts entries in quarantine.
    fn mark(&self, indicators: &[Indicator]) -> Result<(), EvalError> {
        let incidents = Incidents::of(&self.scratch.store);
        let found = incidents.find(indicators)?.findings;
        let opened = incidents.open(&self.scratch.owner, indicators, found)?.taken()?;
        let _contained = opened.contain(&self.scratch.owner)?.taken()?;
        Ok(())
    }

    /// The text that arrived at `seq`.
    fn text(&self, seq: Seq) -> Result<String, EvalError> {
        let content = content_of(&self.scratch.store.record(seq)?);
        let content = content.ok_or_else(|| EvalError::Setup("an echo without a text".into()))?;
        Ok(String::from_utf8_lossy(&self.scratch.store.content(content)?).into_owned())
    }
}

fn ensure(holds: bool, why: &str) -> Result<(), EvalError> {
    if holds { Ok(()) } else { Err(EvalError::Setup(why.to_owned())) }
}

fn observe(session: &Session, text: &Text) -> Result<Vec<Receipt>, EvalError> {
    let observation = if text.channel == Channel::Model {
        Observation::completion(text.text.as_str())
    } else {
        Observation::message(text.channel, text.text.as_str())
    };
    Ok(session.observe(observation).wait()?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn g10_the_corpus_is_as_large_as_the_report_says() {
        let corpora = [REUSES, INNOCENTS, LAUNDERINGS].map(|text| corpus(text).unwrap());
        let [reuses, innocents, launderings] = corpora.each_ref().map(Vec::len);
        assert!(reuses >= 60 && innocents >= 40 && launderings >= 25);
        let ids: BTreeSet<&String> = corpora.iter().flatten().map(|case| &case.id).collect();
        assert_eq!(ids.len(), reuses + innocents + launderings);
    }

    #[test]
    fn g9_g10_copies_are_recognised_own_texts_are_left_alone_and_nothing_is_laundered() {
        let found = run(&mut |_, _, _| {}).unwrap();
        assert!(found.missed.len() as u64 * 20 <= found.reuses, "{:#?}", found.missed);
        assert_eq!((found.false_taints, found.laundered), (Vec::new(), Vec::new()));
    }

    /// The controls: the same texts without what came before them are nobody's echo.
    #[test]
    fn g9_nothing_is_untrusted_that_nothing_untrusted_held_before() {
        for case in corpus(REUSES).unwrap().into_iter().step_by(6) {
            let alone = Case { before: Vec::new(), ..case };
            assert!(!play(&alone).unwrap().is_tainted(&alone), "{}", alone.id);
        }
    }
}
