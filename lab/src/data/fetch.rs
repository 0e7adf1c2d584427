//! How data comes here: originals over the network, normalised files from a copy.
//!
//! Most normalised files were made from their originals by steps that are not repeated here, because
//! nothing would prove the repetition but the very file it makes. Fetching therefore brings the originals,
//! verified, and makes those files that equal one of them; the others are copied from a folder that has
//! them, each checked against its hash first.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use custody_models::fetch::Fetcher;
use custody_models::folders::CreatedFolders;
use custody_models::incoming::{ExpectedFile, ReceiveError, ReceivedFile};
use custody_models::install::{InstallProgress, ProgressCallback};

use super::error::DataError;
use super::folder::{DataFileState, DataFolder};
use super::pins::{DataPin, Original};

/// The public server of raw files: a file is at `SERVER/OWNER/NAME/COMMIT/PATH`.
pub const ORIGINALS: &str = "https://raw.githubusercontent.com";

/// What a fetch brought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FetchedData {
    /// Originals that came now.
    pub fetched: usize,
    /// Originals that were here.
    pub here: usize,
    /// Originals that stand for several files and are not fetched.
    pub left_out: usize,
    /// Normalised files made from originals now.
    pub made: Vec<String>,
    /// Normalised files still absent or wrong: only a copy brings them.
    pub missing: Vec<String>,
}

/// What an import brought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportedData {
    /// Copied.
    pub copied: Vec<String>,
    /// Not in the folder copied from.
    pub absent: Vec<String>,
}

impl DataFolder {
    /// Brings the originals of `pins` from `server` into `original/OWNER/NAME/COMMIT/PATH`, each verified
    /// before it gets its name, and makes the normalised files that equal one of them.
    ///
    /// # Errors
    /// [`DataError::Fetch`] or [`DataError::Write`]. What arrived before stays; of what failed nothing does.
    pub fn fetch(
        &self,
        pins: &[&DataPin],
        server: &str,
        fetcher: &Fetcher,
        watch: ProgressCallback<'_>,
    ) -> Result<FetchedData, DataError> {
        let originals: BTreeSet<&Original> = pins.iter().flat_map(|pin| &pin.originals).collect();
        let mut report = FetchedData::default();
        let of = originals.iter().filter(|original| original.bytes.is_some()).count();
        for original in originals {
            let Some(bytes) = original.bytes else {
                report.left_out += 1;
                continue;
            };
            let expected = ExpectedFile::pinned(original.sha256, bytes);
            let path = self.original(original);
            if is_already(&path, &expected)? {
                report.here += 1;
                continue;
            }
            let place = original.place();
            let url = format!("{}/{}", server.trim_end_matches('/'), escaped(&place));
            let folders = new_folders(folder_of(&path))?;
            let here = report.here + report.fetched;
            fetcher
                .get(&url, folder_of(&path), &expected, &mut |bytes| {
                    watch(InstallProgress { file: &place, bytes, of: expected.bytes() });
                })
                .map_err(|cause| DataError::Fetch { here, of, cause })
                .and_then(|incoming| {
                    incoming.put(&path).map_err(|cause| unwritten(&path, cause))
                })?;
            folders.keep();
            report.fetched += 1;
        }
        self.make(pins, &mut report)?;
        Ok(report)
    }

    /// Copies the files of `pins` that `from` has, each hashed first. Nothing is copied when one is wrong.
    ///
    /// # Errors
    /// [`DataError`]; [`DataError::Wrong`] names the file that is not what was pinned.
    pub fn import(
        &self,
        pins: &[&DataPin],
        from: &Path,
        watch: ProgressCallback<'_>,
    ) -> Result<ImportedData, DataError> {
        let mut report = ImportedData::default();
        if !from.is_dir() {
            return Err(DataError::Absent { path: from.into() });
        }
        let folders = new_folders(self.path())?;
        let mut arrived = Vec::new();
        for pin in pins {
            let source = from.join(&pin.name);
            let Some(mut file) = opened(&source)? else {
                report.absent.push(pin.name.clone());
                continue;
            };
            let incoming =
                ReceivedFile::receive(&mut file, self.path(), &pin.expected(), &mut |bytes| {
                    watch(InstallProgress { file: &pin.name, bytes, of: Some(pin.bytes) });
                })
                .map_err(|cause| DataError::Wrong { path: source, cause })?;
            arrived.push((*pin, incoming));
        }
        for (pin, incoming) in arrived {
            self.place(pin, incoming)?;
            folders.keep();
            report.copied.push(pin.name.clone());
        }
        Ok(report)
    }

    /// Where an original is kept.
    fn original(&self, original: &Original) -> PathBuf {
        self.path().join("original").join(original.place())
    }

    /// Makes the normalised files that equal an original.
    fn make(&self, pins: &[&DataPin], report: &mut FetchedData) -> Result<(), DataError> {
        for pin in pins {
            if self.state(pin) == DataFileState::Verified {
                continue;
            }
            let Some(original) = pin.verbatim() else {
                report.missing.push(pin.name.clone());
                continue;
            };
            let path = self.original(original);
            let mut file = File::open(&path).map_err(DataError::read(&path))?;
            let incoming =
                ReceivedFile::receive(&mut file, self.path(), &pin.expected(), &mut |_| {})
                    .map_err(|cause| unwritten(&path, cause))?;
            self.place(pin, incoming)?;
            report.made.push(pin.name.clone());
        }
        Ok(())
    }

    /// Puts a verified file where it belongs.
    fn place(&self, pin: &DataPin, incoming: ReceivedFile) -> Result<(), DataError> {
        let path = self.path().join(&pin.name);
        let folders = new_folders(folder_of(&path))?;
        incoming.put(&path).map_err(|cause| unwritten(&path, cause))?;
        folders.keep();
        Ok(())
    }
}

fn new_folders(folder: &Path) -> Result<CreatedFolders, DataError> {
    CreatedFolders::create(folder).map_err(DataError::write(folder))
}

/// The folder that a file is in.
fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

fn unwritten(path: &Path, cause: ReceiveError) -> DataError {
    match cause {
        ReceiveError::Write { path, cause } => DataError::Write { path, cause },
        ReceiveError::Hash { .. }
        | ReceiveError::CutOff { .. }
        | ReceiveError::TooLong { .. }
        | ReceiveError::Read(_) => DataError::Wrong { path: path.into(), cause },
    }
}

/// The file at `path`, if there is one.
fn opened(path: &Path) -> Result<Option<File>, DataError> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(DataError::read(path)(cause)),
    }
}

/// Whether the file is here and right.
fn is_already(path: &Path, expected: &ExpectedFile) -> Result<bool, DataError> {
    let Some(mut file) = opened(path)? else { return Ok(false) };
    expected.holds_for(&mut file).map_err(DataError::read(path))
}

/// A path in a URL: whatever could end or change it is escaped.
fn escaped(path: &str) -> String {
    let mut url = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            url.push(char::from(byte));
        } else {
            url.push_str(&format!("%{byte:02X}"));
        }
    }
    url
}
