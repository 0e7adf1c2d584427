//! Facts: what a plan has to know of a store besides its graph. The caller reads them; the plan draws the conclusions.

use custody_kernel::key::Key;
use custody_kernel::namespace::Namespace;
use custody_log::{Digest, EntryId, Seq};
use serde::{Deserialize, Serialize};

/// The record that a plan was made on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanBasis {
    /// How many entries it had.
    pub size: u64,
    /// The root of its audit tree at that size.
    pub root: Digest,
}

/// A tool call that ran and changed something outside. A tool that nobody described counts as one that does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutsideEffect {
    /// The call.
    pub entry: Seq,
    /// The tool.
    pub tool: String,
}

/// One change of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemChange {
    /// The entry that made it.
    pub entry: Seq,
    /// The entry with which its content arrived; `None` if the change was a delete.
    pub arrival: Option<Seq>,
}

/// What became of a memory item or watched file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemHistory {
    /// Where it is.
    pub namespace: Namespace,
    /// Under which key.
    pub key: Key,
    /// The file that holds it too, if it is watched.
    pub file: Option<String>,
    /// Every change, in any order.
    pub versions: Vec<ItemChange>,
}

/// A proposal or call that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingProposal {
    /// Its id.
    pub proposal: EntryId,
    /// The entry that asked.
    pub entry: Seq,
    /// The entries that it depends on besides.
    pub depends_on: Vec<Seq>,
}

/// All of them.
#[derive(Debug, Clone, Copy)]
pub struct PlanFacts<'a> {
    /// The record.
    pub basis: PlanBasis,
    /// The record that contained the incident. What was made from the closure later is held already, and changes
    /// nothing of the plan.
    pub contained: Option<Seq>,
    /// Every call that ran and changed something outside.
    pub effects: &'a [OutsideEffect],
    /// Every item with a change in the closure, or all.
    pub histories: &'a [ItemHistory],
    /// Everything that waits.
    pub waiting: &'a [WaitingProposal],
}
