//! Scopes: what an operation intends to touch, and the contract that the service makes of it.
//!
//! Field names are those of the state engine protocol where it documents them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a run asks for: targets, and what the client read in the configuration.
///
/// A client sends only what bears on the scope: the blocks of the closure (for `destroy` the dependents and their
/// closures, too), the moves, repeated calls and outputs that name one of them. Left out means "has nothing to do with
/// it", which the client vouches for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ScopeRequest {
    /// Whether things are brought up to date or destroyed.
    pub operation: ScopeOperation,
    /// What is to be written: addresses of modules, resources or instances; `*` is the whole state.
    pub write: Vec<String>,
    /// What is to be read besides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// What the configuration no longer has, and the run is to destroy or forget.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// What is declared and known to be not deployed yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub undeployed: Vec<String>,
    /// The part of the configuration that bears on the scope. Without it nothing is proven.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<ScopeConfiguration>,
    /// The files that select the write set, relative to the root module. Resources that were last written from one of
    /// them, and that `declared` does not name, are removed by the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Of the resources last written from one of `files`, those that the configuration still declares, here or
    /// elsewhere; from [`crate::state_engine::ResolveRequest::files`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub declared: Vec<String>,
    /// For each block of the write set, the file that declares it: recorded with whatever the run writes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<AddressSource>,
}

/// Whether a run brings things up to date or destroys them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScopeOperation {
    /// Create and update.
    #[default]
    Apply,
    /// Destroy, and whatever depends on it.
    Destroy,
}

/// The part of a configuration that bears on a scope.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ScopeConfiguration {
    /// Resource blocks, by config-level address.
    pub nodes: Vec<ScopeNode>,
    /// The module calls with `count` or `for_each`; all others have neither. Absent: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<Vec<ScopeCall>>,
    /// Outputs of the root module.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<ScopeOutput>,
    /// `moved` blocks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<ScopeMove>,
    /// What the client did not understand. Each keeps the scope from being proven.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
}

/// A resource block and the blocks it refers to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScopeNode {
    /// The block's address, without keys.
    pub address: String,
    /// The blocks it refers to, directly or through locals, variables, outputs, providers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<String>,
    /// Which keys its instances have.
    #[serde(default)]
    pub repetition: ScopeRepetition,
}

/// Which keys the instances of a block or a call have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScopeRepetition {
    /// The client does not say.
    #[default]
    Unknown,
    /// One instance, without a key.
    Single,
    /// Numbers.
    Count,
    /// Texts.
    ForEach,
}

/// A module call with `count` or `for_each`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScopeCall {
    /// The config-level path of the module it calls, such as `module.a.module.b`.
    pub module: String,
    /// Which keys it gives.
    pub repetition: ScopeRepetition,
}

/// An output of the root module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScopeOutput {
    /// Its name.
    pub name: String,
    /// The blocks it is computed from.
    #[serde(default)]
    pub dependencies: Vec<String>,
}

/// A `moved` block, seen from the root module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScopeMove {
    /// Where the objects were.
    pub from: String,
    /// Where they belong now.
    pub to: String,
}

/// Which file declares a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AddressSource {
    /// The block's address, without keys.
    pub address: String,
    /// The file, relative to the root module.
    pub file: String,
}

/// How far a scope can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScopeConfidence {
    /// A plan on the slice is the plan on the whole state, restricted to the write set.
    Safe,
    /// The same, but more is written or claimed than was asked for.
    Widened,
    /// Something that is needed may be missing.
    Unsafe,
}

/// What a run on a scope fetches, reads, writes and claims. All lists of addresses are sorted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScopeContract {
    /// The instances of the slice.
    pub fetch_addresses: Vec<String>,
    /// The instances in the state that the run may write.
    pub write_addresses: Vec<String>,
    /// The other instances of the slice.
    pub read_addresses: Vec<String>,
    /// Declared blocks of the scope without an object in the state.
    pub config_required_nodes: Vec<String>,
    /// What is written and not declared any more.
    pub removed_config_nodes: Vec<String>,
    /// Targets that mean nothing in the state.
    pub missing_from_state: Vec<String>,
    /// Those of them that the configuration declares.
    pub undeployed_candidates: Vec<String>,
    /// What is in neither.
    pub unknown_missing_from_state: Vec<String>,
    /// What a run on the scope reserves.
    pub reservation_candidates: Vec<ScopeClaim>,
    /// What a plan must target, with what was added to the targets asked for.
    pub write_targets: Vec<String>,
    /// The outputs that the run evaluates.
    #[serde(default)]
    pub outputs_inside: Vec<String>,
    /// Those of them that the run may change.
    #[serde(default)]
    pub outputs_written: Vec<String>,
    /// The outputs of what the run may change that reach beyond the scope: they stay as they are, and may be out of date afterwards.
    #[serde(default)]
    pub outputs_beyond: Vec<ScopeOutput>,
    /// Blocks outside the write set that depend on something in it, as far as recorded.
    #[serde(default)]
    pub dependents: Vec<String>,
    /// How far the scope can be trusted.
    pub confidence: ScopeConfidence,
    /// What led to that, and what else is worth knowing, the gravest first.
    pub notes: Vec<String>,
    /// How much was looked at.
    #[serde(default)]
    pub diagnostics: ScopeDiagnostics,
}

/// A claim: one address, a module, or the whole state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScopeClaim {
    /// What is claimed: an address, a module prefix, `output.NAME`, or `*`.
    pub address: String,
    /// How.
    pub mode: ClaimMode,
}

/// How something is claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClaimMode {
    /// Others may read it, too.
    Read,
    /// Nobody else may read or write it.
    Write,
}

/// How much was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ScopeDiagnostics {
    /// Whether the graph was in memory already.
    pub graph_cache_hit: bool,
    /// Instances in the state.
    pub realized_resource_count: u64,
    /// Edges of the scope.
    pub dependency_edge_count: u64,
    /// Instances read from the database for this answer.
    pub inventory_scan_count: u64,
    /// Blocks of the scope.
    pub walked_node_count: u64,
    /// Blocks that the client sent.
    pub config_node_count: u64,
    /// Modules among the targets.
    pub module_selector_count: u64,
    /// Instances of the slice.
    pub fetch_address_count: u64,
    /// Those that the run may write.
    pub write_address_count: u64,
    /// The others.
    pub read_address_count: u64,
    /// Milliseconds that the service took.
    pub expand_duration_ms: u64,
}
