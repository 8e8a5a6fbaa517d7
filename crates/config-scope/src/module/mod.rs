//! Modules: the files of a directory merged, and the tree of directories a configuration calls.

mod load;
mod manifest;
mod merge;
mod parse;

pub use load::LoadError;
pub(crate) use load::{Loaded, Module, ModuleCall, is_local, load};
pub(crate) use merge::Declared;
pub use parse::ParseCache;

use std::fmt;

use crate::source::SourcePath;

/// A place in a configuration file.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Location {
    /// Relative to the root module.
    pub file: SourcePath,
    /// One-based.
    pub line: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}
