//! The words of the kernel and of the planner, as certificates write them.
//!
//! A certificate is read by programs that know nothing of a store, so its vocabulary is its own. Each function is
//! total: a new variant on either side visits it.

use custody_certificate::{MemberAction, MemberKind};
use custody_kernel::kind::EntryKind;
use custody_planner::RecoveryAction;

/// What an entry is, in a certificate.
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

/// What a plan orders, in a certificate.
pub(crate) const fn member_action(action: RecoveryAction) -> MemberAction {
    match action {
        RecoveryAction::None => MemberAction::None,
        RecoveryAction::Flag => MemberAction::Flag,
        RecoveryAction::Quarantine => MemberAction::Quarantine,
        RecoveryAction::Purge => MemberAction::Purge,
        RecoveryAction::Evict => MemberAction::Evict,
    }
}
