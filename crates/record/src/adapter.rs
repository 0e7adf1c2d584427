//! Adapters: what is loaded into which model, as the record keeps it.
//!
//! A model host is whatever runs the model that sessions speak with. An adapter is known by the hash of its weights;
//! its name is only for the reader.

use std::fmt;
use std::str::FromStr;

use custody_log::{Digest, Seq};
use serde::{Deserialize, Serialize};

/// The longest name, in characters.
pub const MAX_NAME_CHARS: usize = 128;

/// What people call a model host or an adapter: one line without control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

/// Not a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a name of a host or an adapter is 1 to {MAX_NAME_CHARS} characters on one line, without space around it"
)]
pub struct NameError;

impl Name {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        let is_plain = !name.chars().any(char::is_control) && name.trim() == name;
        let is_name = !name.is_empty() && name.chars().count() <= MAX_NAME_CHARS && is_plain;
        if is_name { Ok(Self(name)) } else { Err(NameError) }
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        name.to_owned().try_into()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A change of the weights that one model host carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adapt {
    /// The name of the host.
    pub host: Name,
    /// What changes.
    pub change: AdapterChange,
}

/// What changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdapterChange {
    /// An adapter is loaded.
    Load {
        /// SHA-256 of its weights.
        weights: Digest,
        /// What it calls itself.
        name: Name,
        /// The entries that it was trained on, as far as they are known.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        made_from: Vec<Seq>,
    },
    /// One load of an adapter is taken back.
    Unload {
        /// SHA-256 of its weights.
        weights: Digest,
    },
    /// Loaded adapters become part of the model, for good.
    Fuse {
        /// SHA-256 of the weights of each; and the base that they go into, where an earlier fusion made that.
        weights: Vec<Digest>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_line_that_shows_whole() {
        for good in ["vllm-1", "Finanz-Persona v2", "ß"] {
            assert_eq!(good.parse::<Name>().unwrap().as_str(), good);
        }
        let long = "x".repeat(MAX_NAME_CHARS + 1);
        for bad in ["", " x", "x ", "a\nb", "a\u{1b}[2J", &long] {
            assert_eq!(bad.parse::<Name>(), Err(NameError), "{bad:?}");
        }
        assert!(serde_json::from_str::<Name>("\"\"").is_err());
    }
}
