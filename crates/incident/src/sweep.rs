//! Sweeping: destroyed texts are removed from the disk, the write-ahead log and the free pages.
//!
//! SQLite overwrites deleted rows with zeros (`secure_delete`). Old pages stay in the write-ahead log until it is
//! truncated, the full-text index keeps deleted terms until it is rewritten, and a row that once moved to another
//! page may have left a copy in free space. So the files are searched, and the whole database is rewritten if
//! anything is found.

use crate::IncidentError;
use crate::act::Destroyed;
use crate::at_rest::AtRest;
use crate::store::Incidents;

impl Incidents<'_> {
    /// Removes destroyed texts from the disk and reports what is left of them. May be repeated. Without the texts
    /// there is nothing to search for, so the database is then rewritten in any case.
    ///
    /// Linear in the store.
    ///
    /// # Errors
    /// [`IncidentError::StillRead`] while a reader holds an earlier view.
    pub fn sweep(&self, destroyed: &[Destroyed]) -> Result<AtRest, IncidentError> {
        still_read_unless(self.store.compact()?)?;
        let found = self.search_at_rest(destroyed)?;
        if !destroyed.is_empty() && found.residue.is_empty() {
            return Ok(found);
        }
        still_read_unless(self.store.rewrite()?)?;
        self.search_at_rest(destroyed)
    }
}

fn still_read_unless(is_done: bool) -> Result<(), IncidentError> {
    if is_done { Ok(()) } else { Err(IncidentError::StillRead) }
}
