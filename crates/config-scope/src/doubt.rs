//! What keeps a scope from being proven.

use std::fmt;

use crate::module::Location;

/// One thing in the configuration that was not understood.
///
/// A scope over a configuration with any doubt is not proven: the unread part may hold a
/// dependency of anything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Doubt {
    pub at: Location,
    pub kind: DoubtKind,
    pub what: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DoubtKind {
    /// The file could not be parsed; nothing in it is known.
    Unparsed,
    /// A module call whose directory cannot be found.
    UnknownModule,
    /// The file was parsed and holds something that is not part of the language known here.
    NotUnderstood,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

/// Whether a scope is proven.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Confidence {
    /// Everything that the selection needs is in it.
    Safe,
    /// As safe, but larger than what was asked for.
    Widened(Vec<String>),
    /// Something needed may be missing.
    Unsafe(Vec<String>),
}
