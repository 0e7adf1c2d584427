//! Which content a record names.

use custody_kernel::memory::item::ContentRef;
use custody_kernel::record::{Answer, Record, Request};

/// The content that a record names, wherever it is stored.
pub fn content_of(record: &Record) -> Option<ContentRef> {
    if let Some(content) = record.content {
        return Some(content);
    }
    match (&record.request, &record.answer) {
        (_, Answer::Found { content, .. }) => Some(*content),
        (Request::Observe { content, .. }, _) => content.map(|value| value.content(record.seq)),
        (
            Request::Write { value, .. }
            | Request::AdoptFile { value, .. }
            | Request::Withhold { content: value, .. },
            _,
        ) => Some(value.content(record.seq)),
        (Request::Extract(extract), _) => extract.value.map(|value| value.content(record.seq)),
        (Request::Call(call), _) => Some(call.arguments.content(record.seq)),
        (Request::SetPolicy { text, .. }, _) => Some(text.content(record.seq)),
        (Request::Recover(recover), _) => {
            recover.step.arriving().map(|value| value.content(record.seq))
        }
        _ => None,
    }
}
