//! Failures of a step of an incident. A refusal is a result and not an error.

use custody_certificate::CertificateError;
use custody_log::{Digest, IncidentId};
use custody_planner::{ClosureError, GraphError, PlanError};
use custody_runtime::store::{StoreError, Tampering};

use crate::indicator::IndicatorError;

/// A failure of a recovery.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IncidentError {
    /// The incident does not exist.
    #[error("there is no incident `{0}`; see `custody incident list`")]
    UnknownIncident(IncidentId),
    /// A line is not an indicator.
    #[error(transparent)]
    Indicator(#[from] IndicatorError),
    /// A pattern is not a regular expression, or is too large.
    #[error("`{pattern}` is not a regular expression: {why}")]
    Pattern {
        /// The pattern, shortened.
        pattern: String,
        /// The error of the regular expression.
        why: String,
    },
    /// The indicators match nothing.
    #[error("no indicator finds anything; nothing was opened")]
    NothingFound,
    /// The evidence names an entry that does not exist.
    #[error(transparent)]
    Closure(#[from] ClosureError),
    /// The plan cannot be made.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The record changed the plan since it was read.
    #[error("the record moved, and the plan is now {now}; read it with `custody incident plan`")]
    Moved {
        /// The digest of the present plan.
        now: Digest,
    },
    /// Incidents or adapters changed each time that a plan was made.
    #[error(
        "the record of `{0}` changes faster than a plan is made; run it again when other incidents are done"
    )]
    Restless(IncidentId),
    /// A plan that is applied in parts, and not all that it takes out is out.
    #[error(
        "the plan of `{0}` is applied in several parts, so all that it takes out must be in quarantine before; contain the incident first"
    )]
    NotContained(IncidentId),
    /// No plan was applied.
    #[error("no plan of `{0}` was applied yet; see `custody incident plan`")]
    NotApplied(IncidentId),
    /// A document on the record cannot be parsed.
    #[error("the {what} of `{incident}` cannot be read: {why}")]
    Unreadable {
        /// The kind of document.
        what: &'static str,
        /// The incident.
        incident: IncidentId,
        /// The cause.
        why: String,
    },
    /// A reader still holds pages that contain destroyed texts.
    #[error(
        "another program still reads the store, so its old pages cannot be overwritten; run it again when that is done"
    )]
    StillRead,
    /// The certificate is not valid.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// No signed checkpoint covers the log before the incident.
    #[error("there is no signed state of the log before `{0}` was opened")]
    NoCheckpoint(IncidentId),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The record is too large for a graph.
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
