//! Searching memory: which of the items that a session sees a query is about.
//!
//! Candidates are the items of the session's own namespace and of the shared one of its tenant (MON rule 9), and
//! nothing else is looked at: what other sessions hold changes neither what is found nor a score nor a count (G26).
//! Each item that is found is read as by [`Session::read`], so that it has an edge in the graph. The query is no value:
//! it is neither recorded nor part of a label.
//!
//! A host that has an embedding model gives it to a session as a [`VectorModel`]; memory is then searched by meaning.
//! Otherwise it is searched by the canonical form of text.

use std::fmt;

use custody_kernel::actions::list::visible_items;
use custody_kernel::key::Key;
use custody_kernel::memory::item::{ContentRef, Version};
use custody_kernel::namespace::{Namespace, Scope};
use custody_kernel::score::Score;
use custody_kernel::state::State;
use custody_log::{Digest, Seq};
use custody_store::vectors::{cosine, to_bytes};
use custody_store::{StoreError, View};
use custody_text::{CanonicalText, Rendering};

use super::Session;
use super::reading::Reading;

/// The least cosine with the query of an item that is found by meaning.
pub const RELATED: f64 = 0.3;
/// The most items that a search finds.
pub const FOUND_AT_ONCE: usize = 32;
/// The most items for which one search makes vectors; those of others are made by the next ones.
pub const EMBEDDED_AT_ONCE: usize = 256;
/// The number of texts in one call of the model.
const BATCH: usize = 32;

/// Makes vectors of texts.
pub trait VectorModel: Send + Sync {
    /// The vectors of `texts`, in their order, each of length 1.
    ///
    /// # Errors
    /// When the model cannot be opened, or fails.
    fn vectors(&self, texts: &[&str]) -> Result<TextVectors, ModelFailure>;
}

/// Why there are no vectors.
pub type ModelFailure = Box<dyn std::error::Error + Send + Sync>;

/// Vectors that one model made.
#[derive(Debug, Clone)]
pub struct TextVectors {
    /// The digest of the model: vectors of two models are never compared.
    pub model: Digest,
    /// `[texts][width]`.
    pub rows: Vec<Vec<f32>>,
}

impl fmt::Debug for dyn VectorModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VectorModel")
    }
}

/// Why memory could not be searched.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The model failed. Nothing was read.
    #[error("the embedding model failed, so memory was not searched")]
    Model(#[source] ModelFailure),
}

/// How items were compared with a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchMethod {
    /// By the vectors of a model.
    Meaning,
    /// By words in canonical form: an item is found that holds every word of the query, in its key or its value.
    Text,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchResult {
    /// How the items were compared.
    pub by: SearchMethod,
    /// The items, the best first. Each was read.
    pub found: Vec<FoundItem>,
    /// How many items the session sees that have no vector yet and were not compared.
    pub not_searched: u64,
}

/// An item that was found, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundItem {
    /// Its key.
    pub key: Key,
    /// The cosine with the query, where it was found by meaning.
    pub similarity: Option<Score>,
    /// The read.
    pub reading: Reading,
}

/// An item that a session sees.
struct Candidate {
    scope: Scope,
    key: Key,
    version: Version,
}

/// A candidate that matches, and how well: the best first.
struct Match {
    candidate: Candidate,
    similarity: Option<Score>,
}

impl Session {
    /// Searches the memory that the session sees for at most `most` items, and reads those that are found.
    ///
    /// # Errors
    /// [`SearchError`]; nothing is read then.
    pub fn search(&self, query: &str, most: usize) -> Result<SearchResult, SearchError> {
        let most = most.min(FOUND_AT_ONCE);
        let (by, mut matches, not_searched) = match self.vectors() {
            Some(model) => {
                let (matches, not_searched) = self.by_meaning(model, query)?;
                (SearchMethod::Meaning, matches, not_searched)
            }
            None => (SearchMethod::Text, self.by_text(query)?, 0),
        };
        matches.truncate(most);
        let reader = self.reader();
        let reading = self.run(move |step| {
            let mut found = Vec::with_capacity(matches.len());
            for Match { candidate: Candidate { scope, key, version }, similarity } in matches {
                // What changed since it was compared was not what was found.
                let namespace = Namespace { tenant: reader.own.tenant.clone(), scope };
                let now = step.state().item(&namespace, &key).and_then(|item| item.current);
                if now == Some(version) {
                    let reading = reader.read(step, scope, key.clone())?;
                    found.push(FoundItem { key, similarity, reading });
                }
            }
            Ok::<_, StoreError>(found)
        });
        Ok(SearchResult { by, found: reading.wait()?, not_searched })
    }

    /// The items that hold every word of `query`, those with the query as a whole first.
    fn by_text(&self, query: &str) -> Result<Vec<Match>, StoreError> {
        let words: Vec<CanonicalText> = query
            .split_whitespace()
            .map(CanonicalText::of)
            .filter(|word| !word.is_empty())
            .collect();
        if words.is_empty() {
            return Ok(Vec::new());
        }
        let (whole, own) = (CanonicalText::of(query), self.namespace());
        self.store().look(|view| {
            let mut matches = Vec::new();
            for candidate in candidates(view.state(), &own) {
                let text = text_of(view, candidate.version.content)?;
                let shown = Rendering::ALL.iter().filter_map(|rendering| rendering.of(&text));
                let forms: Vec<CanonicalText> =
                    shown.chain([CanonicalText::of(candidate.key.as_str())]).collect();
                if words.iter().all(|word| is_in(&forms, word)) {
                    let only_in_parts = !is_in(&forms, &whole);
                    matches.push((only_in_parts, Match { candidate, similarity: None }));
                }
            }
            // Stable, so within each half the candidates keep their order.
            matches.sort_by_key(|(only_in_parts, _)| *only_in_parts);
            Ok(matches.into_iter().map(|(_, one)| one).collect())
        })
    }

    /// The items near `query`, the nearest first, and how many have no vector yet.
    fn by_meaning(
        &self,
        model: &dyn VectorModel,
        query: &str,
    ) -> Result<(Vec<Match>, u64), SearchError> {
        let asked = model.vectors(&[query]).map_err(SearchError::Model)?;
        let sought = asked.rows.into_iter().next().unwrap_or_default();
        self.index_visible(model, asked.model)?;
        let own = self.namespace();
        let (mut matches, not_searched) = self.store().look(|view| {
            let (mut matches, mut not_searched) = (Vec::new(), 0);
            for candidate in candidates(view.state(), &own) {
                let arrival = candidate.version.content.arrival;
                let Some(vector) = view.vector_of(asked.model, arrival)? else {
                    not_searched += 1;
                    continue;
                };
                let near = cosine(&sought, &vector);
                if near >= RELATED {
                    let similarity = Some(Score::at_most_one(near));
                    matches.push(Match { candidate, similarity });
                }
            }
            Ok::<_, StoreError>((matches, not_searched))
        })?;
        matches.sort_by_key(|one| std::cmp::Reverse(one.similarity));
        Ok((matches, not_searched))
    }

    /// Makes the missing vectors of the items that the session sees, a bounded number of them.
    fn index_visible(&self, model: &dyn VectorModel, digest: Digest) -> Result<(), SearchError> {
        let own = self.namespace();
        let missing = self.store().look(|view| {
            let mut missing: Vec<(Seq, String)> = Vec::new();
            for candidate in candidates(view.state(), &own) {
                let content = candidate.version.content;
                if missing.len() < EMBEDDED_AT_ONCE
                    && view.vector_of(digest, content.arrival)?.is_none()
                {
                    missing.push((content.arrival, text_of(view, content)?));
                }
            }
            Ok::<_, StoreError>(missing)
        })?;
        for batch in missing.chunks(BATCH) {
            let texts: Vec<&str> = batch.iter().map(|(_, text)| text.as_str()).collect();
            let made = model.vectors(&texts).map_err(SearchError::Model)?;
            let arrivals = batch.iter().map(|(arrival, _)| *arrival);
            let rows: Vec<(Seq, Vec<u8>)> =
                arrivals.zip(made.rows.iter().map(|row| to_bytes(row))).collect();
            self.run(move |step| step.keep_vectors(made.model, &rows)).wait()?;
        }
        Ok(())
    }
}

/// The items that a session sees: its own, then the shared ones, each by key.
fn candidates(state: &State, own: &Namespace) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for (shared, scope) in [(false, own.scope), (true, Scope::Shared)] {
        let mut items: Vec<_> = visible_items(state, own, shared).collect();
        items.sort_unstable_by_key(|item| item.key);
        candidates.extend(items.into_iter().map(|item| Candidate {
            scope,
            key: item.key.clone(),
            version: item.version,
        }));
    }
    candidates
}

fn is_in(forms: &[CanonicalText], phrase: &CanonicalText) -> bool {
    forms.iter().any(|form| form.find(phrase).is_some())
}

fn text_of(view: View<'_>, content: ContentRef) -> Result<String, StoreError> {
    Ok(String::from_utf8_lossy(&view.content(content)?).into_owned())
}
