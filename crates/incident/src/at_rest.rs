//! At rest: whether the files of a store still contain destroyed texts.
//!
//! The raw bytes are searched for every run of [`WINDOW`] bytes of the destroyed texts, in pages, logs and free
//! space. A run that a kept text contains as well is not residue, because its source is ambiguous. Neither is a run
//! that a record contains, such as an id or the address of a text: records are kept.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use custody_log::Seq;
use custody_runtime::store::{StoreError, View};
use serde::{Deserialize, Serialize};

use crate::act::Destroyed;
use crate::error::IncidentError;
use crate::store::Incidents;

/// The length of a run, in bytes.
pub const WINDOW: usize = 32;

/// The bytes of a file that are read at once.
const CHUNK: usize = 1 << 20;

/// The result of the search.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtRest {
    /// The files that were searched, with their sizes in bytes.
    pub files: Vec<(PathBuf, u64)>,
    /// The number of runs that were searched for.
    pub windows: u64,
    /// The number of texts that are shorter than a run and were not searched for.
    pub too_short: u64,
    /// The residue, by file.
    pub residue: Vec<Residue>,
}

/// Runs of destroyed texts in one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Residue {
    /// The file.
    pub file: PathBuf,
    /// The number of different runs.
    pub windows: u64,
    /// The entries that contained the runs, ascending.
    pub entries: Vec<Seq>,
}

impl Incidents<'_> {
    /// Searches every file of the store for destroyed texts. Linear in the files.
    ///
    /// # Errors
    /// When a file cannot be read. A file that cannot be searched is not known to be clean.
    pub fn search_at_rest(&self, destroyed: &[Destroyed]) -> Result<AtRest, IncidentError> {
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
        let kept = self.store.look(|view| sought.in_what_is_kept(view, &all))?;
        for (file, found) in hits {
            let left: Vec<u64> = found.difference(&kept).copied().collect();
            if !left.is_empty() {
                let (windows, entries) = (left.len() as u64, sought.entries(&left));
                report.residue.push(Residue { file, windows, entries });
            }
        }
        Ok(report)
    }

    /// The database and the files that SQLite keeps beside it.
    fn files(&self) -> Result<Vec<PathBuf>, IncidentError> {
        let name = self.store.path().file_name().unwrap_or_default().as_encoded_bytes().to_vec();
        let folder = self.store.path().parent().unwrap_or_else(|| Path::new("."));
        files_named(folder, &name).map_err(|cause| {
            StoreError::File { doing: "list", path: folder.to_path_buf(), cause }.into()
        })
    }
}

/// The files in `folder` whose names begin with `prefix`, ascending.
fn files_named(folder: &Path, prefix: &[u8]) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for file in std::fs::read_dir(folder)? {
        let file = file?;
        let is_named = file.file_name().as_encoded_bytes().starts_with(prefix);
        if is_named && file.file_type()?.is_file() {
            files.push(file.path());
        }
    }
    files.sort();
    Ok(files)
}

/// The runs to search for, by a rolling hash.
struct Sought<'a> {
    texts: &'a [Destroyed],
    /// The first place of each run: the text, and the offset in it.
    places: HashMap<u64, (usize, usize)>,
    /// A filter over the hashes, which rejects nearly every other place with one look-up.
    filter: Vec<u64>,
}

/// The base of a polynomial over bytes, modulo 2⁶⁴. Collisions are harmless: the bytes are compared.
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

    /// The entries that first contained these runs, ascending.
    fn entries(&self, hashes: &[u64]) -> Vec<Seq> {
        let places = hashes.iter().filter_map(|hash| self.places.get(hash));
        let entries = places.filter_map(|(number, _)| Some(self.texts.get(*number)?.entry));
        entries.collect::<BTreeSet<Seq>>().into_iter().collect()
    }

    /// Adds the hashes of the runs that occur in `bytes`.
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

    /// The size of a file, and the hashes of the runs in it.
    fn in_file(&self, path: &Path) -> Result<(u64, HashSet<u64>), IncidentError> {
        self.search(path)
            .map_err(|cause| StoreError::File { doing: "search", path: path.into(), cause }.into())
    }

    fn search(&self, path: &Path) -> std::io::Result<(u64, HashSet<u64>)> {
        let mut file = File::open(path)?;
        let (mut found, mut total) = (HashSet::new(), 0);
        let mut buffer = vec![0; CHUNK + WINDOW];
        let mut held = 0;
        loop {
            let free = buffer.get_mut(held..).unwrap_or_default();
            let read = file.read(free)?;
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

    /// Those of `hits` that a kept text or a record contains too.
    fn in_what_is_kept(
        &self,
        view: View<'_>,
        hits: &HashSet<u64>,
    ) -> Result<HashSet<u64>, IncidentError> {
        let mut kept = HashSet::new();
        view.each_kept(|bytes| self.find(bytes, &mut kept))?;
        kept.retain(|hash| hits.contains(hash));
        Ok(kept)
    }
}

/// Calls `visit` with the offset and the hash of every run in `bytes`.
fn roll(bytes: &[u8], mut visit: impl FnMut(usize, u64)) {
    let Some(first) = bytes.get(..WINDOW) else { return };
    let leaving = (0..WINDOW).fold(1_u64, |power, _| power.wrapping_mul(BASE));
    let mut hash = first.iter().fold(0, |hash, byte| appended(hash, *byte));
    visit(0, hash);
    for (at, (old, new)) in bytes.iter().zip(bytes.iter().skip(WINDOW)).enumerate() {
        hash = appended(hash, *new).wrapping_sub((u64::from(*old) + 1).wrapping_mul(leaving));
        visit(at + 1, hash);
    }
}

/// The hash of a run with one more byte.
fn appended(hash: u64, byte: u8) -> u64 {
    hash.wrapping_mul(BASE).wrapping_add(u64::from(byte) + 1)
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
