//! The entries of an incident: what it reached, what was done to each, what is left.
//!
//! Fields are declared in the order of RFC 8785, which is that of the alphabet: a section's derived JSON is then its
//! canonical form.

use std::fmt;

use custody_log::{Digest, Seq};
use serde::{Deserialize, Serialize};

/// What an entry is.
///
/// Source: docs/design.md §2.1, entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberKind {
    /// Something said to the model.
    Message,
    /// Something the model said.
    Completion,
    /// A tool call.
    ToolCall,
    /// The answer of a tool.
    ToolOutput,
    /// Documents from an index.
    Retrieval,
    /// An item that was read.
    MemoryRead,
    /// An item that was written, promoted or deleted.
    MemoryWrite,
    /// A change of a file.
    FileChange,
    /// An adapter was loaded.
    AdapterLoad,
    /// An adapter was unloaded.
    AdapterUnload,
    /// An adapter was fused into its base.
    AdapterFuse,
    /// Any other decision.
    Decision,
}

impl MemberKind {
    /// The name used in certificates.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Completion => "completion",
            Self::ToolCall => "tool_call",
            Self::ToolOutput => "tool_output",
            Self::Retrieval => "retrieval",
            Self::MemoryRead => "memory_read",
            Self::MemoryWrite => "memory_write",
            Self::FileChange => "file_change",
            Self::AdapterLoad => "adapter_load",
            Self::AdapterUnload => "adapter_unload",
            Self::AdapterFuse => "adapter_fuse",
            Self::Decision => "decision",
        }
    }
}

/// What was done to a member. Ordered: each does what those before it do, and more.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum MemberAction {
    /// Nothing.
    #[default]
    None,
    /// It is marked.
    Flag,
    /// No way of retrieval finds it until it is restored.
    Quarantine,
    /// Its content is destroyed.
    Purge,
    /// As purge, and the weights it was made under are unloaded everywhere.
    Evict,
}

impl MemberAction {
    /// The name used in certificates.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Flag => "flag",
            Self::Quarantine => "quarantine",
            Self::Purge => "purge",
            Self::Evict => "evict",
        }
    }
}

impl fmt::Display for MemberAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How the closure was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ClosureMode {
    /// Forward along derivation, without a limit.
    #[serde(rename = "causal")]
    Causal,
    /// The paper's first: both directions, ten hops.
    #[serde(rename = "rvu-v1")]
    RvuV1,
    /// The paper's second: the same, and across adapters.
    #[serde(rename = "rvu-v2")]
    RvuV2,
}

/// What the incident reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertifiedClosure {
    /// At how many members a limit stopped the walk: 0 where there is none.
    pub frontier: u64,
    /// Every member, flagged, spared and untouched ones too.
    pub members: Vec<Seq>,
    /// How it was taken.
    pub mode: ClosureMode,
    /// Ancestors of the seeds: where it may have come from. Nothing was done to them.
    pub possible_origins: Vec<Seq>,
    /// The members that the evidence points at.
    pub seeds: Vec<Seq>,
}

/// One member of the closure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestEntry {
    /// What the plan orders.
    pub action: MemberAction,
    /// The adapters it was made under, by the hash of their weights.
    pub adapters: Vec<Digest>,
    /// `SHA-256(salt ‖ bytes)` of its content, where it has one.
    pub commitment: Option<Digest>,
    /// Whether that was done.
    pub done: bool,
    /// Its position in the log.
    pub entry: Seq,
    /// What it is.
    pub kind: MemberKind,
}

/// How many entries have one action.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionCount {
    /// How many of them are done.
    pub done: u64,
    /// How many the plan orders.
    pub planned: u64,
}

/// The manifest, counted by action.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionTotals {
    /// Evictions.
    pub evict: ActionCount,
    /// Flags.
    pub flag: ActionCount,
    /// Entries left as they are.
    pub none: ActionCount,
    /// Purges.
    pub purge: ActionCount,
    /// Quarantines.
    pub quarantine: ActionCount,
}

impl ActionTotals {
    /// The counts, the mildest action first.
    pub const fn counts(&self) -> [ActionCount; 5] {
        [self.none, self.flag, self.quarantine, self.purge, self.evict]
    }

    /// Counts these entries.
    pub fn of(entries: &[ManifestEntry]) -> Self {
        let mut totals = Self::default();
        for entry in entries {
            let count = match entry.action {
                MemberAction::None => &mut totals.none,
                MemberAction::Flag => &mut totals.flag,
                MemberAction::Quarantine => &mut totals.quarantine,
                MemberAction::Purge => &mut totals.purge,
                MemberAction::Evict => &mut totals.evict,
            };
            count.planned += 1;
            count.done += u64::from(entry.done);
        }
        totals
    }
}

/// What was reached and what was done to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimeRecovery {
    /// What the incident reached.
    pub closure: CertifiedClosure,
    /// One for each member, in the same order.
    pub manifest_entries: Vec<ManifestEntry>,
    /// The same, counted.
    pub totals: ActionTotals,
}

impl RuntimeRecovery {
    /// Counts the manifest.
    pub fn new(closure: CertifiedClosure, manifest_entries: Vec<ManifestEntry>) -> Self {
        let totals = ActionTotals::of(&manifest_entries);
        Self { closure, manifest_entries, totals }
    }
}

/// A member that says nothing which trusted entries had not said before.
///
/// Source: docs/design.md §6.4.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SparedMember {
    /// The trusted entries outside the closure that hold all it says.
    pub covered_by: Vec<Seq>,
    /// The member.
    pub entry: Seq,
}

/// Something that left the machine and cannot be taken back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IrreversibleEffect {
    /// The commitment of the call's arguments, where they were kept.
    pub arguments: Option<Digest>,
    /// The call.
    pub entry: Seq,
    /// What happened, for the reader.
    pub summary: String,
    /// The tool.
    pub tool: String,
}

/// An action that the plan ordered and that is not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unfinished {
    /// The action.
    pub action: MemberAction,
    /// To which entry.
    pub entry: Seq,
    /// Why it is not done.
    pub why: String,
}

/// What is left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Residual {
    /// What cannot be undone.
    pub effects: Vec<IrreversibleEffect>,
    /// The members that are in quarantine.
    pub quarantined: Vec<Seq>,
    /// What is not done.
    pub unfinished: Vec<Unfinished>,
}
