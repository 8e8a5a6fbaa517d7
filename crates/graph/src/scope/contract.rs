//! The scope contract: what a run on a scope fetches, reads, writes and claims.

use crate::claims::ClaimSet;
use crate::confidence::{Confidence, Finding};

use super::{Move, ScopeOutputs, Target};

/// The answer to a [`super::ScopeRequest`]. Names are those of the state engine protocol where it has
/// them; all lists of addresses are sorted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScopeContract {
    /// The instances of the slice, with all objects at their addresses: `write` and `read` together.
    pub fetch_addresses: Vec<String>,
    /// The instances in the state that the run may write.
    pub write_addresses: Vec<String>,
    /// The other instances that a plan of the write set looks at.
    pub read_addresses: Vec<String>,
    /// Declared blocks of the scope without an object in the state.
    pub config_required_nodes: Vec<String>,
    /// What is written or asked for, but not declared any more.
    pub removed_config_nodes: Vec<String>,
    /// Targets that mean nothing in the state.
    pub missing_from_state: Vec<String>,
    /// Those of them that the configuration declares.
    pub undeployed_candidates: Vec<String>,
    /// What is in neither, be it a target or something the scope refers to.
    pub unknown_missing_from_state: Vec<String>,
    /// What a run on the scope must reserve.
    pub reservation_candidates: ClaimSet,
    /// All that is written, with what was added to the targets asked for: what a plan must target.
    pub write_targets: Vec<Target>,
    /// The pending moves that have to do with the scope. Both ends of each are in it, unless the
    /// scope destroys: then one that is not keeps it from being safe.
    pub moves: Vec<Move>,
    pub outputs: ScopeOutputs,
    pub confidence: Confidence,
    /// What led to the confidence, and what else is worth knowing, the gravest first.
    pub findings: Vec<Finding>,
    pub diagnostics: Diagnostics,
}

/// How much was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Diagnostics {
    pub realized_resource_count: usize,
    /// Edges of the scope, recorded and configured.
    pub dependency_edge_count: usize,
    pub walked_node_count: usize,
    pub config_node_count: usize,
    pub module_selector_count: usize,
    pub fetch_address_count: usize,
    pub write_address_count: usize,
    pub read_address_count: usize,
}

impl ScopeContract {
    /// The findings as sentences.
    pub fn notes(&self) -> Vec<String> {
        self.findings.iter().map(ToString::to_string).collect()
    }
}
