//! Bytes on their way in: hashed while they are written to a file that has no name until all is right.
//!
//! Everything that enters the models folder or the data folder passes here, whether it comes over the
//! network, out of an archive or from a local file. The file is without a name (Linux) or already deleted
//! (elsewhere on Unix) while bytes arrive, so whatever ends the program leaves nothing behind.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use sha2::Digest as _;

use crate::sha256::Sha256;

/// What the bytes must be.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedFile {
    sha256: Option<Sha256>,
    bytes: Option<u64>,
    max_bytes: u64,
}

impl ExpectedFile {
    /// Exactly the file with this hash and length in bytes.
    pub fn pinned(sha256: Sha256, bytes: u64) -> Self {
        Self { sha256: Some(sha256), bytes: Some(bytes), max_bytes: bytes }
    }

    /// Any file of at most `max_bytes`, with this hash if one is known.
    pub fn at_most(max_bytes: u64, sha256: Option<Sha256>) -> Self {
        Self { sha256, bytes: None, max_bytes }
    }

    /// Whether all that a reader gives is that.
    ///
    /// # Errors
    /// What the reader says.
    pub fn holds_for(&self, from: &mut dyn Read) -> io::Result<bool> {
        let (sha256, bytes) = hash_of(from)?;
        let as_long = self.bytes.map_or(bytes <= self.max_bytes, |expected| expected == bytes);
        Ok(as_long && self.sha256.is_none_or(|expected| expected == sha256))
    }

    /// How many bytes there will be, if that is known.
    pub fn bytes(&self) -> Option<u64> {
        self.bytes
    }
}

/// Why bytes were not taken. Nothing of them is left.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// They differ from what was pinned.
    #[error("its SHA-256 is `{found}`, not `{expected}` as pinned; do not use this copy")]
    Hash {
        /// As pinned.
        expected: Sha256,
        /// As received.
        found: Sha256,
    },
    /// They ended early.
    #[error("it was cut off after {found} of {expected} bytes; try again")]
    CutOff {
        /// As pinned.
        expected: u64,
        /// As received.
        found: u64,
    },
    /// They did not end.
    #[error("it is longer than {limit} bytes; do not use this copy")]
    TooLong {
        /// The most that is taken.
        limit: u64,
    },
    /// The source failed.
    #[error("it could not be read to its end")]
    Read(#[source] io::Error),
    /// The disk failed.
    #[error("could not write to `{path}`; is the disk full?")]
    Write {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
}

impl ReceiveError {
    /// For `map_err` on something written to `path`.
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Write { path: path.into(), cause }
    }
}

/// A file that arrived whole and is what was expected, and has no name yet. Dropped, it is gone.
#[derive(Debug)]
pub struct ReceivedFile {
    file: File,
    sha256: Sha256,
    bytes: u64,
}

impl ReceivedFile {
    /// Takes all of `from` into a nameless file on the disk of `folder`, which exists. `progress` is told
    /// the bytes taken so far.
    ///
    /// # Errors
    /// [`ReceiveError`]: it is not what was expected, or reading or writing failed.
    pub fn receive(
        from: &mut dyn Read,
        folder: &Path,
        expected: &ExpectedFile,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, ReceiveError> {
        let mut file = tempfile::tempfile_in(folder).map_err(ReceiveError::write(folder))?;
        let (sha256, bytes) = copy(from, &mut file, folder, expected, progress)?;
        Ok(Self { file, sha256, bytes })
    }

    /// The hash of the bytes.
    pub fn sha256(&self) -> Sha256 {
        self.sha256
    }

    /// How many bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its file, from the beginning.
    ///
    /// # Errors
    /// [`ReceiveError::Read`] when the file cannot be sought in.
    pub fn into_file(mut self) -> Result<File, ReceiveError> {
        self.file.rewind().map_err(ReceiveError::Read)?;
        Ok(self.file)
    }

    /// Gives it the name `path`, at once and durably: whoever looks sees the old file or the whole new one.
    /// The folder of `path` exists.
    ///
    /// # Errors
    /// [`ReceiveError::Write`] when the disk does not take it; then `path` is as it was.
    pub fn put(self, path: &Path) -> Result<(), ReceiveError> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut named = named_in(folder).map_err(ReceiveError::write(path))?;
        let mut file = self.into_file()?;
        io::copy(&mut file, named.as_file_mut())
            .and_then(|_| named.as_file().sync_all())
            .map_err(ReceiveError::write(path))?;
        named.persist(path).map_err(|error| ReceiveError::write(path)(error.error))?;
        sync_folder(folder).map_err(ReceiveError::write(path))
    }
}

/// What the names of half-written files and folders begin with.
pub(crate) const PARTIAL: &str = ".custody-partial-";

/// A file that others may read, as any file of a shared folder.
pub(crate) fn named_in(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PARTIAL);
    #[cfg(unix)]
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    #[cfg(unix)]
    builder.permissions(readable);
    builder.tempfile_in(folder)
}

/// Makes the names in a folder durable. Only Unix has this.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// The hash and length of all that a reader gives.
///
/// # Errors
/// What the reader says.
pub fn hash_of(from: &mut dyn Read) -> io::Result<(Sha256, u64)> {
    let mut running = sha2::Sha256::new();
    let (mut buffer, mut bytes) = (vec![0; BUFFER], 0);
    loop {
        let taken = read_some(from, &mut buffer)?;
        if taken.is_empty() {
            return Ok((Sha256::finish(running), bytes));
        }
        running.update(taken);
        bytes += taken.len() as u64;
    }
}

const BUFFER: usize = 256 * 1024;

fn copy(
    from: &mut dyn Read,
    to: &mut dyn Write,
    path: &Path,
    expected: &ExpectedFile,
    progress: &mut dyn FnMut(u64),
) -> Result<(Sha256, u64), ReceiveError> {
    let mut running = sha2::Sha256::new();
    let (mut buffer, mut bytes) = (vec![0; BUFFER], 0);
    loop {
        let taken = match read_some(from, &mut buffer) {
            Ok(taken) => taken,
            Err(cause) => return Err(cut_off(expected, bytes, cause)),
        };
        if taken.is_empty() {
            break;
        }
        bytes += taken.len() as u64;
        if bytes > expected.max_bytes {
            return Err(ReceiveError::TooLong { limit: expected.max_bytes });
        }
        running.update(taken);
        to.write_all(taken).map_err(ReceiveError::write(path))?;
        progress(bytes);
    }
    to.flush().map_err(ReceiveError::write(path))?;
    let sha256 = Sha256::finish(running);
    match expected.bytes {
        Some(expected) if bytes < expected => {
            return Err(ReceiveError::CutOff { expected, found: bytes });
        }
        Some(_) | None => {}
    }
    match expected.sha256 {
        Some(expected) if expected != sha256 => Err(ReceiveError::Hash { expected, found: sha256 }),
        Some(_) | None => Ok((sha256, bytes)),
    }
}

fn read_some<'buffer>(from: &mut dyn Read, buffer: &'buffer mut [u8]) -> io::Result<&'buffer [u8]> {
    loop {
        match from.read(buffer) {
            Ok(length) => return Ok(buffer.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// A connection that closes early is a file cut off, whichever way the source puts it.
fn cut_off(expected: &ExpectedFile, found: u64, cause: io::Error) -> ReceiveError {
    match expected.bytes {
        Some(expected) if cause.kind() == io::ErrorKind::UnexpectedEof => {
            ReceiveError::CutOff { expected, found }
        }
        Some(_) | None => ReceiveError::Read(cause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(bytes: &[u8], expected: &ExpectedFile) -> (String, usize) {
        let folder = tempfile::tempdir().unwrap();
        let got = ReceivedFile::receive(&mut &bytes[..], folder.path(), expected, &mut |_| {});
        let said = match got {
            Ok(incoming) => format!("{} bytes", incoming.bytes()),
            Err(error) => error.to_string(),
        };
        (said, std::fs::read_dir(folder.path()).unwrap().count())
    }

    #[test]
    fn only_exactly_the_pinned_bytes_are_taken_and_nothing_else_leaves_a_file() {
        let pinned = ExpectedFile::pinned(Sha256::of(b"weights"), 7);
        let limited = ExpectedFile::at_most(7, None);
        let cases: [(&[u8], &ExpectedFile, &str); 6] = [
            (b"weights", &pinned, "7 bytes"),
            (b"weighty", &pinned, "its SHA-256 is"),
            (b"weigh", &pinned, "it was cut off after 5 of 7 bytes"),
            (b"weights!", &pinned, "it is longer than 7 bytes"),
            (b"other", &limited, "5 bytes"),
            (b"too long", &limited, "it is longer than 7 bytes"),
        ];
        for (bytes, expected, said) in cases {
            let (found, files) = receive(bytes, expected);
            assert!(found.starts_with(said), "{found}");
            assert_eq!(files, 0, "{said}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_said() {
        let mut full = File::options().write(true).open("/dev/full").unwrap();
        let path = Path::new("/dev/full");
        let limit = ExpectedFile::at_most(10, None);
        let error = copy(&mut &b"weights"[..], &mut full, path, &limit, &mut |_| {}).unwrap_err();
        assert_eq!(error.to_string(), "could not write to `/dev/full`; is the disk full?");
    }

    #[test]
    fn a_file_gets_its_name_whole_and_replaces_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights");
        std::fs::write(&path, "old").unwrap();
        let any = ExpectedFile::at_most(100, None);
        let new =
            ReceivedFile::receive(&mut &b"new"[..], folder.path(), &any, &mut |_| {}).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        new.put(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
