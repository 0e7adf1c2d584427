//! The files of the benchmark data, compiled in from `data.toml`.

use std::sync::LazyLock;

use custody_models::incoming::ExpectedFile;
use custody_models::sha256::Sha256;
use serde::Deserialize;

/// A normalised file, and what it was made from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataPin {
    /// Its path in the data folder, with `/`.
    pub name: String,
    /// Of its bytes.
    pub sha256: Sha256,
    /// Its length.
    pub bytes: u64,
    /// How many rows it holds.
    pub rows: u64,
    /// Of its texts.
    pub licence: String,
    /// What it may be used for: `train`, `eval` or both.
    #[serde(rename = "use")]
    pub may: String,
    /// The files it was made from; none for one made here.
    #[serde(rename = "original", default)]
    pub originals: Vec<Original>,
}

/// A file of a public repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Original {
    /// `owner/name`.
    pub repository: String,
    /// The commit.
    pub commit: String,
    /// The path in the repository.
    pub path: String,
    /// Of its bytes.
    pub sha256: Sha256,
    /// Its length; none where this stands for several files, which are not fetched.
    pub bytes: Option<u64>,
}

/// All files, in the order of `data.toml`.
pub fn known() -> &'static [DataPin] {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        file: Vec<DataPin>,
    }
    static KNOWN: LazyLock<File> = LazyLock::new(|| {
        toml::from_str(include_str!("../../data.toml")).expect("a test reads `data.toml`")
    });
    &KNOWN.file
}

impl DataPin {
    /// Its exact bytes.
    pub(crate) fn expected(&self) -> ExpectedFile {
        ExpectedFile::pinned(self.sha256, self.bytes)
    }

    /// Whether the normalised file is one of its originals, byte for byte.
    pub fn is_verbatim(&self) -> bool {
        self.verbatim().is_some()
    }

    /// The original that it is, byte for byte.
    pub(crate) fn verbatim(&self) -> Option<&Original> {
        self.originals.iter().find(|original| original.sha256 == self.sha256)
    }
}

impl Original {
    /// Where it stands below a raw-file server and below the folder of originals.
    pub(crate) fn place(&self) -> String {
        format!("{}/{}/{}", self.repository, self.commit, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_stays_in_its_folder_and_every_licence_is_said() {
        assert!(known().len() > 20);
        let inside =
            |path: &str| path.split('/').all(|part| !part.is_empty() && !part.starts_with('.'));
        for pin in known() {
            assert!(inside(&pin.name) && !pin.licence.is_empty(), "{}", pin.name);
            for original in &pin.originals {
                assert!(inside(&original.place()), "{}", original.place());
                assert_eq!(original.commit.len(), 40, "{}", original.place());
            }
        }
    }
}
