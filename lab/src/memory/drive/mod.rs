//! The real store and a naive model, driven side by side by the same actions.
//!
//! After each action the whole visible state is compared: the answer and the rule it names, the taint and
//! all ancestors of the new entry, every session's context, every item of every namespace with its text, provenance,
//! taint and mode, and what waits for a reviewer. An episode has tenants of its own and is one
//! transaction of the store; after it the values are read back from disk. A store serves many episodes,
//! and is then verified, opened again and replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use custody_cli::attacks::scratch::{FREE, ScratchStore};
use custody_kernel::key::Key;
use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::Namespace;
use custody_kernel::state::State;
use custody_keys::HumanKey;
use custody_runtime::{Store, StoreError};
use custody_verify::verify_ledger;

use self::cast::Cast;
use self::episode::Episode;
use crate::error::EvalError;
use crate::memory::action::{Action, Place, PlainAnswer, Seen, Vocabulary};
use crate::memory::extended::{Extended, Limit};
use crate::memory::model::Model;

mod cast;
mod episode;

/// What a model of the rules must be able to say. Entries are counted in the order recorded.
pub trait RulesModel {
    /// Acts, and gives the answer. An answer that is recorded adds exactly one entry.
    fn perform(&mut self, action: &Action) -> PlainAnswer;
    /// Makes a shared key immutable in every tenant, before the first action.
    fn lock(&mut self, key: &str);
    /// How many entries there are.
    fn entries(&self) -> usize;
    /// Everything that an entry was made from, however far back.
    fn ancestors(&self, entry: usize) -> BTreeSet<usize>;
    /// The taint of an entry.
    fn is_tainted(&self, entry: usize) -> bool;
    /// The taint of what a session has read.
    fn context_is_tainted(&self, session: usize) -> bool;
    /// What a namespace holds.
    fn namespace_of(&self, session: usize, place: Place) -> BTreeMap<String, Seen>;
    /// The entries whose proposals wait for a reviewer.
    fn waiting(&self) -> BTreeSet<usize> {
        BTreeSet::new()
    }
}

/// Where the store and the model part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    /// After how many actions of the episode.
    pub step: usize,
    /// The last action.
    pub action: String,
    /// What differs.
    pub what: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}, {}: {}", self.step, self.action, self.what)
    }
}

/// What came of an episode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Played {
    /// Actions performed.
    pub steps: u64,
    /// How often each answer was given, by its words: `refused rule 4`.
    pub answers: BTreeMap<String, u64>,
    /// Where it ended early, if it did.
    pub divergence: Option<Divergence>,
}

/// Episodes per store.
const EPISODES: u64 = 100;
const LIMIT: Limit = Limit { changes: 3, window_ms: 300, waits_ms: 400 };

/// A store to drive, and what it is driven with.
pub struct Rig {
    vocabulary: Vocabulary,
    forgotten: Option<Forgotten>,
    scratch: Option<ScratchStore>,
    humans: BTreeMap<&'static str, HumanKey>,
    episodes: u64,
}

/// What a model leaves out, to show that the comparison notices.
#[derive(Debug, Clone, Copy)]
pub enum Forgotten {
    /// A rule of MON.
    Rule(u8),
    /// An addition of the design.
    Addition(&'static str),
}

impl Rig {
    /// Actions of MON §3.3 beside [`Model`], or all of them beside [`Extended`].
    pub fn new(vocabulary: Vocabulary) -> Self {
        let humans = ["ann", "bob", "rex", "stranger"].map(|name| (name, HumanKey::generate()));
        Self { vocabulary, forgotten: None, scratch: None, humans: humans.into(), episodes: 0 }
    }

    /// The same beside a model that forgot something.
    #[must_use]
    pub fn forgetting(self, forgotten: Forgotten) -> Self {
        Self { forgotten: Some(forgotten), ..self }
    }

    /// Plays the trace that `bytes` spell.
    ///
    /// # Errors
    /// When the store fails. A divergence is no error.
    pub fn play(&mut self, bytes: Vec<u8>) -> Result<Played, EvalError> {
        if self.episodes.is_multiple_of(EPISODES) {
            self.retire()?;
        }
        let scratch = match self.scratch.take() {
            Some(scratch) => scratch,
            None => ScratchStore::new(self.limits())?,
        };
        self.episodes += 1;
        let cast = Cast::new(self.episodes, &scratch, &self.humans)?;
        let (vocabulary, forgotten) = (self.vocabulary, self.forgotten);
        let clock = scratch.clock.clone();
        let ticket = scratch.store.run(move |step| {
            let speakers = cast.speakers();
            match vocabulary {
                Vocabulary::Mon => {
                    let mut model = Model::new(&[], &speakers);
                    if let Some(Forgotten::Rule(rule)) = forgotten {
                        model = model.without_rule(rule);
                    }
                    Episode::new(step, cast, clock, model, vocabulary).play(&bytes)
                }
                Vocabulary::Extended => {
                    let (now, shown) = (step.state().now().0, clock.now().0);
                    let mut model = Extended::new(LIMIT, now, shown, &speakers);
                    if let Some(Forgotten::Addition(addition)) = forgotten {
                        model = model.without(addition);
                    }
                    Episode::new(step, cast, clock, model, vocabulary).play(&bytes)
                }
            }
        });
        let ended = ticket.wait()?;
        let mut played = ended.played;
        if played.divergence.is_none() {
            played.divergence = on_disk(&scratch.store, &ended.expected)?;
        }
        self.scratch = Some(scratch);
        Ok(played)
    }

    /// Verifies the store and lets it go.
    ///
    /// # Errors
    /// When the store does not verify, or does not open again as it was.
    pub fn retire(&mut self) -> Result<(), EvalError> {
        let Some(scratch) = self.scratch.take() else { return Ok(()) };
        verify_ledger(&scratch.store)?;
        let before = scratch.state_hash()?;
        let again = Store::open(&scratch.paths, scratch.clock.clone())?;
        if again.state(State::state_hash)? != before {
            return Err(EvalError::Setup("a store opened again holds something else".into()));
        }
        Ok(())
    }

    fn limits(&self) -> Limits {
        match self.vocabulary {
            Vocabulary::Mon => FREE,
            Vocabulary::Extended => Limits {
                changes: u32::try_from(LIMIT.changes).ok(),
                window_ms: LIMIT.window_ms,
                proposal_ttl_ms: LIMIT.waits_ms,
                ..FREE
            },
        }
    }
}

/// Compares the bytes on disk with what the model holds at the end of an episode.
fn on_disk(
    store: &Store,
    expected: &[(Namespace, BTreeMap<String, Seen>)],
) -> Result<Option<Divergence>, StoreError> {
    for (namespace, seen) in expected {
        let stored: BTreeMap<Key, Vec<u8>> = store.values(namespace)?;
        let stored: BTreeMap<String, String> = stored
            .into_iter()
            .map(|(key, bytes)| (key.to_string(), String::from_utf8_lossy(&bytes).into_owned()))
            .collect();
        let model: BTreeMap<String, String> = seen
            .iter()
            .filter_map(|(key, seen): (&String, &Seen)| Some((key.clone(), seen.value.clone()?.0)))
            .collect();
        if stored != model {
            let what = format!("`{namespace}` holds {stored:?} on disk, in the model {model:?}");
            return Ok(Some(Divergence { step: 0, action: "reading back".into(), what }));
        }
    }
    Ok(None)
}
