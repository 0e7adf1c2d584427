//! How an index differs from the record.

use custody_log::Seq;

/// How an index differs from the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct IndexGap {
    /// Which index: `texts`, `hashes`, `edges` or `vectors`.
    pub index: &'static str,
    /// Rows that it should have.
    pub expected: u64,
    /// Rows that it lacks.
    pub missing: u64,
    /// Rows that it has and should not have.
    pub unexpected: u64,
    /// The first entry whose rows differ.
    pub first: Seq,
}

impl IndexGap {
    /// Notes that the rows of `entry` differ.
    pub(crate) fn note(&mut self, entry: i64) {
        self.first = self.first.min(Seq(u64::try_from(entry).unwrap_or_default()));
    }
}
