//! Neighbours: texts by what they are about. Vectors are indexed after the fact and scanned exactly, one tenant at a
//! time.
//!
//! Whose a text is says the record, never the row of its vector: a row put there by somebody else cannot surface in
//! another tenant (MON §8.3). A text that is not indexed yet is *not searched*, and the answer says so.

use custody_kernel::namespace::Tenant;
use custody_kernel::score::Score;
use custody_log::{Digest, Seq};
use custody_models::Embedder;
use rusqlite::Connection;

use super::RecoveryError;
use super::search::{arrival, readable};
use crate::store::{Ledger, Store, StoreError, read_record};

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

impl Store {
    /// Makes the vectors that are missing. `progress` is told how many texts are done, and of how many.
    ///
    /// # Errors
    /// When the model fails, or the store cannot be written.
    pub fn index_vectors(
        &self,
        vectors: Vectors<'_>,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(), StoreError> {
        let missing = self.read(|connection, ledger| missing(connection, ledger, vectors.model))?;
        let total = missing.len() as u64;
        let mut done = 0;
        for batch in missing.chunks(BATCH) {
            let texts = self.read(|connection, ledger| texts(connection, ledger, batch))?;
            let said: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
            let made = vectors.embedder.embed(&said).map_err(failed)?;
            let rows: Vec<(Seq, Vec<u8>)> =
                texts.iter().map(|(seq, _)| *seq).zip(made.iter().map(|one| bytes(one))).collect();
            let model = vectors.model;
            self.run(move |step| step.keep_vectors(model, &rows)).wait()?;
            done += batch.len() as u64;
            progress(done, total);
        }
        Ok(())
    }

    /// How many texts have no vector of this model yet.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(super) fn vectors_missing(&self, model: Digest) -> Result<u64, StoreError> {
        self.read(|connection, ledger| Ok(missing(connection, ledger, model)?.len() as u64))
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
    ) -> Result<Neighbours, StoreError> {
        let sought = embed(vectors, text)?;
        self.read(|connection, ledger| {
            let state = ledger.state();
            let is_theirs =
                |entry: Seq| state.tenant_of(entry) == Some(tenant) && !state.is_out(entry);
            scan(connection, ledger, vectors.model, &sought, least, is_theirs)
        })
    }

    /// The same over every tenant, and in quarantine too: for evidence.
    pub(super) fn all_neighbours(
        &self,
        vectors: Vectors<'_>,
        text: &str,
        least: f64,
    ) -> Result<Neighbours, StoreError> {
        let sought = embed(vectors, text)?;
        self.read(|connection, ledger| {
            let is_text = |entry: Seq| !ledger.state().is_of_recovery(entry);
            scan(connection, ledger, vectors.model, &sought, least, is_text)
        })
    }
}

pub(super) fn embed(vectors: Vectors<'_>, text: &str) -> Result<Vec<f32>, StoreError> {
    let made = vectors.embedder.embed(&[text]).map_err(failed)?;
    Ok(made.into_iter().next().unwrap_or_default())
}

pub(super) fn failed(cause: custody_models::ModelError) -> StoreError {
    RecoveryError::Similarity(Box::new(cause)).into()
}

/// The arrivals of texts that have no vector of this model.
fn missing(
    connection: &Connection,
    ledger: &Ledger,
    model: Digest,
) -> Result<Vec<Seq>, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT arrival FROM contents WHERE arrival NOT IN \
         (SELECT arrival FROM vectors WHERE model = ?1) ORDER BY arrival",
    )?;
    let rows = select.query_map([model.0], |row| row.get::<_, i64>(0))?;
    let mut found = Vec::new();
    for row in rows {
        let seq = Seq(u64::try_from(row?).unwrap_or(u64::MAX));
        if seq.0 < ledger.len() && !ledger.state().is_of_recovery(seq) {
            found.push(seq);
        }
    }
    Ok(found)
}

fn texts(
    connection: &Connection,
    ledger: &Ledger,
    entries: &[Seq],
) -> Result<Vec<(Seq, String)>, StoreError> {
    let mut found = Vec::new();
    for entry in entries {
        let record = read_record(connection, ledger, *entry)?;
        let Some(content) = arrival(&record) else { continue };
        if let Some(bytes) = readable(connection, ledger, content)? {
            found.push((*entry, String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    Ok(found)
}

pub(super) fn scan(
    connection: &Connection,
    ledger: &Ledger,
    model: Digest,
    sought: &[f32],
    least: f64,
    is_searched: impl Fn(Seq) -> bool,
) -> Result<Neighbours, StoreError> {
    let mut select =
        connection.prepare_cached("SELECT arrival, vector FROM vectors WHERE model = ?1")?;
    let mut rows = select.query([model.0])?;
    let mut neighbours = Neighbours::default();
    while let Some(row) = rows.next()? {
        let entry = Seq(u64::try_from(row.get::<_, i64>(0)?).unwrap_or(u64::MAX));
        if entry.0 >= ledger.len() || !is_searched(entry) {
            continue;
        }
        let vector: Vec<u8> = row.get(1)?;
        let cosine = cosine(sought, &vector);
        if cosine >= least {
            let similarity = Score::at_most_one(cosine.max(0.0));
            neighbours.found.push(Neighbour { entry, similarity });
        }
    }
    neighbours.found.sort_by_key(|near| (std::cmp::Reverse(near.similarity), near.entry));
    let without = missing(connection, ledger, model)?;
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
