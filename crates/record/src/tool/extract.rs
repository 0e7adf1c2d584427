//! Closed-schema extraction: single values out of an output that the model does not get to read.
//!
//! The second way, besides a reviewer's word, by which something untrusted becomes clean; narrower than the
//! first. The value has a [`ClosedShape`], the owner's policy names its field, and a session takes out no more
//! bits than the store's limits allow. The graph does not change: the value has the output for a parent, and as
//! an argument it is still the tool's.
//!
//! Source: docs/design.md §4.4.

use custody_arguments::ClosedShape;
use custody_log::Seq;
use serde::{Deserialize, Serialize};

use crate::memory::item::Value;

/// A value to take out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extract {
    /// The call that brought the output.
    pub call: Seq,
    /// The entry that holds the output.
    pub output: Seq,
    /// Which field of it, as a path of names.
    pub field: String,
    /// What it may be.
    pub shape: ClosedShape,
    /// What it is, in its one spelling; nothing if it is not there or is not of that shape. That is told too.
    pub value: Option<Value>,
}
