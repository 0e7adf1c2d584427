//! Facts: what planning needs from a store besides its graph. The caller reads them from the store.

use custody_kernel::key::Key;
use custody_kernel::label::Label;
use custody_kernel::namespace::Namespace;
use custody_log::{Digest, EntryId, Seq, Timestamp};
use serde::{Deserialize, Serialize};

/// The record from which a plan was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanBasis {
    /// The number of entries.
    pub size: u64,
    /// The root of the audit tree at that size.
    pub root: Digest,
}

/// A tool call that ran and changed something outside. A tool without a manifest counts as one that does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutsideEffect {
    /// The call.
    pub entry: Seq,
    /// The tool.
    pub tool: String,
}

/// An entry that was found: what somebody has to know of it before it is destroyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoundEntry {
    /// The entry.
    pub entry: Seq,
    /// Its label when it was recorded.
    pub label: Label,
    /// When it was recorded.
    pub at: Timestamp,
}

/// One change of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemChange {
    /// The entry that made it.
    pub entry: Seq,
    /// The entry with which its content arrived; `None` if the change was a delete.
    pub arrival: Option<Seq>,
}

/// The changes of a memory item or watched file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemHistory {
    /// The namespace of the item.
    pub namespace: Namespace,
    /// The key of the item.
    pub key: Key,
    /// The path of the file, if the item is watched.
    pub file: Option<String>,
    /// Every change, in any order.
    pub versions: Vec<ItemChange>,
}

/// A proposal or call that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingProposal {
    /// The id under which it is approved or denied.
    pub proposal: EntryId,
    /// The entry of the proposal.
    pub entry: Seq,
    /// The entries that it also depends on.
    pub depends_on: Vec<Seq>,
}

/// An entry that repeats an untrusted one and is not tainted by it, because older trusted texts hold what it repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepeatedText {
    /// The entry.
    pub entry: Seq,
    /// The entry that it repeats.
    pub of: Seq,
}

/// All facts for one plan.
#[derive(Debug, Clone, Copy)]
pub struct PlanFacts<'a> {
    /// The record.
    pub basis: PlanBasis,
    /// The record that contained the incident, if it is contained. Entries that derive from the closure later are held
    /// already and do not change the plan.
    pub contained: Option<Seq>,
    /// Every call that ran and changed something outside.
    pub effects: &'a [OutsideEffect],
    /// Every item with a change in the closure, or all.
    pub histories: &'a [ItemHistory],
    /// Every proposal that waits for a person.
    pub waiting: &'a [WaitingProposal],
    /// Every entry that was found, ascending, each once.
    pub found: &'a [FoundEntry],
    /// Every repetition that is discounted.
    pub repeated: &'a [RepeatedText],
    /// Whether trusted findings that are older than every untrusted one are purged too.
    pub purge_trusted: bool,
}
