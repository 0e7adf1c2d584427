//! The content that an entry brought into the store itself.

use custody_kernel::memory::item::ContentRef;
use custody_kernel::record::Record;
use custody_runtime::store::{content_of, is_kept};

/// The content that arrived with `record` and was kept. `None` for a record without content, one that repeats the
/// content of another entry, and one that was refused, but for a call.
pub(crate) fn arrival(record: &Record) -> Option<ContentRef> {
    content_of(record).filter(|content| content.arrival == record.seq && is_kept(record))
}
