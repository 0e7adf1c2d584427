//! At rest: whether the files of a store still hold what was destroyed.
//!
//! The raw bytes are searched for every run of [`WINDOW`] bytes of the destroyed texts, whatever page, log or free
//! space they stand in. A run that a kept text holds as well is no residue: nobody can tell whose it is. Nor is one
//! that a record holds, such as an id, or the address that a text came from: records stay.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use custody_log::Seq;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::act::Destroyed;
use crate::store::{Store, StoreError};

/// How long a run is, in bytes.
pub const WINDOW: usize = 32;

/// How much of a file is read at once, in bytes.
const CHUNK: usize = 1 << 20;

/// What the search found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtRest {
    /// The files that were searched, with their sizes in bytes.
    pub files: Vec<(PathBuf, u64)>,
    /// How many runs were looked for.
    pub windows: u64,
    /// Texts that are shorter than a run, and so were not looked for.
    pub too_short: u64,
    /// What is left, by file.
    pub residue: Vec<Residue>,
}

/// Runs of destroyed texts that a file still holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Residue {
    /// The file.
    pub file: PathBuf,
    /// How many different runs.
    pub windows: u64,
    /// The entries that said them, ascending.
    pub entries: Vec<Seq>,
}

impl Store {
    /// Searches every file of the store for what was destroyed. Linear in the files.
    ///
    /// # Errors
    /// When a file cannot be read: what cannot be searched is not known to be clean.
    pub fn search_at_rest(&self, destroyed: &[Destroyed]) -> Result<AtRest, StoreError> {
        let sought = Sought::of(destroyed);
        let mut report = AtRest {
            windows: sought.places.len() as u64,
            too_short: destroyed.iter().filter(|text| text.bytes.len() < WINDOW).count() as u64,
            ..AtRest::default()
        };
        let mut hits: Vec<(PathBuf, HashSet<u64>)> = Vec::new();
        for path in self.files()? {
            let (bytes, found) = sought.in_file(&path)?;
            report.files.push((path.clone(), bytes));
            if !found.is_empty() {
                hits.push((path, found));
            }
        }
        if hits.is_empty() {
            return Ok(report);
        }
        let all: HashSet<u64> = hits.iter().flat_map(|(_, found)| found).copied().collect();
        let kept = self.read(|connection, _| sought.in_what_is_kept(connection, &all))?;
        for (file, found) in hits {
            let left: Vec<u64> = found.difference(&kept).copied().collect();
            if !left.is_empty() {
                let (windows, entries) = (left.len() as u64, sought.entries(&left));
                report.residue.push(Residue { file, windows, entries });
            }
        }
        Ok(report)
    }

    /// The database with whatever SQLite keeps beside it.
    fn files(&self) -> Result<Vec<PathBuf>, StoreError> {
        let name = self.path().file_name().unwrap_or_default().as_encoded_bytes().to_vec();
        let folder = self.path().parent().unwrap_or_else(|| Path::new("."));
        let failed = |cause| StoreError::File { doing: "list", path: folder.to_path_buf(), cause };
        let mut files = Vec::new();
        for file in std::fs::read_dir(folder).map_err(failed)? {
            let file = file.map_err(failed)?;
            let is_ours = file.file_name().as_encoded_bytes().starts_with(&name);
            if is_ours && file.file_type().map_err(failed)?.is_file() {
                files.push(file.path());
            }
        }
        files.sort();
        Ok(files)
    }
}

/// The runs that are looked for, by a rolling hash.
struct Sought<'a> {
    texts: &'a [Destroyed],
    /// Where each run stands first: the text, and the place in it.
    places: HashMap<u64, (usize, usize)>,
    /// Some bits of every hash that is looked for, so that nearly every other place is passed over at once.
    filter: Vec<u64>,
}

/// A polynomial over bytes, modulo 2⁶⁴. That two runs can be given the same hash does no harm: bytes are compared.
const BASE: u64 = 0x9E37_79B9_7F4A_7C15;
const FILTER_BITS: u32 = 24;

impl<'a> Sought<'a> {
    fn of(texts: &'a [Destroyed]) -> Self {
        let mut places = HashMap::new();
        for (number, text) in texts.iter().enumerate() {
            roll(&text.bytes, |at, hash| {
                places.entry(hash).or_insert((number, at));
            });
        }
        let mut filter = vec![0; 1 << (FILTER_BITS - 6)];
        for hash in places.keys() {
            if let Some(word) = filter.get_mut(word_of(*hash)) {
                *word |= 1 << bit_of(*hash);
            }
        }
        Self { texts, places, filter }
    }

    /// The entries that said these runs first, ascending.
    fn entries(&self, hashes: &[u64]) -> Vec<Seq> {
        let places = hashes.iter().filter_map(|hash| self.places.get(hash));
        let said = places.filter_map(|(number, _)| Some(self.texts.get(*number)?.entry));
        said.collect::<BTreeSet<Seq>>().into_iter().collect()
    }

    /// The hashes of the runs that stand in `bytes`.
    fn find(&self, bytes: &[u8], found: &mut HashSet<u64>) {
        roll(bytes, |at, hash| {
            let word = self.filter.get(word_of(hash)).copied().unwrap_or_default();
            if word >> bit_of(hash) & 1 == 1
                && self.places.get(&hash).is_some_and(|place| self.is_at(*place, bytes, at))
            {
                found.insert(hash);
            }
        });
    }

    fn is_at(&self, (number, from): (usize, usize), bytes: &[u8], at: usize) -> bool {
        let text = self.texts.get(number).and_then(|text| text.bytes.get(from..from + WINDOW));
        text.is_some() && text == bytes.get(at..at + WINDOW)
    }

    fn in_file(&self, path: &Path) -> Result<(u64, HashSet<u64>), StoreError> {
        let failed = |cause| StoreError::File { doing: "search", path: path.into(), cause };
        let mut file = File::open(path).map_err(failed)?;
        let (mut found, mut total) = (HashSet::new(), 0);
        let mut buffer = vec![0; CHUNK + WINDOW];
        let mut held = 0;
        loop {
            let free = buffer.get_mut(held..).unwrap_or_default();
            let read = file.read(free).map_err(failed)?;
            if read == 0 {
                return Ok((total, found));
            }
            total += read as u64;
            let filled = held + read;
            self.find(buffer.get(..filled).unwrap_or_default(), &mut found);
            // A run may begin here and end in what is read next.
            held = filled.min(WINDOW - 1);
            buffer.copy_within(filled - held..filled, 0);
        }
    }

    /// Those of `hits` that a kept text holds too, or a record.
    fn in_what_is_kept(
        &self,
        connection: &Connection,
        hits: &HashSet<u64>,
    ) -> Result<HashSet<u64>, StoreError> {
        let mut kept = HashSet::new();
        for query in ["SELECT bytes FROM contents", "SELECT record FROM log"] {
            let mut select = connection.prepare(query)?;
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                if let Ok(bytes) = row.get_ref(0)?.as_blob() {
                    self.find(bytes, &mut kept);
                }
            }
        }
        kept.retain(|hash| hits.contains(hash));
        Ok(kept)
    }
}

/// Calls `visit` with every place in `bytes` where a run begins, and the run's hash.
fn roll(bytes: &[u8], mut visit: impl FnMut(usize, u64)) {
    let Some(first) = bytes.get(..WINDOW) else { return };
    let add = |hash: u64, byte: u8| hash.wrapping_mul(BASE).wrapping_add(u64::from(byte) + 1);
    let leaving = (0..WINDOW).fold(1_u64, |power, _| power.wrapping_mul(BASE));
    let mut hash = first.iter().fold(0, |hash, byte| add(hash, *byte));
    visit(0, hash);
    for (at, (old, new)) in bytes.iter().zip(bytes.iter().skip(WINDOW)).enumerate() {
        hash = add(hash, *new).wrapping_sub((u64::from(*old) + 1).wrapping_mul(leaving));
        visit(at + 1, hash);
    }
}

fn word_of(hash: u64) -> usize {
    usize::try_from(hash >> (64 - FILTER_BITS) >> 6).unwrap_or_default()
}

const fn bit_of(hash: u64) -> u64 {
    hash >> (64 - FILTER_BITS) & 63
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;

    #[test]
    fn every_run_of_a_text_is_found_wherever_it_stands() {
        let text: Vec<u8> = (0..100_u8).map(|n| n.wrapping_mul(37)).collect();
        let texts = [Destroyed { entry: Seq(0), bytes: Zeroizing::new(text.clone()) }];
        let sought = Sought::of(&texts);
        assert_eq!(sought.places.len(), 100 - WINDOW + 1);
        for (before, part, runs) in
            [(0, 0..100, 69), (CHUNK - 40, 10..60, 19), (5, 50..82, 1), (3, 50..81, 0)]
        {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            std::fs::write(&path, [vec![7; before], text[part].to_vec(), vec![7; 50]].concat())
                .unwrap();
            let (_, found) = sought.in_file(&path).unwrap();
            assert_eq!(found.len(), runs, "{before}");
        }
    }
}
