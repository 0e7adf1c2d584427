//! The content that an entry brought into the store itself.

use custody_kernel::memory::item::ContentRef;
use custody_kernel::record::{Answer, Record};
use custody_runtime::store::content_of;

/// The content that arrived with `record` and was kept. `None` for a record without content, one that repeats the
/// content of another entry, and one that was refused.
pub(crate) fn arrival(record: &Record) -> Option<ContentRef> {
    let is_kept = !matches!(record.answer, Answer::Refused(_));
    content_of(record).filter(|content| is_kept && content.arrival == record.seq)
}
