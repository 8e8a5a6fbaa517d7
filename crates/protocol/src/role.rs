//! The roles a grant may give. What each of them allows is decided in `auth`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a principal is trusted with, in a workspace or in one environment.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Root outputs only: for `terraform_remote_state` and its like.
    Outputs,
    /// Metadata and state without values.
    Viewer,
    /// Everything `viewer` sees, values and whole documents too.
    Reader,
    /// `reader`, and lock, write, import.
    Writer,
    /// `writer`, and break another's lock, roll back, delete, recover, export.
    Maintainer,
    /// `maintainer`, and members, tokens, environments.
    Admin,
    /// The audit log, and nothing else.
    Auditor,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 7] = [
        Self::Outputs,
        Self::Viewer,
        Self::Reader,
        Self::Writer,
        Self::Maintainer,
        Self::Admin,
        Self::Auditor,
    ];

    /// The role as it is written on the wire and in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Outputs => "outputs",
            Self::Viewer => "viewer",
            Self::Reader => "reader",
            Self::Writer => "writer",
            Self::Maintainer => "maintainer",
            Self::Admin => "admin",
            Self::Auditor => "auditor",
        }
    }
}

/// A text that names no role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a role: expected outputs, viewer, reader, writer, maintainer, admin or auditor")]
pub struct InvalidRole;

impl FromStr for Role {
    type Err = InvalidRole;

    fn from_str(text: &str) -> Result<Self, InvalidRole> {
        Self::ALL
            .into_iter()
            .find(|role| role.as_str() == text)
            .ok_or(InvalidRole)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
