//! Rows: what the store knows of an instance, as far as a graph is concerned.

use std::fmt;

/// The number of a version of a state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Seq(pub u64);

/// Which object of an address a row holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Object<'a> {
    Current,
    /// An object that was replaced and is still to be destroyed, by its key.
    Deposed(&'a str),
    /// No object: the block stands in the document without instances.
    Shell,
}

/// What a row is known by. At one version no two live rows share it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RowRef<'a> {
    /// The instance address, as Terraform prints it.
    pub address: &'a str,
    pub object: Object<'a>,
}

/// A live row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InstanceRow<'a> {
    pub row: RowRef<'a>,
    /// The address of its block.
    pub config_address: &'a str,
    /// The addresses of the blocks it depends on, as recorded: without keys, mostly transitive.
    pub dependencies: &'a [String],
    /// The version that wrote it.
    pub born: Seq,
}

/// Everything that one version changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patch<'a> {
    /// The version the change was made to.
    pub from: Seq,
    /// The version it made.
    pub to: Seq,
    pub closed: &'a [RowRef<'a>],
    pub born: &'a [InstanceRow<'a>],
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for RowRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.object {
            Object::Current => f.write_str(self.address),
            Object::Deposed(key) => write!(f, "{} (deposed object {key})", self.address),
            Object::Shell => write!(f, "{} (without instances)", self.address),
        }
    }
}
