//! Neighbours: texts by similarity of their vectors. Vectors are indexed after the texts are recorded and scanned
//! exactly, one tenant at a time.
//!
//! The tenant of a text comes from the record, never from the row of its vector, so a forged row cannot surface in
//! another tenant (MON §8.3). A text that is not indexed yet is *not searched*, and the result counts it.

use custody_kernel::namespace::Tenant;
use custody_kernel::score::Score;
use custody_log::{Digest, Seq};
use custody_models::Embedder;
use custody_runtime::store::View;

use crate::IncidentError;
use crate::arrival::arrival;
use crate::store::Incidents;

/// The number of texts in one call of the embedder.
const BATCH: usize = 64;

/// The least cosine that counts as evidence. Every neighbour at least as near is evidence, not only the nearest few.
pub const SIMILAR: f64 = 0.75;

/// An embedding model, with the name under which its vectors are stored.
#[derive(Clone, Copy)]
pub struct Vectors<'a> {
    /// The embedding model.
    pub embedder: &'a dyn Embedder,
    /// The digest of the model: vectors of two models are never compared.
    pub model: Digest,
}

/// A similar text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// The entry with which the text arrived.
    pub entry: Seq,
    /// The cosine, in [0, 1]; 0 if negative.
    pub similarity: Score,
}

/// The result of a search by similarity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// The neighbours, the nearest first.
    pub found: Vec<Neighbour>,
    /// The number of texts without a vector, which were not searched.
    pub not_searched: u64,
}

impl Incidents<'_> {
    /// Computes the missing vectors. Calls `progress` with the number of texts done and the total.
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
            let inputs: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
            let embedded = vectors.embedder.embed(&inputs).map_err(failed)?;
            let entries = texts.iter().map(|(seq, _)| *seq);
            let rows: Vec<(Seq, Vec<u8>)> =
                entries.zip(embedded.iter().map(|vector| bytes(vector))).collect();
            let model = vectors.model;
            self.store.run(move |step| step.keep_vectors(model, &rows)).wait()?;
            done += batch.len() as u64;
            progress(done, total);
        }
        Ok(())
    }

    /// The number of texts without a vector of this model.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn vectors_missing(&self, model: Digest) -> Result<u64, IncidentError> {
        self.store.look(|view| Ok(view.without_vector(model)?.len() as u64))
    }

    /// The retrievable texts of `tenant` whose cosine to `text` is at least `least`, without those in quarantine.
    /// Exact; linear in the number of vectors.
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
            scan(view, vectors.model, &sought, least, |entry| {
                state.tenant_of(entry) == Some(tenant) && !state.is_out(entry)
            })
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
            scan(view, vectors.model, &sought, least, |entry| !view.state().is_of_recovery(entry))
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

/// The cosine of two vectors of length 1; −1 if their dimensions differ.
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
