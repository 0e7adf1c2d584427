//! Recall: the texts that an agent would be shown with a question.
//!
//! These are what the store's own retrieval returns: texts that share rare words with the question, the nearest ones
//! in every tenant, and the newest items of memory. For a run before the recovery, what this incident put in
//! quarantine counts as retrievable, because a plan is mostly applied after containment.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use custody_kernel::label::Label;
use custody_kernel::namespace::Tenant;
use custody_kernel::state::{Mark, State};
use custody_log::{IncidentId, Seq};
use custody_runtime::store::View;
use custody_text::Phrase;

use crate::arrival::arrival;
use crate::error::IncidentError;
use crate::neighbours::{self, Vectors};
use crate::probe::pieces::{canonical_words, pieces};
use crate::store::Incidents;

/// The most texts that an agent is shown, and the longest of them, in characters.
const SHOWN: usize = 5;
const SHOWN_CHARS: usize = 600;

/// The most of these by words, by vectors in each tenant, and from memory.
const BY_WORDS: usize = 4;
const BY_VECTORS: usize = 3;
const BY_MEMORY: usize = 2;

/// The most words of a question that are looked up, and the number of texts from which on a word is common.
const LOOKED_UP: usize = 24;
const COMMON_FROM: usize = 200;

/// The number of passages of a text that are looked up.
const PASSAGES: usize = 3;

/// The least cosine of a text that is shown as near.
const NEAR: f64 = 0.3;

/// The view of a run of probes.
#[derive(Clone, Copy)]
pub(crate) struct Sight<'a> {
    /// The vectors, if there is a model for them.
    pub(crate) vectors: Option<Vectors<'a>>,
    /// The incident whose marks are ignored.
    pub(crate) before: Option<IncidentId>,
    /// The first entry that is destroyed. Earlier texts cannot derive from it.
    pub(crate) first: Seq,
}

/// A recalled text.
pub(crate) struct Recalled<'a> {
    pub(crate) text: &'a str,
    /// The cosine, if it was measured.
    pub(crate) cosine: Option<f64>,
    /// Whether it is older than what is destroyed, trusted and clean.
    pub(crate) is_known: bool,
}

impl Incidents<'_> {
    /// The texts that an agent is shown for `question`, the best match first.
    pub(crate) fn recall(
        &self,
        sight: Sight<'_>,
        question: &str,
    ) -> Result<Vec<String>, IncidentError> {
        let vector = sight.embed(question)?;
        self.store.look(|view| {
            let looking = Looking { view, sight };
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

    /// Calls `visit` with every text that contains a passage of `text`, shares its rare words or is near it.
    pub(crate) fn recall_alike(
        &self,
        sight: Sight<'_>,
        text: &str,
        visit: &mut dyn FnMut(Recalled<'_>),
    ) -> Result<(), IncidentError> {
        let vector = sight.embed(text)?;
        self.store.look(|view| {
            let looking = Looking { view, sight };
            let mut found: BTreeMap<Seq, Option<f64>> = BTreeMap::new();
            for passage in longest_lines(text) {
                let Some(passage) = Phrase::of(passage) else { continue };
                let holding = view.may_contain(&passage)?;
                found.extend(holding.into_iter().map(|entry| (entry, None)));
            }
            found.extend(looking.by_words(text)?.into_iter().map(|entry| (entry, None)));
            let near = looking.by_vectors(vector.as_deref())?;
            found.extend(near.into_iter().map(|(entry, cosine)| (entry, Some(cosine))));
            for (entry, cosine) in found {
                let Some(text) = looking.text(entry)? else { continue };
                let is_known = entry < sight.first && is_trusted(view.state(), entry);
                visit(Recalled { text: &text, cosine, is_known });
            }
            Ok(())
        })
    }
}

/// Whether an entry is trusted, clean and not taken out.
fn is_trusted(state: &State, entry: Seq) -> bool {
    state.label(entry).is_some_and(Label::is_good) && !state.is_out(entry)
}

/// A view of a store.
struct Looking<'a> {
    view: View<'a>,
    sight: Sight<'a>,
}

impl Sight<'_> {
    fn embed(&self, text: &str) -> Result<Option<Vec<f32>>, IncidentError> {
        self.vectors.map(|vectors| neighbours::embed(vectors, text)).transpose()
    }

    /// Whether an entry is retrievable.
    fn sees(&self, state: &State, entry: Seq) -> bool {
        let is_out = state.standing(entry).is_some_and(|standing| {
            standing.marks().any(|(by, mark)| mark >= Mark::Quarantined && Some(by) != self.before)
        });
        !is_out && !state.is_of_recovery(entry)
    }
}

impl Looking<'_> {
    fn sees(&self, entry: Seq) -> bool {
        self.sight.sees(self.view.state(), entry)
    }

    /// The text that arrived with an entry, if it is retrievable.
    fn text(&self, entry: Seq) -> Result<Option<String>, IncidentError> {
        if !self.sees(entry) {
            return Ok(None);
        }
        let record = self.view.record(entry)?;
        let Some(content) = arrival(&record) else { return Ok(None) };
        let bytes = self.view.any_content(content)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The entries that share words with `text`, weighted by rarity.
    fn by_words(&self, text: &str) -> Result<Vec<Seq>, IncidentError> {
        let mut weights: BTreeMap<Seq, f64> = BTreeMap::new();
        for word in telling(text) {
            let holding = self.view.may_contain_some(&word, COMMON_FROM)?;
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

    /// The nearest entries of every tenant, each with its cosine.
    fn by_vectors(&self, sought: Option<&[f32]>) -> Result<Vec<(Seq, f64)>, IncidentError> {
        let (Some(vectors), Some(sought)) = (self.sight.vectors, sought) else {
            return Ok(Vec::new());
        };
        let near =
            neighbours::scan(self.view, vectors.model, sought, NEAR, |entry| self.sees(entry))?;
        let mut taken: BTreeMap<Option<&Tenant>, usize> = BTreeMap::new();
        let found = near.found.iter().filter(|near| {
            let count = taken.entry(self.view.state().tenant_of(near.entry)).or_default();
            *count += 1;
            *count <= BY_VECTORS
        });
        Ok(found.map(|near| (near.entry, near.similarity.value())).collect())
    }

    /// The contents of the most recently changed items of memory.
    fn in_memory(&self) -> Vec<Seq> {
        let held = self.view.state().items().filter_map(|(_, _, item)| {
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

/// The longest lines and sentences of a text, as somebody would search for it.
fn longest_lines(text: &str) -> Vec<&str> {
    let lines = text.split(['\n', '.', '!', '?']).map(str::trim);
    let mut lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    lines.sort_by_key(|line| Reverse(line.chars().count()));
    lines.truncate(PASSAGES);
    lines
}

/// The words to look a text up by, each once, in order.
fn telling(text: &str) -> Vec<Phrase> {
    let mut seen = BTreeSet::new();
    let long = canonical_words(text).into_iter().filter(|word| word.chars().count() > 3);
    let each = long.filter(|word| seen.insert(word.clone())).take(LOOKED_UP);
    each.filter_map(|word| Phrase::of(&word)).collect()
}

/// The part of a long text that contains most of the question's words, the first of equals.
fn fitting<'a>(text: &'a str, question: &str) -> &'a str {
    let wanted = telling(question);
    let parts = pieces(text, (SHOWN_CHARS / 2, SHOWN_CHARS));
    let fullest = parts
        .into_iter()
        .rev()
        .max_by_key(|part| wanted.iter().filter(|word| word.is_in(part)).count());
    fullest.unwrap_or_default()
}
