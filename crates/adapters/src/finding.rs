//! What an adapter holds besides the weights of its kind.

use serde::Serialize;

/// How much a finding counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AdapterSeverity {
    /// Something to know.
    Note,
    /// A person should look at it before the adapter is loaded.
    Review,
    /// What was looked at is not all that the adapter does: it is not to be loaded.
    Refuse,
}

impl AdapterSeverity {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Review => "review",
            Self::Refuse => "refuse",
        }
    }
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AdapterFinding {
    /// The rule, for programs.
    pub rule: &'static str,
    /// How much it counts.
    pub severity: AdapterSeverity,
    /// What was found, in one line.
    pub what: String,
}

impl AdapterFinding {
    pub(crate) fn new(
        rule: &'static str,
        severity: AdapterSeverity,
        what: impl Into<String>,
    ) -> Self {
        Self { rule, severity, what: what.into() }
    }
}
