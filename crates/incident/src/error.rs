//! Why a step of an incident cannot be taken. A refusal is no error: it is an answer.

use custody_certificate::CertificateError;
use custody_log::{Digest, IncidentId};
use custody_planner::{ClosureError, GraphError, PlanError};
use custody_runtime::store::{StoreError, Tampering};

use crate::indicator::IndicatorError;

/// A failure of recovery itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IncidentError {
    /// No such incident.
    #[error("there is no incident `{0}`; see `custody incident list`")]
    UnknownIncident(IncidentId),
    /// Not an indicator.
    #[error(transparent)]
    Indicator(#[from] IndicatorError),
    /// Not a regular expression.
    #[error("`{pattern}` is not a regular expression: {why}")]
    Pattern {
        /// What was given.
        pattern: String,
        /// Why not.
        why: String,
    },
    /// The indicators point to nothing.
    #[error("no indicator finds anything; nothing was opened")]
    NothingFound,
    /// The evidence names what is not there.
    #[error(transparent)]
    Closure(#[from] ClosureError),
    /// There is no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The record is not as it was when the plan was read.
    #[error("the record moved, and the plan is now {now}; read it with `custody incident plan`")]
    Moved {
        /// The digest of the plan as it is now.
        now: Digest,
    },
    /// Nothing was applied yet.
    #[error("no plan of `{0}` was applied yet; see `custody incident plan`")]
    NotApplied(IncidentId),
    /// Something on the record cannot be read as what it is.
    #[error("the {what} of `{incident}` cannot be read: {why}")]
    Unreadable {
        /// What.
        what: &'static str,
        /// Of which incident.
        incident: IncidentId,
        /// Why.
        why: String,
    },
    /// Somebody still reads pages that hold what was destroyed.
    #[error(
        "another program still reads the store, so its old pages cannot be overwritten; run it again when that is done"
    )]
    StillRead,
    /// The certificate does not hold.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The log before the incident is not signed to a size that can be stated.
    #[error("there is no signed state of the log before `{0}` was opened")]
    NoCheckpoint(IncidentId),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The record cannot be held as a graph.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The similarity search failed.
    #[error("could not compare texts")]
    Similarity(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl IncidentError {
    pub(crate) fn unreadable(
        what: &'static str,
        incident: IncidentId,
        cause: &serde_json::Error,
    ) -> Self {
        Self::Unreadable { what, incident, why: cause.to_string() }
    }
}

impl From<Tampering> for IncidentError {
    fn from(tampering: Tampering) -> Self {
        Self::Store(tampering.into())
    }
}
