//! Where configuration text comes from: paths, files and trees of them.
//!
//! Analysis asks a [`SourceTree`] for one directory at a time, because which directories matter is
//! known only after the module calls of the first have been read. [`MemoryTree`] serves texts that
//! are already at hand (a git revision, a test); [`DiskTree`] is the only place that reads files.

mod disk;
mod name;
mod path;

use std::{collections::BTreeMap, io};

pub use disk::DiskTree;
pub use name::{Flavour, is_configuration_name, is_variables_name};
pub(crate) use name::{Syntax, effective_names, syntax_of};
pub use path::SourcePath;

/// One file of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceFile {
    /// The file name, without the directory.
    pub name: String,
    pub bytes: Vec<u8>,
}

/// Directories of configuration files, and the manifest of installed modules.
pub trait SourceTree {
    /// The configuration and variables files that stand directly in `directory`, in any order;
    /// `None` when there is no such directory.
    fn list(&self, directory: &SourcePath) -> io::Result<Option<Vec<SourceFile>>>;

    /// `modules/modules.json` of the data directory; `None` when nothing was installed.
    fn manifest(&self) -> io::Result<Option<Vec<u8>>>;
}

/// A tree held in memory.
#[derive(Clone, Default, Debug)]
pub struct MemoryTree {
    files: BTreeMap<SourcePath, Vec<u8>>,
    manifest: Option<Vec<u8>>,
}

impl MemoryTree {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces one file; `path` is relative to the root module.
    pub fn insert(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.files.insert(SourcePath::new(path), bytes.into());
    }

    pub fn set_manifest(&mut self, bytes: impl Into<Vec<u8>>) {
        self.manifest = Some(bytes.into());
    }

    pub fn files(&self) -> impl Iterator<Item = (&SourcePath, &[u8])> {
        self.files
            .iter()
            .map(|(path, bytes)| (path, bytes.as_slice()))
    }
}

impl SourceTree for MemoryTree {
    fn list(&self, directory: &SourcePath) -> io::Result<Option<Vec<SourceFile>>> {
        let files: Vec<SourceFile> = self
            .files
            .iter()
            .filter(|(path, _)| path.parent() == *directory)
            .map(|(path, bytes)| SourceFile {
                name: path.file_name().to_owned(),
                bytes: bytes.clone(),
            })
            .collect();
        Ok(if files.is_empty() { None } else { Some(files) })
    }

    fn manifest(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.manifest.clone())
    }
}
