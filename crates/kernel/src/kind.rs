//! What an entry is, in the words of the provenance graph.

use crate::adapter::Change;
use crate::record::{ObservationKind, Request};

/// What an entry is.
///
/// Source: docs/design.md §2.1, entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
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

impl EntryKind {
    /// What the entry is that records this request.
    pub const fn of(request: &Request) -> Self {
        match request {
            Request::Observe { kind, .. } => match kind {
                ObservationKind::Message => Self::Message,
                ObservationKind::Completion => Self::Completion,
                ObservationKind::ToolCall => Self::ToolCall,
                ObservationKind::ToolOutput => Self::ToolOutput,
                ObservationKind::Retrieval => Self::Retrieval,
                ObservationKind::FileChange => Self::FileChange,
            },
            Request::Call(_) => Self::ToolCall,
            Request::Withhold { .. } | Request::Extract(_) => Self::ToolOutput,
            Request::Read { .. } => Self::MemoryRead,
            Request::Write { .. }
            | Request::Delete { .. }
            | Request::Promote { .. }
            | Request::AdoptFile { .. } => Self::MemoryWrite,
            Request::Adapt(adapt) => match &adapt.change {
                Change::Load { .. } => Self::AdapterLoad,
                Change::Unload { .. } => Self::AdapterUnload,
                Change::Fuse { .. } => Self::AdapterFuse,
            },
            Request::Found(_)
            | Request::OpenSession { .. }
            | Request::CloseSession
            | Request::Route(_)
            | Request::Approve { .. }
            | Request::Deny { .. }
            | Request::SetMode { .. }
            | Request::AddPrincipal(_)
            | Request::RevokePrincipal { .. }
            | Request::SetLimits(_)
            | Request::SetPolicy { .. }
            | Request::Recover(_)
            | Request::RotateLogKey(_)
            | Request::AdoptLedger { .. } => Self::Decision,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_nothing_and_changes_no_item_is_a_decision() {
        assert_eq!(EntryKind::of(&Request::CloseSession), EntryKind::Decision);
    }
}
