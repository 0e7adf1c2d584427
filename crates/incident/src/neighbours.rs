//! Neighbours: texts by what they are about. Vectors are indexed after the fact and scanned exactly, one tenant at a
//! time.
//!
//! Whose a text is says the record, never the row of its vector: a row put there by somebody else cannot surface in
//! another tenant (MON §8.3). A text that is not indexed yet is *not searched*, and the answer says so.

use custody_kernel::namespace::Tenant;
use custody_kernel::score::Score;
use custody_log::{Digest, Seq};
use custody_models::Embedder;
use custody_runtime::store::View;

use crate::IncidentError;
use crate::search::arrival;
use crate::store::Incidents;

/// How many texts are embedded at once.
const BATCH: usize = 64;

/// From which similarity on a text counts as evidence: every neighbour at least as near, not the nearest few.
pub const SIMILAR: f64 = 0.75;

/// A model that makes vectors, with the name that its vectors are kept under.
#[derive(Clone, Copy)]
pub struct Vectors<'a> {
    /// The model.
    pub embedder: &'a dyn Embedder,
    /// What it is: vectors of two models are never compared.
    pub model: Digest,
}

/// A text that is near.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// The entry with which it arrived.
    pub entry: Seq,
    /// How near: the cosine, 0 where it is negative.
    pub similarity: Score,
}

/// What a search by similarity found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// The nearest first.
    pub found: Vec<Neighbour>,
    /// Texts that have no vector yet, and so were not searched.
    pub not_searched: u64,
}

impl Incidents<'_> {
    /// Makes the vectors that are missing. `progress` is told how many texts are done, and of how many.
    ///
    /// # Errors
    /// When the model fails, or the store cannot be written.
    pub fn index_vectors(
        &self,
        vectors: Vectors<'_>,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(), IncidentError> {
        let missing = self.store.look(|view| view.without_vector(vectors.model))?;
        let total = missing.len() as u64;
        let mut done = 0;
        for batch in missing.chunks(BATCH) {
            let texts = self.store.look(|view| texts(view, batch))?;
            let said: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
            let made = vectors.embedder.embed(&said).map_err(failed)?;
            let rows: Vec<(Seq, Vec<u8>)> =
                texts.iter().map(|(seq, _)| *seq).zip(made.iter().map(|one| bytes(one))).collect();
            let model = vectors.model;
            self.store.run(move |step| step.keep_vectors(model, &rows)).wait()?;
            done += batch.len() as u64;
            progress(done, total);
        }
        Ok(())
    }

    /// How many texts have no vector of this model yet.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn vectors_missing(&self, model: Digest) -> Result<u64, IncidentError> {
        self.store.look(|view| Ok(view.without_vector(model)?.len() as u64))
    }

    /// The texts of `tenant` that anybody there can retrieve and that are at least as near to `text` as `least`.
    /// What is in quarantine is not among them. Exact; linear in the tenant's vectors.
    ///
    /// # Errors
    /// When the model fails, or the store cannot be read.
    pub fn neighbours(
        &self,
        vectors: Vectors<'_>,
        tenant: &Tenant,
        text: &str,
        least: f64,
    ) -> Result<Neighbours, IncidentError> {
        let sought = embed(vectors, text)?;
        self.store.look(|view| {
            let state = view.state();
            let is_theirs =
                |entry: Seq| state.tenant_of(entry) == Some(tenant) && !state.is_out(entry);
            scan(view, vectors.model, &sought, least, is_theirs)
        })
    }

    /// The same over every tenant, and in quarantine too: for evidence.
    pub(crate) fn all_neighbours(
        &self,
        vectors: Vectors<'_>,
        text: &str,
        least: f64,
    ) -> Result<Neighbours, IncidentError> {
        let sought = embed(vectors, text)?;
        self.store.look(|view| {
            let is_text = |entry: Seq| !view.state().is_of_recovery(entry);
            scan(view, vectors.model, &sought, least, is_text)
        })
    }
}

pub(crate) fn embed(vectors: Vectors<'_>, text: &str) -> Result<Vec<f32>, IncidentError> {
    let made = vectors.embedder.embed(&[text]).map_err(failed)?;
    Ok(made.into_iter().next().unwrap_or_default())
}

pub(crate) fn failed(cause: custody_models::ModelError) -> IncidentError {
    IncidentError::Similarity(Box::new(cause))
}

fn texts(view: View<'_>, entries: &[Seq]) -> Result<Vec<(Seq, String)>, IncidentError> {
    let mut found = Vec::new();
    for entry in entries {
        let record = view.record(*entry)?;
        let Some(content) = arrival(&record) else { continue };
        if let Some(bytes) = view.any_content(content)? {
            found.push((*entry, String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    Ok(found)
}

pub(crate) fn scan(
    view: View<'_>,
    model: Digest,
    sought: &[f32],
    least: f64,
    is_searched: impl Fn(Seq) -> bool,
) -> Result<Neighbours, IncidentError> {
    let mut neighbours = Neighbours::default();
    view.each_vector(model, |entry, vector| {
        let cosine = cosine(sought, vector);
        if cosine >= least && is_searched(entry) {
            let similarity = Score::at_most_one(cosine.max(0.0));
            neighbours.found.push(Neighbour { entry, similarity });
        }
    })?;
    neighbours.found.sort_by_key(|near| (std::cmp::Reverse(near.similarity), near.entry));
    let without = view.without_vector(model)?;
    neighbours.not_searched =
        without.into_iter().filter(|entry| is_searched(*entry)).count() as u64;
    Ok(neighbours)
}

/// Both have length 1. A vector of another length is no neighbour of anything.
fn cosine(sought: &[f32], stored: &[u8]) -> f64 {
    if stored.len() != sought.len() * 4 {
        return -1.0;
    }
    let numbers =
        stored.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap_or_default()));
    numbers.zip(sought).map(|(one, other)| f64::from(one) * f64::from(*other)).sum()
}

fn bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|number| number.to_le_bytes()).collect()
}
