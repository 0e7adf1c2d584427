//! Sentence vectors, each computed once: a corpus is embedded for minutes and fitted for seconds.
//!
//! The file `<first digits of the model's digest>.vectors` holds records of one length: the SHA-256 of a
//! text, its vector as little-endian `f32`, and the first four bytes of the SHA-256 of both. A record that was
//! cut off or changed is not believed, and its text is embedded again.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use custody_models::{Embedder, ModelError};
use sha2::{Digest as _, Sha256};

/// How many texts are embedded before their vectors are kept.
const BATCH: usize = 256;
const KEY: usize = 32;
const CHECK: usize = 4;

/// Vectors that cannot be made or kept.
#[derive(Debug, thiserror::Error)]
pub enum VectorsError {
    /// The model failed.
    #[error("a text could not be embedded")]
    Model(#[from] ModelError),
    /// The file failed.
    #[error("could not keep vectors in `{path}`; name another folder with --cache")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: io::Error,
    },
}

type Key = [u8; KEY];

/// An embedder with a memory. As an [`Embedder`] it answers from memory what it can.
pub struct CachedEmbedder {
    embedder: Arc<dyn Embedder>,
    digest: String,
    file: Option<PathBuf>,
    known: Mutex<BTreeMap<Key, Vec<f32>>>,
}

impl CachedEmbedder {
    /// Reads what `folder` holds of the model with this `digest`; without a folder nothing outlives it.
    ///
    /// # Errors
    /// [`VectorsError::File`].
    pub fn open(
        embedder: Arc<dyn Embedder>,
        digest: &str,
        folder: Option<&Path>,
    ) -> Result<Self, VectorsError> {
        let mut known = BTreeMap::new();
        let mut file = None;
        if let Some(folder) = folder {
            let path = folder.join(format!("{}.vectors", digest.get(..16).unwrap_or(digest)));
            let opened = std::fs::create_dir_all(folder)
                .and_then(|()| read(&path, embedder.dimension(), &mut known));
            opened.map_err(|cause| VectorsError::File { path: path.clone(), cause })?;
            file = Some(path);
        }
        Ok(Self { embedder, digest: digest.to_owned(), file, known: Mutex::new(known) })
    }

    /// Embeds those of `texts` that are not known, and keeps them. `progress` is told how many of how many.
    ///
    /// # Errors
    /// [`VectorsError`]. What was kept until then stays.
    pub fn learn(
        &self,
        texts: &[&str],
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<(), VectorsError> {
        let mut missing: BTreeMap<Key, &str> = BTreeMap::new();
        {
            let known = self.known();
            let keyed = texts.iter().map(|text| (key(text), *text));
            missing.extend(keyed.filter(|(key, _)| !known.contains_key(key)));
        }
        let missing: Vec<(Key, &str)> = missing.into_iter().collect();
        for (batch, some) in missing.chunks(BATCH).enumerate() {
            progress(batch * BATCH, missing.len());
            let texts: Vec<&str> = some.iter().map(|(_, text)| *text).collect();
            let vectors = self.embedder.embed(&texts)?;
            let learned: Vec<(Key, Vec<f32>)> =
                some.iter().map(|(key, _)| *key).zip(vectors).collect();
            self.keep(&learned)?;
            self.known().extend(learned);
        }
        progress(missing.len(), missing.len());
        Ok(())
    }

    /// The digest of the model.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The embedder that remembers nothing.
    pub fn without_memory(&self) -> Arc<dyn Embedder> {
        Arc::clone(&self.embedder)
    }

    fn keep(&self, learned: &[(Key, Vec<f32>)]) -> Result<(), VectorsError> {
        let Some(path) = &self.file else { return Ok(()) };
        let bytes: Vec<u8> = learned.iter().flat_map(|(key, vector)| record(key, vector)).collect();
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.and_then(|mut file| file.write_all(&bytes))
            .map_err(|cause| VectorsError::File { path: path.clone(), cause })
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<Key, Vec<f32>>> {
        // A map that a panicking thread was filling still holds whole vectors only.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Embedder for CachedEmbedder {
    fn dimension(&self) -> usize {
        self.embedder.dimension()
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ModelError> {
        let found: Vec<Option<Vec<f32>>> = {
            let known = self.known();
            texts.iter().map(|text| known.get(&key(text)).cloned()).collect()
        };
        let missing: Vec<&str> = texts
            .iter()
            .zip(&found)
            .filter(|(_, vector)| vector.is_none())
            .map(|(t, _)| *t)
            .collect();
        let mut embedded = self.embedder.embed(&missing)?.into_iter();
        Ok(found.into_iter().filter_map(|vector| vector.or_else(|| embedded.next())).collect())
    }
}

fn key(text: &str) -> Key {
    Sha256::digest(text.as_bytes()).into()
}

fn record(key: &Key, vector: &[f32]) -> Vec<u8> {
    let mut bytes = key.to_vec();
    bytes.extend(vector.iter().flat_map(|value| value.to_le_bytes()));
    let check = Sha256::digest(&bytes);
    bytes.extend_from_slice(&check[..CHECK]);
    bytes
}

/// Reads whole records into `known`, and cuts off what is left of one that was being written.
fn read(path: &Path, dimension: usize, known: &mut BTreeMap<Key, Vec<f32>>) -> io::Result<()> {
    let bytes = match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read?,
    };
    let length = KEY + 4 * dimension + CHECK;
    for record in bytes.chunks_exact(length) {
        let (body, check) = record.split_at(length - CHECK);
        if !Sha256::digest(body).starts_with(check) {
            continue;
        }
        let (key, values) = body.split_at(KEY);
        let values = values
            .chunks_exact(4)
            .map(|value| f32::from_le_bytes(value.try_into().expect("chunks of four bytes")));
        known.insert(key.try_into().expect("split after a key"), values.collect());
    }
    let rest = bytes.len() % length;
    if rest > 0 {
        OpenOptions::new().write(true).open(path)?.set_len((bytes.len() - rest) as u64)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts what it is asked.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Embedder for Counting {
        fn dimension(&self) -> usize {
            2
        }

        fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ModelError> {
            self.0.fetch_add(texts.len(), Ordering::Relaxed);
            Ok(texts.iter().map(|text| vec![f32::from(text.as_bytes()[0]), 1.0]).collect())
        }
    }

    #[test]
    fn a_text_is_embedded_once_and_a_damaged_record_again() {
        let folder = tempfile::tempdir().expect("there is room");
        let counting = Arc::new(Counting::default());
        let open = || {
            let embedder: Arc<dyn Embedder> = counting.clone();
            CachedEmbedder::open(embedder, "0123456789abcdef00", Some(folder.path()))
                .expect("the folder can be written")
        };
        let asked = || counting.0.load(Ordering::Relaxed);
        open().learn(&["a", "b", "a"], &mut |_, _| {}).expect("it can be kept");
        assert_eq!(asked(), 2, "a repeated text once");
        let again = open();
        assert_eq!(again.embed(&["b", "a"]).expect("known"), [[98.0, 1.0], [97.0, 1.0]]);
        assert_eq!(asked(), 2, "from the file");
        assert_eq!(again.embed(&["b", "c", "a"]).expect("two known").len(), 3);
        assert_eq!(asked(), 3, "only the new one");

        let path = folder.path().join("0123456789abcdef.vectors");
        let mut bytes = std::fs::read(&path).expect("it was written");
        bytes[33] ^= 1;
        bytes.extend_from_slice(b"cut off");
        std::fs::write(&path, &bytes).expect("it can be written");
        open().learn(&["a", "b"], &mut |_, _| {}).expect("it can be kept");
        assert_eq!(asked(), 4, "the damaged one");
        open().learn(&["a", "b"], &mut |_, _| {}).expect("it can be kept");
        assert_eq!(asked(), 4);
    }
}
