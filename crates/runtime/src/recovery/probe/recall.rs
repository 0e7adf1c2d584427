//! Recall: the texts that an agent would have before it when it is asked something.
//!
//! What the store's own retrieval gives: texts that share rare words with the question, the nearest ones by what they
//! are about in every tenant, and the newest items of memory. Before a recovery, what this incident holds back counts
//! as still there: a plan is mostly applied when everything is in quarantine already.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use custody_kernel::label::Label;
use custody_kernel::namespace::Tenant;
use custody_kernel::state::{Mark, State};
use custody_log::{IncidentId, Seq};
use rusqlite::Connection;

use super::pieces::{pieces, words};
use crate::recovery::neighbours::{self, Vectors};
use crate::recovery::search::{arrival, readable};
use crate::store::{Ledger, Store, StoreError, index, read_record};

/// The most texts that an agent is shown, and how long one of them may be, in characters.
const SHOWN: usize = 5;
const SHOWN_CHARS: usize = 600;

/// Of these the most by words, by vectors in each tenant, and out of memory.
const BY_WORDS: usize = 4;
const BY_VECTORS: usize = 3;
const BY_MEMORY: usize = 2;

/// How many words of a question are looked up, and in how many texts one may stand to tell anything.
const LOOKED_UP: usize = 24;
const COMMON_FROM: usize = 200;

/// How many passages of a text are looked up.
const PASSAGES: usize = 3;

/// From which cosine on a text is shown for being near.
const NEAR: f64 = 0.3;

/// What is looked at, and how.
#[derive(Clone, Copy)]
pub(super) struct Sight<'a> {
    /// The vectors, where there is a model for them.
    pub(super) vectors: Option<Vectors<'a>>,
    /// The incident whose marks count as not made yet.
    pub(super) before: Option<IncidentId>,
    /// The first entry that is destroyed: what was said before cannot come from it.
    pub(super) first: Seq,
}

/// A text that was found.
pub(super) struct Recalled<'a> {
    pub(super) text: &'a str,
    /// How near it is, where that was measured.
    pub(super) cosine: Option<f64>,
    /// Whether it was said before, trusted and clean.
    pub(super) is_known: bool,
}

impl Store {
    /// What an agent is shown for `question`, the most fitting first.
    pub(super) fn recall(
        &self,
        sight: Sight<'_>,
        question: &str,
    ) -> Result<Vec<String>, StoreError> {
        let vector = sight.embed(question)?;
        self.read(|connection, ledger| {
            let looking = Looking { connection, ledger, sight };
            let mut entries: Vec<Seq> = looking.by_words(question)?;
            let near = looking.by_vectors(vector.as_deref())?;
            entries.extend(near.iter().map(|(entry, _)| *entry));
            entries.extend(looking.in_memory());
            let mut seen = BTreeSet::new();
            entries.retain(|entry| seen.insert(*entry));
            let mut shown = Vec::new();
            for entry in entries {
                let Some(text) = looking.text(entry)? else { continue };
                shown.push(fitting(&text, question).to_owned());
                if shown.len() == SHOWN {
                    break;
                }
            }
            Ok(shown)
        })
    }

    /// Shows `visit` every text that holds a passage of `text`, shares its rare words or is near it.
    pub(super) fn recall_alike(
        &self,
        sight: Sight<'_>,
        text: &str,
        visit: &mut dyn FnMut(Recalled<'_>),
    ) -> Result<(), StoreError> {
        let vector = sight.embed(text)?;
        self.read(|connection, ledger| {
            let looking = Looking { connection, ledger, sight };
            let mut found: BTreeMap<Seq, Option<f64>> = BTreeMap::new();
            for passage in longest_lines(text) {
                let holding = index::may_contain(connection, passage)?.unwrap_or_default();
                found.extend(holding.into_iter().map(|entry| (entry, None)));
            }
            found.extend(looking.by_words(text)?.into_iter().map(|entry| (entry, None)));
            let near = looking.by_vectors(vector.as_deref())?;
            found.extend(near.into_iter().map(|(entry, cosine)| (entry, Some(cosine))));
            for (entry, cosine) in found {
                let Some(text) = looking.text(entry)? else { continue };
                let is_known = entry < sight.first && vouches(ledger.state(), entry);
                visit(Recalled { text: &text, cosine, is_known });
            }
            Ok(())
        })
    }
}

/// Whether an entry is trusted and clean, and not taken out.
fn vouches(state: &State, entry: Seq) -> bool {
    state.label(entry).is_some_and(Label::is_good) && !state.is_out(entry)
}

/// One moment of a store.
struct Looking<'a> {
    connection: &'a Connection,
    ledger: &'a Ledger,
    sight: Sight<'a>,
}

impl Sight<'_> {
    fn embed(&self, text: &str) -> Result<Option<Vec<f32>>, StoreError> {
        self.vectors.map(|vectors| neighbours::embed(vectors, text)).transpose()
    }

    /// Whether anybody can get at an entry.
    fn sees(&self, state: &State, entry: Seq) -> bool {
        let is_out = state.standing(entry).is_some_and(|standing| {
            let holds = |(by, mark)| mark >= Mark::Quarantined && Some(by) != self.before;
            standing.marks().any(holds)
        });
        !is_out && !state.is_of_recovery(entry)
    }
}

impl Looking<'_> {
    fn sees(&self, entry: Seq) -> bool {
        self.sight.sees(self.ledger.state(), entry)
    }

    /// The text that arrived with an entry, if anybody can get at it.
    fn text(&self, entry: Seq) -> Result<Option<String>, StoreError> {
        if !self.sees(entry) {
            return Ok(None);
        }
        let record = read_record(self.connection, self.ledger, entry)?;
        let Some(content) = arrival(&record) else { return Ok(None) };
        let bytes = readable(self.connection, self.ledger, content)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Those that share words with `text`, rare words counting more.
    fn by_words(&self, text: &str) -> Result<Vec<Seq>, StoreError> {
        let mut weights: BTreeMap<Seq, f64> = BTreeMap::new();
        for word in telling(text) {
            let holding = index::may_contain_some(self.connection, &word, COMMON_FROM)?;
            if holding.len() >= COMMON_FROM {
                continue;
            }
            let weight = 1.0 / (1.0 + holding.len() as f64);
            for entry in holding.into_iter().filter(|entry| self.sees(*entry)) {
                *weights.entry(entry).or_default() += weight;
            }
        }
        let mut ranked: Vec<(Seq, f64)> = weights.into_iter().collect();
        ranked.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        Ok(ranked.into_iter().take(BY_WORDS).map(|(entry, _)| entry).collect())
    }

    /// The nearest of every tenant, each with its cosine.
    fn by_vectors(&self, sought: Option<&[f32]>) -> Result<Vec<(Seq, f64)>, StoreError> {
        let (Some(vectors), Some(sought)) = (self.sight.vectors, sought) else {
            return Ok(Vec::new());
        };
        let (connection, ledger) = (self.connection, self.ledger);
        let sees = |entry| self.sees(entry);
        let near = neighbours::scan(connection, ledger, vectors.model, sought, NEAR, sees)?;
        let mut taken: BTreeMap<Option<&Tenant>, usize> = BTreeMap::new();
        let mut is_among_first = |entry: Seq| {
            let count = taken.entry(ledger.state().tenant_of(entry)).or_default();
            *count += 1;
            *count <= BY_VECTORS
        };
        let found = near.found.iter().filter(|near| is_among_first(near.entry));
        Ok(found.map(|near| (near.entry, near.similarity.value())).collect())
    }

    /// What the items of memory hold that changed last.
    fn in_memory(&self) -> Vec<Seq> {
        let held = self.ledger.state().items().filter_map(|(_, _, item)| {
            let newest = item.changes.iter().rev().find(|change| {
                self.sees(change.entry)
                    && change.version.is_none_or(|version| self.sees(version.content.arrival))
            })?;
            Some((newest.entry, newest.version?.content.arrival))
        });
        let mut held: Vec<(Seq, Seq)> = held.collect();
        held.sort_unstable_by_key(|newest| Reverse(*newest));
        held.into_iter().take(BY_MEMORY).map(|(_, arrival)| arrival).collect()
    }
}

/// The longest lines and sentences of a text: what somebody who looks for it would type.
fn longest_lines(text: &str) -> Vec<&str> {
    let lines = text.split(['\n', '.', '!', '?']).map(str::trim);
    let mut lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    lines.sort_by_key(|line| Reverse(line.chars().count()));
    lines.truncate(PASSAGES);
    lines
}

/// The words by which a text is looked up, each once, in order.
fn telling(text: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let long = words(text).map(str::to_lowercase).filter(|word| word.chars().count() > 3);
    long.filter(|word| seen.insert(word.clone())).take(LOOKED_UP).collect()
}

/// The part of a long text that has most of the question's words, the first of equals.
fn fitting<'a>(text: &'a str, question: &str) -> &'a str {
    let wanted = telling(question);
    let hits = |part: &str| {
        let part = part.to_lowercase();
        wanted.iter().filter(|word| part.contains(word.as_str())).count()
    };
    let parts = pieces(text, (SHOWN_CHARS / 2, SHOWN_CHARS));
    parts.into_iter().rev().max_by_key(|part| hits(part)).unwrap_or_default()
}
