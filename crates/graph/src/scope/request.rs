//! What is asked: a write set, and what the client knows of the configuration.
//!
//! Names are those of the state engine protocol where it has them.

use super::{Move, Target};
use crate::address::{ConfigAddress, ConfigModule};

/// Whether a run brings things into being and up to date, or destroys them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Operation {
    #[default]
    Apply,
    /// Destroying takes along whatever depends on a target.
    Destroy,
}

/// A scope to be worked out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScopeRequest {
    pub operation: Operation,
    /// What is to be written: selectors and `explicit_write_candidates`.
    pub write: Vec<Target>,
    /// What is to be read besides (`explicit_read_candidates`).
    pub read: Vec<Target>,
    /// What the configuration no longer has, by a `removed` block or because it was an orphan that
    /// belongs to the write set (`removed_config_candidates`). Written if it is in the state.
    pub removed: Vec<Target>,
    /// What the client says is not deployed yet (`undeployed_config_candidates`). What
    /// [`Configuration::nodes`] declares need not be named.
    pub undeployed: Vec<Target>,
    /// `None` if the client knows no configuration: then nothing is proven.
    pub configuration: Option<Configuration>,
}

/// The configuration as the client read it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Configuration {
    /// Every block in every module.
    pub nodes: Vec<ConfigNode>,
    pub calls: Calls,
    /// The outputs of the root module.
    pub outputs: Vec<ConfigOutput>,
    /// Every `moved` block.
    pub moves: Vec<Move>,
    /// What the client did not understand. Each keeps the scope from being proven.
    pub doubts: Vec<String>,
}

/// A resource block, with the blocks it refers to, directly or through anything in between.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigNode {
    pub address: ConfigAddress,
    pub dependencies: Vec<ConfigAddress>,
    pub repetition: Repetition,
}

/// Which keys the instances of a block or module call have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Repetition {
    /// The client does not say.
    #[default]
    Unknown,
    /// Neither `count` nor `for_each`: one instance, without a key.
    Single,
    Count,
    ForEach,
}

/// The module calls of a configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Calls {
    /// The client does not say which have `count` or `for_each`: any may.
    #[default]
    Unknown,
    /// Those that have `count` or `for_each`; all others have neither.
    Repeated(Vec<ModuleCall>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModuleCall {
    /// The path of the module it calls.
    pub module: ConfigModule,
    pub repetition: Repetition,
}

/// An output of the root module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigOutput {
    pub name: String,
    /// The blocks it is computed from; what these depend on may be left out.
    pub dependencies: Vec<ConfigAddress>,
}
