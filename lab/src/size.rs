//! How much a suite measures.

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// For every change: a minute or two.
    Smoke,
    /// For a release.
    Full,
}

impl Size {
    /// Its name on the command line.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Full => "full",
        }
    }
}
