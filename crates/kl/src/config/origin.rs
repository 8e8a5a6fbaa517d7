//! A value together with where it came from.

use std::fmt;
use std::path::PathBuf;

/// Where a setting was found. `kl config` prints it beside the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A flag, spelled as on the command line.
    Flag(&'static str),
    /// A positional argument.
    Argument,
    /// An environment variable.
    Env(String),
    /// A line of a file: `.kl.toml` or a `.tf` file.
    Line(PathBuf, usize),
    /// A file as a whole: the record of an initialised backend.
    File(PathBuf),
    /// Nobody said anything.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "flag {flag}"),
            Self::Argument => f.write_str("argument"),
            Self::Env(name) => write!(f, "environment {name}"),
            Self::Line(path, line) => write!(f, "{}:{line}", path.display()),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sourced<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

impl<T> Sourced<T> {
    pub(crate) fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }

    pub(crate) fn default(value: T) -> Self {
        Self::new(value, Origin::Default)
    }
}
