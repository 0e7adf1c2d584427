//! What a store of format 1 claims, until its owner signs it.

use std::collections::BTreeSet;

use custody_log::Seq;

use crate::key::Key;
use crate::namespace::Namespace;

/// What records of format 1 claim that humans did, besides registering principals.
#[derive(Debug, Clone, Default)]
pub(crate) struct Claims {
    /// Items whose mode was set.
    pub(crate) modes: BTreeSet<(Namespace, Key)>,
    /// Records that released a value or adopted a file.
    pub(crate) released: BTreeSet<Seq>,
}
