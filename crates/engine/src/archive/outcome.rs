//! How an attempt at a job ends, other than well.

use archive::{ArchiveError, WriteError};

use crate::EngineError;

/// Why an attempt stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Somebody asked for it.
    Cancelled,
    /// The lease has ended: another worker may be at it.
    Lost,
    /// The worker is going away.
    Draining,
    /// It has been at it for longer than it may.
    TooLong,
}

/// Why an attempt failed.
#[derive(Debug)]
pub(super) enum Failure {
    Stopped(Stop),
    /// It would fail again in the same way.
    Final {
        code: String,
        detail: String,
    },
    /// Something was away; another attempt may succeed.
    Passing(String),
}

impl Failure {
    pub(super) fn last(code: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Final {
            code: code.into(),
            detail: detail.into(),
        }
    }
}

/// An error with its causes, for the log and for the job's record. None of ours holds a value of a state.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    telemetry::Chain(error).to_string()
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        match &error {
            EngineError::Store(store::Error::Constraint { .. } | store::Error::Unstorable(_))
            | EngineError::Blob(blob::BlobError::Damaged(_)) => {
                Self::last("internal", chain(&error))
            }
            EngineError::Store(_) | EngineError::Blob(_) => Self::Passing(chain(&error)),
            EngineError::Damaged { .. } | EngineError::NoDataKey | EngineError::Seal(_) => {
                Self::last("state_damaged", error.to_string())
            }
            EngineError::Rejected(code, detail) => Self::last(code.as_str(), detail.clone()),
            EngineError::Locked(_) => Self::last("state_locked", error.to_string()),
            _ => Self::last("conflict", error.to_string()),
        }
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        EngineError::from(error).into()
    }
}

impl From<blob::BlobError> for Failure {
    fn from(error: blob::BlobError) -> Self {
        EngineError::from(error).into()
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        match &error {
            WriteError::Io(_) => Self::Passing(chain(&error)),
            WriteError::Version { .. } => Self::last("state_damaged", error.to_string()),
            WriteError::OverLimit(_) => Self::last("over_limit", error.to_string()),
            WriteError::DeltaTooLarge { .. } | WriteError::Misuse(_) => {
                Self::last("internal", error.to_string())
            }
        }
    }
}

impl From<ArchiveError> for Failure {
    fn from(error: ArchiveError) -> Self {
        match &error {
            ArchiveError::Refused(refusal) => Self::last(
                refusal.rule.code(),
                format!("{}: {}", refusal.entry, refusal.detail),
            ),
            ArchiveError::Stopped => Self::Stopped(Stop::Lost),
            _ => Self::Passing(chain(&error)),
        }
    }
}
