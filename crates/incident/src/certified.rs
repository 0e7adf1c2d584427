//! The terms of the kernel and the planner in the vocabulary of certificates.
//!
//! Certificates are read by programs without a store, so they have a vocabulary of their own. Each function is total:
//! a new variant on either side does not compile without an entry here.

use custody_certificate::{MemberAction, MemberKind};
use custody_kernel::kind::EntryKind;
use custody_planner::RecoveryAction;

/// The kind of an entry.
pub const fn member_kind(kind: EntryKind) -> MemberKind {
    match kind {
        EntryKind::Message => MemberKind::Message,
        EntryKind::Completion => MemberKind::Completion,
        EntryKind::ToolCall => MemberKind::ToolCall,
        EntryKind::ToolOutput => MemberKind::ToolOutput,
        EntryKind::Retrieval => MemberKind::Retrieval,
        EntryKind::MemoryRead => MemberKind::MemoryRead,
        EntryKind::MemoryWrite => MemberKind::MemoryWrite,
        EntryKind::FileChange => MemberKind::FileChange,
        EntryKind::AdapterLoad => MemberKind::AdapterLoad,
        EntryKind::AdapterUnload => MemberKind::AdapterUnload,
        EntryKind::AdapterFuse => MemberKind::AdapterFuse,
        EntryKind::Decision => MemberKind::Decision,
    }
}

/// The action of a plan.
pub(crate) const fn member_action(action: RecoveryAction) -> MemberAction {
    match action {
        RecoveryAction::None => MemberAction::None,
        RecoveryAction::Flag => MemberAction::Flag,
        RecoveryAction::Quarantine => MemberAction::Quarantine,
        RecoveryAction::Purge => MemberAction::Purge,
        RecoveryAction::Evict => MemberAction::Evict,
    }
}
