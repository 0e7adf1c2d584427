//! The kinds of records that `custody ledger show` can select.

use clap::ValueEnum;
use custody_kernel::record::{AdminRequest, ObservationKind, Request, SessionRequest};

/// The kind of a request, as `--kind` selects it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Something said to a model
    Message,
    /// Something a model said
    Completion,
    /// A tool call of a model, decided here or only reported
    ToolCall,
    /// The answer of a tool
    ToolOutput,
    /// Documents from an index
    Retrieval,
    /// A change of a file
    FileChange,
    /// A read, write, delete or promotion of memory
    Memory,
    /// Where a suspicious text may go
    Route,
    /// An approval, a denial, a mode or an adopted file
    Review,
    /// A session opened or closed
    Session,
    /// An adapter loaded, unloaded or fused
    Adapter,
    /// What tool calls are judged by: manifests, a local policy, structured outputs
    Basis,
    /// A step of an incident
    Recovery,
    /// Principals, limits, keys and the store itself
    Admin,
}

impl Kind {
    pub(super) const fn of(request: &Request) -> Self {
        match request {
            Request::Session(SessionRequest::Observe { kind, .. }) => match kind {
                ObservationKind::Message => Self::Message,
                ObservationKind::Completion => Self::Completion,
                ObservationKind::ToolCall => Self::ToolCall,
                ObservationKind::ToolOutput => Self::ToolOutput,
                ObservationKind::Retrieval => Self::Retrieval,
                ObservationKind::FileChange => Self::FileChange,
            },
            Request::Session(
                SessionRequest::Read { .. }
                | SessionRequest::List { .. }
                | SessionRequest::Write { .. }
                | SessionRequest::Delete { .. }
                | SessionRequest::Promote { .. },
            ) => Self::Memory,
            Request::Session(SessionRequest::Route(_)) => Self::Route,
            Request::Call(_) => Self::ToolCall,
            Request::Session(SessionRequest::Withhold { .. } | SessionRequest::Extract(_)) => {
                Self::ToolOutput
            }
            Request::Session(SessionRequest::RecordBasis(_)) => Self::Basis,
            Request::Session(SessionRequest::DeclareIntents(_)) => Self::ToolCall,
            Request::Admin(
                AdminRequest::Approve { .. }
                | AdminRequest::Deny { .. }
                | AdminRequest::SetMode { .. }
                | AdminRequest::AdoptFile { .. },
            ) => Self::Review,
            Request::Admin(AdminRequest::OpenSession { .. } | AdminRequest::EndSession { .. })
            | Request::Session(SessionRequest::CloseSession | SessionRequest::JoinContext) => {
                Self::Session
            }
            Request::Admin(AdminRequest::Adapt(_)) => Self::Adapter,
            Request::Admin(AdminRequest::Recover(_)) => Self::Recovery,
            Request::Admin(
                AdminRequest::CreateStore(_)
                | AdminRequest::AddPrincipal(_)
                | AdminRequest::RevokePrincipal { .. }
                | AdminRequest::SetLimits(_)
                | AdminRequest::SetPolicy { .. }
                | AdminRequest::RotateLogKey(_)
                | AdminRequest::CloseUnsignedFormat(_)
                | AdminRequest::AdoptLedger { .. },
            ) => Self::Admin,
        }
    }
}
