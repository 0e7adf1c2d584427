//! The content that an entry brought into the store itself, and what of it may cover other texts.

use custody_kernel::label::Channel;
use custody_kernel::memory::item::ContentRef;
use custody_kernel::record::{Record, Request, SessionRequest};
use custody_runtime::store::{content_of, is_kept};
use custody_text::own_words;

/// The content that arrived with `record` and was kept. `None` for a record without content, one that repeats the
/// content of another entry, and one that was refused, but for a call.
pub(crate) fn arrival(record: &Record) -> Option<ContentRef> {
    content_of(record).filter(|content| content.arrival == record.seq && is_kept(record))
}

/// The parts of `text`, the text of `record`, that may cover other texts ([`custody_planner::Sparing`]): of what a user
/// typed, their own words, as where older text discounts a repetition (docs/design.md §3.4). What they quote or forward
/// is somebody else's, and a piece of a message that was cut may not show that it was quoted.
pub fn covering_parts<'t>(record: &Record, text: &'t str) -> Vec<&'t str> {
    match &record.request {
        Request::Session(SessionRequest::Observe {
            channel: Channel::User, part: None, ..
        }) => own_words(text).into_iter().filter_map(|range| text.get(range)).collect(),
        Request::Session(SessionRequest::Observe { channel: Channel::User, .. }) => Vec::new(),
        Request::Session(_) | Request::Call(_) | Request::Admin(_) => vec![text],
    }
}
