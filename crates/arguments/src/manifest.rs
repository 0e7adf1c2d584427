//! Tool manifests: what a tool does, and which of its arguments decide where something goes.
//!
//! Written by the operator, or drafted from a server's own list and then judged by one. An attacker may
//! write names, descriptions and schemas; none of them is read here.

use std::collections::BTreeMap;

use custody_log::Digest;
use serde::{Deserialize, Serialize};

use crate::shape::ClosedShape;

/// What a call does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolEffect {
    /// Nothing changes; something comes back.
    Reads,
    /// Something changes, or goes out.
    Writes,
}

impl ToolEffect {
    /// The name used in manifests, records and policies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Writes => "writes",
        }
    }
}

/// What kind of thing a sink argument names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sink {
    /// Whom something goes to, or who gains access.
    Recipient,
    /// A web address or host.
    Url,
    /// How much.
    Amount,
    /// An account number, a credential, a person's own data.
    Account,
    /// A file or folder.
    Path,
    /// Something that is executed.
    Command,
    /// Which object is changed or destroyed.
    Id,
    /// Anything else that matters.
    Other,
}

impl Sink {
    /// Every kind, in the order of the design.
    pub const ALL: [Self; 8] = [
        Self::Recipient,
        Self::Url,
        Self::Amount,
        Self::Account,
        Self::Path,
        Self::Command,
        Self::Id,
        Self::Other,
    ];

    /// The name used in manifests, records and policies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Recipient => "recipient",
            Self::Url => "url",
            Self::Amount => "amount",
            Self::Account => "account",
            Self::Path => "path",
            Self::Command => "command",
            Self::Id => "id",
            Self::Other => "other",
        }
    }

    /// The nouns that may stand beside a short value of this kind, besides the parameter's own.
    pub(crate) const fn nouns(self) -> &'static [&'static str] {
        match self {
            Self::Amount => &[
                "$", "€", "£", "usd", "eur", "gbp", "dollar", "dollars", "euro", "euros", "pounds",
            ],
            Self::Path => &["file", "folder", "directory", "datei", "ordner"],
            Self::Id => &["id", "number", "nummer", "#"],
            Self::Recipient | Self::Url | Self::Account | Self::Command | Self::Other => &[],
        }
    }
}

/// One argument of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// What it decides; nothing for free text and plain values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sink: Option<Sink>,
    /// Whether a call without it does no more than one with it. Otherwise a sink that is absent, null or empty is a
    /// value that nobody said: `delete_rows` without a `where` deletes every row.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// What people call it. A value under four characters is the user's only beside one of these, or beside
    /// a word of the parameter's name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nouns: Vec<String>,
    /// What people call its values, if it has a fixed list of them: `{ r = ["read"], rw = ["edit"] }`. One of
    /// these words beside a noun names the value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Vec<String>>,
    /// The field names that a structured argument has. Any other name in it is a value that somebody chose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
}

/// An argument that no manifest describes.
static UNDESCRIBED: Parameter = Parameter {
    sink: Some(Sink::Other),
    optional: false,
    nouns: Vec::new(),
    values: BTreeMap::new(),
    fields: Vec::new(),
};

/// One tool, as its manifest describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolManifest {
    /// What a call does.
    pub effect: ToolEffect,
    /// Whether free text in its arguments leaves the machine; if unsaid, that of writers does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_leaves: Option<bool>,
    /// By name. An argument that is not named here is a sink.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, Parameter>,
    /// Fields of its output that the server itself makes, as paths of names: `*` is every element, `only` the
    /// single one of a list, if the call asked for what the user named. Each with what it names, a word of the
    /// parameters that take it: `{ "only.id" = "file" }`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub trusted_output: BTreeMap<String, String>,
    /// Fields of its output that name who wrote it, as paths of names like those above. Without this list each address
    /// in the output may be an author's; an empty one says that nobody outside wrote any of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authors: Option<Vec<String>>,
    /// Fields of its output that can be taken out alone, by path of names, each with the closed kind of value it has.
    /// Only those that the owner's policy names are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub closed_output: BTreeMap<String, ClosedShape>,
    /// SHA-256 of the description and schema that this was written for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description_sha256: Option<Digest>,
}

impl ToolManifest {
    /// A tool that nobody described: a writer with every argument a sink.
    pub const fn unknown() -> Self {
        Self {
            effect: ToolEffect::Writes,
            text_leaves: None,
            arguments: BTreeMap::new(),
            trusted_output: BTreeMap::new(),
            authors: None,
            closed_output: BTreeMap::new(),
            description_sha256: None,
        }
    }

    /// Whether text in its arguments leaves the machine.
    pub const fn text_leaves(&self) -> bool {
        match self.text_leaves {
            Some(leaves) => leaves,
            None => matches!(self.effect, ToolEffect::Writes),
        }
    }

    /// Whether its output is read as a value: fields of it are trusted, or name authors.
    pub fn reads_output(&self) -> bool {
        !self.trusted_output.is_empty() || self.authors.is_some()
    }

    /// What is known of the argument `name`.
    pub(crate) fn parameter(&self, name: &str) -> &Parameter {
        self.arguments.get(name).unwrap_or(&UNDESCRIBED)
    }
}
