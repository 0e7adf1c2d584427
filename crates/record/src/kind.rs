//! What an entry is, in the words of the provenance graph.

use crate::adapter::AdapterChange;
use crate::record::{AdminRequest, ObservationKind, Request, SessionRequest};
use crate::tool::basis::BasisKind;

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
    /// An item that was read, or keys that were listed.
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
            Request::Session(request) => Self::in_session(request),
            Request::Call(_) => Self::ToolCall,
            Request::Admin(request) => Self::administrative(request),
        }
    }

    const fn in_session(request: &SessionRequest) -> Self {
        match request {
            SessionRequest::Observe { kind, .. } => match kind {
                ObservationKind::Message => Self::Message,
                ObservationKind::Completion => Self::Completion,
                ObservationKind::ToolCall => Self::ToolCall,
                ObservationKind::ToolOutput => Self::ToolOutput,
                ObservationKind::Retrieval => Self::Retrieval,
                ObservationKind::FileChange => Self::FileChange,
            },
            SessionRequest::Withhold { .. } | SessionRequest::Extract(_) => Self::ToolOutput,
            SessionRequest::Read { .. } | SessionRequest::List { .. } => Self::MemoryRead,
            SessionRequest::Write { .. }
            | SessionRequest::Delete { .. }
            | SessionRequest::Promote { .. } => Self::MemoryWrite,
            SessionRequest::RecordBasis(basis) => match basis.of {
                BasisKind::Output { .. } => Self::ToolOutput,
                BasisKind::Tool { .. } | BasisKind::LocalPolicy { .. } => Self::Decision,
            },
            SessionRequest::CloseSession
            | SessionRequest::DeclareIntents(_)
            | SessionRequest::JoinContext
            | SessionRequest::Route(_) => Self::Decision,
        }
    }

    const fn administrative(request: &AdminRequest) -> Self {
        match request {
            AdminRequest::AdoptFile { .. } => Self::MemoryWrite,
            AdminRequest::Adapt(adapt) => match &adapt.change {
                AdapterChange::Load { .. } => Self::AdapterLoad,
                AdapterChange::Unload { .. } => Self::AdapterUnload,
                AdapterChange::Fuse { .. } => Self::AdapterFuse,
            },
            AdminRequest::CreateStore(_)
            | AdminRequest::OpenSession { .. }
            | AdminRequest::EndSession { .. }
            | AdminRequest::Approve { .. }
            | AdminRequest::Deny { .. }
            | AdminRequest::SetMode { .. }
            | AdminRequest::AddPrincipal(_)
            | AdminRequest::RevokePrincipal { .. }
            | AdminRequest::SetLimits(_)
            | AdminRequest::SetPolicy { .. }
            | AdminRequest::Recover(_)
            | AdminRequest::RotateLogKey(_)
            | AdminRequest::CloseUnsignedFormat(_)
            | AdminRequest::AdoptLedger { .. } => Self::Decision,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_nothing_and_changes_no_item_is_a_decision() {
        assert_eq!(EntryKind::of(&SessionRequest::CloseSession.into()), EntryKind::Decision);
    }
}
