//! Neighbours: texts by similarity of their vectors. Vectors are indexed after the texts are recorded and scanned
//! exactly, one namespace at a time (MON §8.3).
//!
//! Whose a text is comes from the record, never from the row of its vector, so a forged row cannot surface in another
//! namespace. A text that is not indexed yet is *not searched*, and the result counts it if the namespace holds it.

use std::collections::BTreeSet;

use custody_kernel::actions::list::visible_items;
use custody_kernel::namespace::{Namespace, Scope};
use custody_kernel::record::Author;
use custody_kernel::score::Score;
use custody_log::{Digest, Seq};
use custody_models::Embedder;
use custody_runtime::StoreError;
use custody_runtime::store::View;
use custody_runtime::store::vectors::{cosine, to_bytes};

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
                entries.zip(embedded.iter().map(|vector| to_bytes(vector))).collect();
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

    /// The texts that a session of `reader`'s namespace retrieves and whose cosine to `text` is at least `least`: what
    /// arrived in it, and the values of its own and the shared items; of [`Scope::Shared`] the latter alone. Nothing
    /// that is in quarantine. Exact; linear in the number of vectors.
    ///
    /// # Errors
    /// When the model fails, or the store cannot be read.
    pub fn neighbours(
        &self,
        vectors: Vectors<'_>,
        reader: &Namespace,
        text: &str,
        least: f64,
    ) -> Result<Neighbours, IncidentError> {
        let sought = embed(vectors, text)?;
        self.store.look(|view| {
            let partition = Partition::of(view, reader);
            let mut near =
                scan(view, vectors.model, &sought, least, |entry| partition.is_of_tenant(entry))?;
            let mut found = Vec::new();
            for neighbour in near.found {
                if partition.holds(neighbour.entry)? {
                    found.push(neighbour);
                }
            }
            (near.found, near.not_searched) = (found, 0);
            for entry in view.without_vector(vectors.model)? {
                near.not_searched += u64::from(partition.holds(entry)?);
            }
            Ok(near)
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

/// The texts that one namespace retrieves.
struct Partition<'a> {
    view: View<'a>,
    reader: &'a Namespace,
    /// The arrivals of the values of the items that it sees.
    in_items: BTreeSet<Seq>,
}

impl<'a> Partition<'a> {
    fn of(view: View<'a>, reader: &'a Namespace) -> Self {
        let items = [false, true]
            .into_iter()
            .flat_map(|shared| visible_items(view.state(), reader, shared));
        let in_items = items.map(|item| item.version.content.arrival).collect();
        Self { view, reader, in_items }
    }

    fn is_of_tenant(&self, entry: Seq) -> bool {
        let state = self.view.state();
        state.tenant_of(entry) == Some(&self.reader.tenant) && !state.is_out(entry)
    }

    fn holds(&self, entry: Seq) -> Result<bool, StoreError> {
        if !self.is_of_tenant(entry) || self.in_items.contains(&entry) {
            return Ok(self.is_of_tenant(entry));
        }
        match (self.reader.scope, self.view.record(entry)?.by) {
            (Scope::Session(session), Author::Session(author)) => Ok(session == author),
            (Scope::Shared, Author::Session(_)) | (_, Author::Principal(_)) => Ok(false),
        }
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
