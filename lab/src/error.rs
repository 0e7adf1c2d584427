//! Why a suite could not be measured. A figure that is bad is no error.

use std::path::PathBuf;

use custody_cli::attacks::AttackError;
use custody_models::chat::ChatError;
use custody_runtime::tools::GateError;
use custody_runtime::{OpenError, PrincipalError, StoreError};
use custody_verify::VerifyError;

use crate::data::DataError;

/// A measurement that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// The detector of behaviour does not go with the embedding model.
    #[error(transparent)]
    Judge(#[from] custody_detect::behaviour::JudgeError),
    /// An attack could not be tried, or a scratch store not prepared.
    #[error(transparent)]
    Attack(#[from] AttackError),
    /// The store failed.
    #[error("the store under test failed")]
    Store(#[from] StoreError),
    /// A step of an incident failed.
    #[error("the incident under test failed")]
    Incident(#[from] custody_incident::IncidentError),
    /// The store could not be created or opened.
    #[error("the store under test failed")]
    Open(#[from] OpenError),
    /// A principal could not be registered or proven.
    #[error("the store under test failed")]
    Principal(#[from] PrincipalError),
    /// A tool call could not be decided.
    #[error("the store under test failed")]
    Gate(#[from] GateError),
    /// The store does not verify.
    #[error("the store under test could not be verified")]
    Verify(#[from] VerifyError),
    /// A step of an incident was refused.
    #[error("a step of the incident under test was refused")]
    RefusedStep(#[from] custody_incident::RefusedStep),
    /// A file could not be used.
    #[error("could not use `{path}`")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: std::io::Error,
    },
    /// The benchmark data cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A detector failed, so that there is nothing to measure.
    #[error("the detector `{method}` failed on `{data_set}`")]
    Detector {
        /// Its id.
        method: String,
        /// What it was trained or asked on.
        data_set: String,
        /// Its own words.
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A language model failed, so that there is nothing to measure.
    #[error(
        "the language model failed on `{case}`; what was finished before is kept where `--run` says"
    )]
    Model {
        /// What it was asked about.
        case: String,
        /// Its own words.
        #[source]
        cause: Box<ChatError>,
    },
    /// A benchmark's own package is not there, or does not run.
    #[error("{0}")]
    Package(String),
    /// A step that only prepares the measurement was not allowed.
    #[error("could not set up the measurement: {0}")]
    Setup(String),
}

impl EvalError {
    /// For `map_err` on something done with `path`.
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        move |cause| Self::File { path: path.into(), cause }
    }
}
