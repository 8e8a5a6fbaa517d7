//! One claim: a path, and what is meant to be done with everything beneath it.

use std::fmt;
use std::str::FromStr;

use super::{NodeMode, Path};

/// What a claim is for. Reads tolerate each other, a write tolerates nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Access {
    Read,
    Write,
}

/// A claim on everything that lies at or beneath a path.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Claim {
    pub path: Path,
    pub access: Access,
}

/// A text that is neither `read` nor `write`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a claim is for `read` or for `write`")]
pub struct AccessError;

impl Access {
    /// The word the ledger and the protocol use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    /// Whether two claims on one thing exclude each other.
    pub fn conflicts_with(self, other: Self) -> bool {
        self == Self::Write || other == Self::Write
    }

    /// The mode of the claimed node itself.
    pub(super) fn mode(self) -> NodeMode {
        match self {
            Self::Read => NodeMode::S,
            Self::Write => NodeMode::X,
        }
    }

    /// The mode that every ancestor of the claimed node gets.
    pub(super) fn intention(self) -> NodeMode {
        match self {
            Self::Read => NodeMode::Is,
            Self::Write => NodeMode::Ix,
        }
    }
}

impl FromStr for Access {
    type Err = AccessError;

    fn from_str(text: &str) -> Result<Self, AccessError> {
        match text {
            "read" => Ok(Self::Read),
            "write" => Ok(Self::Write),
            _ => Err(AccessError),
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Claim {
    pub fn read(path: Path) -> Self {
        Self {
            path,
            access: Access::Read,
        }
    }

    pub fn write(path: Path) -> Self {
        Self {
            path,
            access: Access::Write,
        }
    }

    /// A move takes from one place and puts into another: both ends are written.
    pub fn of_move(source: Path, target: Path) -> [Self; 2] {
        [Self::write(source), Self::write(target)]
    }
}
