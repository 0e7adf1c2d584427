//! Sweeping: what was destroyed leaves the disk, the write-ahead log and the free pages too.
//!
//! SQLite overwrites what is deleted with zeros (`secure_delete`), but old pages stand in the write-ahead log until it
//! is cut off, the full-text index keeps what it forgot until it is rewritten, and a row that once moved to another
//! page may have left a copy in the free space of the first. So the files are searched, and if anything is found the
//! whole database is written anew.

use crate::IncidentError;
use crate::act::Destroyed;
use crate::at_rest::AtRest;
use crate::store::Incidents;

impl Incidents<'_> {
    /// Sees to it that what was destroyed is not on the disk any more, and says what is left of it. May be run again;
    /// without the texts nothing can be searched for, so the database is then written anew in any case.
    ///
    /// Linear in the store.
    ///
    /// # Errors
    /// [`IncidentError::StillRead`] while somebody reads a moment before it.
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
