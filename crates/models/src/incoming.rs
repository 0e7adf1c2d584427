//! Receives files: hashed while they are written, and named only after they were verified.
//!
//! Every file in the models folder and the data folder is received here, whether it comes over the
//! network, from an archive or from a local file. While bytes arrive, the file has no name (Linux) or is already
//! deleted (elsewhere on Unix), so an aborted program leaves no partial file.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use sha2::Digest as _;

use crate::sha256::Sha256;

/// The requirements on a file.
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

    /// Whether the bytes of a reader meet them.
    ///
    /// # Errors
    /// Those of the reader.
    pub fn holds_for(&self, from: &mut dyn Read) -> io::Result<bool> {
        let (sha256, bytes) = hash_of(from)?;
        let as_long = self.bytes.map_or(bytes <= self.max_bytes, |expected| expected == bytes);
        Ok(as_long && self.sha256.is_none_or(|expected| expected == sha256))
    }

    /// The expected number of bytes, if it is known.
    pub fn bytes(&self) -> Option<u64> {
        self.bytes
    }
}

/// Why a file was not received. No partial file is left.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The digest differs from the pinned one.
    #[error("its SHA-256 is `{found}`, not `{expected}` as pinned; do not use this copy")]
    Hash {
        /// The pinned value.
        expected: Sha256,
        /// The received value.
        found: Sha256,
    },
    /// The file is truncated.
    #[error("it was cut off after {found} of {expected} bytes; try again")]
    CutOff {
        /// The pinned value.
        expected: u64,
        /// The received value.
        found: u64,
    },
    /// The file is too long.
    #[error("it is longer than {limit} bytes; do not use this copy")]
    TooLong {
        /// The limit in bytes.
        limit: u64,
    },
    /// The source failed.
    #[error("it could not be read to its end")]
    Read(#[source] io::Error),
    /// The disk failed.
    #[error("could not write to `{path}`; is the disk full?")]
    Write {
        /// The path.
        path: PathBuf,
        /// The cause.
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

/// A verified file that has no name yet. Dropping it deletes it.
#[derive(Debug)]
pub struct ReceivedFile {
    file: File,
    sha256: Sha256,
    bytes: u64,
}

impl ReceivedFile {
    /// Copies `from` into an unnamed file on the disk of the existing `folder`. `progress` is called with
    /// the number of bytes received so far.
    ///
    /// # Errors
    /// [`ReceiveError`] if it is not the expected file, or reading or writing fails.
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

    /// The SHA-256 digest.
    pub fn sha256(&self) -> Sha256 {
        self.sha256
    }

    /// The length in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The file, positioned at its beginning.
    ///
    /// # Errors
    /// [`ReceiveError::Read`] if seeking fails.
    pub fn into_file(mut self) -> Result<File, ReceiveError> {
        self.file.rewind().map_err(ReceiveError::Read)?;
        Ok(self.file)
    }

    /// Moves it to `path`, atomically and durably: other processes see the old file or the complete new one.
    /// The folder of `path` must exist.
    ///
    /// # Errors
    /// [`ReceiveError::Write`] if that fails; `path` is then unchanged.
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

/// The name prefix of temporary files and folders.
pub(crate) const PARTIAL: &str = ".custody-partial-";

/// Makes a file readable for others, like any file in a shared folder.
pub(crate) fn named_in(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PARTIAL);
    #[cfg(unix)]
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    #[cfg(unix)]
    builder.permissions(readable);
    builder.tempfile_in(folder)
}

/// Makes the directory entries of a folder durable. Only Unix supports this.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// The digest and length of a reader's bytes.
///
/// # Errors
/// Those of the reader.
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

/// Reports a connection that closes early as a truncated file, whatever the source reports.
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
    fn only_the_pinned_bytes_are_accepted_and_failures_leave_no_file() {
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
    fn a_complete_file_replaces_the_old_one() {
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
