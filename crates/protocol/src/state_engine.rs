//! The state engine routes: primitives that runs are made of, for native clients of any kind.
//!
//! Names and shapes follow the public state engine protocol v1.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::scope::AddressSource;

/// Asks what a state is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ResolveRequest {
    /// The state: `workspace/environment/name`.
    pub state: String,
    /// Files of the configuration: which resources were last written from them?
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// What a state is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResolveResponse {
    /// `workspace/environment/name`.
    pub state: String,
    /// Its id; absent where nothing was ever written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_id: Option<Uuid>,
    /// The workspace.
    pub workspace_id: String,
    /// The environment.
    pub env_public_id: String,
    /// The name.
    pub state_name: String,
    /// The lineage; empty if there is none.
    pub lineage: String,
    /// The serial; 0 where nothing was ever written.
    pub serial: u64,
    /// Who made the state.
    #[serde(default)]
    pub creator: String,
    /// The newest version's number; 0 where nothing was ever written.
    #[serde(default)]
    pub seq: i64,
    /// Whether the native lane works on this state: false for documents that are kept whole.
    #[serde(default)]
    pub native: bool,
    /// SHA-256, in hex, over the sorted config-level addresses of managed resources in the state, each followed by a
    /// line feed. A client whose configuration has the same digest has neither orphans nor anything undeployed.
    #[serde(default)]
    pub inventory_digest: String,
    /// Resources in the state that were last written from one of the files asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recorded_sources: Vec<AddressSource>,
}

/// The config-level addresses of managed resources in a state, sorted, each with the file it was last written from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Inventory {
    /// The version.
    pub seq: i64,
    /// The digest, as in [`ResolveResponse::inventory_digest`].
    pub digest: String,
    /// The addresses.
    pub addresses: Vec<InventoryAddress>,
}

/// One config-level address in a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InventoryAddress {
    /// The address, without keys.
    pub address: String,
    /// The file it was last written from, if that was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}
