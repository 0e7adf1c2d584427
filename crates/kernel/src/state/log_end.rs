//! Where the log of a state ends.

use custody_log::{Digest, Frontier, Hash};

use crate::record::{AdminRequest, FORMAT, Record, Request, UNSIGNED_FORMAT};

/// Where the log of a state ends.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogEnd {
    frontier: Frontier,
    /// The format of the last record. It never falls.
    format: u8,
}

impl LogEnd {
    /// Appends a record.
    pub(crate) fn push(&mut self, format: u8, leaf: Hash) {
        self.frontier.push(leaf);
        self.format = format;
    }

    pub(crate) fn root(&self) -> Digest {
        Digest(self.frontier.root())
    }

    /// Whether the store ends in records whose acts and sessions are not signed.
    pub(crate) const fn is_unsigned(&self) -> bool {
        self.format == UNSIGNED_FORMAT
    }

    /// Whether a record of the format that `record` has may come next: the same, or a newer one where the store is
    /// migrated.
    pub(crate) fn takes(&self, record: &Record) -> bool {
        let migrates =
            matches!(record.request, Request::Admin(AdminRequest::CloseUnsignedFormat(_)));
        let migrates = migrates && record.answer.is_done();
        record.v == self.format || (self.is_unsigned() && record.v == FORMAT && migrates)
    }
}
