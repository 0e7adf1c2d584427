//! A holder of the log key, as the laboratory measures one, for tests: what it cannot do fails the test.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    clippy::unwrap_used,
    reason = "each test file uses its part"
)]

#[path = "../../../../lab/src/memory/forgery/forger.rs"]
mod holder;
#[path = "../../../../lab/src/memory/forgery/records.rs"]
pub mod records;

use custody_kernel::record::Record;
use custody_log::{Seq, SessionId};

use crate::common;

pub use holder::{Signed, Target, records_of};

impl<'a> From<&'a common::Scratch> for Target<'a> {
    fn from(scratch: &'a common::Scratch) -> Self {
        Self { store: &scratch.store, paths: &scratch.paths }
    }
}

impl<'a> From<&'a custody_runtime::scratch::Scratch> for Target<'a> {
    fn from(scratch: &'a custody_runtime::scratch::Scratch) -> Self {
        Self { store: &scratch.store, paths: &scratch.paths }
    }
}

/// [`Target::append`].
pub fn append<'a>(target: impl Into<Target<'a>>, record: Record, signed: Signed<'_>) -> Seq {
    target.into().append(record, signed).unwrap()
}

/// [`Target::copy_session`].
pub fn copy_session<'a>(
    target: impl Into<Target<'a>>,
    id: SessionId,
    edit: impl Fn(&mut Record),
) -> Seq {
    target.into().copy_session(id, edit).unwrap()
}
