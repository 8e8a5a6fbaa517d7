//! What the blocks of a configuration look like from outside.

use std::collections::BTreeSet;

use crate::{
    address::{ConfigAddress, ConfigModule},
    facts::Repetition,
    module::Location,
    source::SourcePath,
    target::Target,
};

/// A resource block in one module of the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    pub address: ConfigAddress,
    /// Where the block stands.
    pub at: Location,
    /// Where override files change it.
    pub overridden_at: Vec<Location>,
    /// Whether the block itself has `count` or `for_each`; its modules may have, too.
    pub repetition: Option<Repetition>,
}

/// An output of the root module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    pub name: String,
    pub at: Location,
    pub sensitive: bool,
    pub ephemeral: bool,
    /// The resources it is computed from, without what these depend on in turn.
    pub dependencies: BTreeSet<ConfigAddress>,
}

/// A variable of the root module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variable {
    pub name: String,
    pub at: Location,
    pub has_default: bool,
    pub sensitive: bool,
    pub ephemeral: bool,
}

/// A `removed` block in one module of the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Removed {
    /// The module the block stands in.
    pub module: ConfigModule,
    /// What is no longer managed, seen from the root module.
    pub from: Target,
    /// Whether the object is destroyed, or only forgotten.
    pub destroy: bool,
    pub at: Location,
}

/// An `import` block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Import {
    /// The module the block stands in.
    pub module: ConfigModule,
    /// Where the object is to be recorded, seen from the root module. A computed key is left out.
    pub to: Target,
    pub at: Location,
}

/// A module that stands next to its caller, as `terraform init` notes it in its manifest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalModule {
    /// Call names joined by dots.
    pub key: String,
    /// The source as Terraform normalises it: `./x` or `../x`.
    pub source: String,
    /// Relative to the root module.
    pub directory: SourcePath,
}
