//! The state engine routes: primitives that runs are made of, for native clients of any kind.
//!
//! Names and shapes follow the public state engine protocol v1.

mod runs;

pub use runs::*;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::scope::{AddressSource, ScopeConfidence, ScopeContract, ScopeDiagnostics, ScopeRequest};
use crate::scope::{ScopeClaim, ScopeNode};

/// How a request names its state: in any of these ways, or in several that mean the same state.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct StateIdentity {
    /// `workspace/environment/name`; a name alone where the credential is for one environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The state's address: what follows `/v1/states/` in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_url: Option<String>,
    /// The workspace, beside `env_public_id` and `state_name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<String>,
    /// The environment, beside `workspace_id` and `state_name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env_public_id: Option<String>,
    /// The name; alone where the credential is for one environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_name: Option<String>,
}

impl StateIdentity {
    /// Each name that was given, as `workspace/environment/name` or as a name alone. Blank ones were not given.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let given = |member: &Option<String>| {
            let text = member.as_deref().unwrap_or_default().trim();
            (!text.is_empty()).then(|| text.to_owned())
        };
        let mut paths: Vec<String> = given(&self.state).into_iter().collect();
        paths.extend(given(&self.state_url).map(|url| path_of(&url)));
        if let Some(name) = given(&self.state_name) {
            paths.push(
                match (given(&self.workspace_id), given(&self.env_public_id)) {
                    (None, None) => name,
                    (workspace, environment) => format!(
                        "{}/{}/{name}",
                        workspace.unwrap_or_default(),
                        environment.unwrap_or_default()
                    ),
                },
            );
        }
        paths
    }
}

/// The part of a state's address that names it.
fn path_of(url: &str) -> String {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let named = path
        .split_once("/v1/states/")
        .map_or(path, |(_, rest)| rest);
    named.trim_matches('/').to_owned()
}

/// Null stands for "none" in requests of clients that are written in Go.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// What a deployment can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Capabilities {
    /// `state-engine`.
    pub protocol: String,
    /// `v1`.
    pub version: String,
    /// By name; what is not there cannot be done.
    pub capabilities: std::collections::BTreeMap<String, bool>,
}

/// Asks for a scope to be worked out: either in the members of a scope request, or in those of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ExpandRequest {
    /// The state: `workspace/environment/name`.
    pub state: String,
    /// What is asked for.
    #[serde(flatten)]
    pub scope: ScopeRequest,
    /// Targets by kind.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub selectors: Vec<Selector>,
    /// What the client knows of the configuration.
    #[serde(deserialize_with = "or_default")]
    pub client_context: ClientContext,
}

/// A target by its kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Selector {
    /// `resource_address` or `module_prefix`; others are ignored.
    pub kind: String,
    /// The address.
    pub value: String,
}

/// What a client knows of the configuration, in the words of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ClientContext {
    /// Targets to be written.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub explicit_write_candidates: Vec<String>,
    /// Targets to be read.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub explicit_read_candidates: Vec<String>,
    /// As [`ScopeRequest::undeployed`].
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub undeployed_config_candidates: Vec<String>,
    /// As [`ScopeRequest::removed`].
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub removed_config_candidates: Vec<String>,
    /// Every block of the configuration.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub config_nodes: Vec<ScopeNode>,
}

/// A scope, worked out. All but `state` and `scope_contract` repeats a member of the contract for older clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExpandResponse {
    /// `workspace/environment/name`.
    pub state: String,
    /// `backend_authoritative`.
    pub contract_source: String,
    /// The version it was worked out on; 0 where nothing was ever written.
    pub seq: i64,
    /// The contract.
    pub scope_contract: ScopeContract,
    /// As in the contract.
    pub fetch_addresses: Vec<String>,
    /// As in the contract: `write_addresses`.
    pub realized_write_closure: Vec<String>,
    /// As in the contract: `read_addresses`.
    pub realized_read_closure: Vec<String>,
    /// As in the contract.
    pub missing_from_state: Vec<String>,
    /// As in the contract.
    pub undeployed_candidates: Vec<String>,
    /// As in the contract.
    pub unknown_missing_from_state: Vec<String>,
    /// As in the contract, in both spellings.
    pub reservation_candidates: Vec<ScopeClaim>,
    /// As in the contract.
    pub confidence: ScopeConfidence,
    /// As in the contract.
    pub notes: Vec<String>,
    /// As in the contract.
    pub diagnostics: ScopeDiagnostics,
}

/// Asks for the instances at some addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct SliceRequest {
    /// The state: `workspace/environment/name`.
    pub state: String,
    /// Instance addresses; what is not in the state is left out.
    #[serde(deserialize_with = "or_default")]
    pub addresses: Vec<String>,
    /// Repeated in the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_serial: Option<u64>,
}

/// The instances at some addresses.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SliceResponse {
    /// `workspace/environment/name`.
    pub state: String,
    /// Its id.
    pub state_id: Uuid,
    /// The lineage.
    pub lineage: String,
    /// The serial.
    pub serial: u64,
    /// The version.
    pub seq: i64,
    /// The instances.
    pub slice: Slice,
}

/// A part of a state.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Slice {
    /// The instances, in document order; at one address the current object and the deposed ones.
    pub resources: Vec<SliceResource>,
    /// Always empty: see the outputs of the state.
    pub outputs: Vec<String>,
    /// How it was made.
    pub metadata: SliceMetadata,
}

/// How a slice was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SliceMetadata {
    /// From the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_serial: Option<u64>,
    /// How much was looked at.
    pub diagnostics: SliceDiagnostics,
}

/// How much was looked at for a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SliceDiagnostics {
    /// Addresses that were asked for.
    pub requested_address_count: u64,
    /// Objects that were found.
    pub materialized_count: u64,
    /// Milliseconds that the service took.
    pub materialize_duration_ms: u64,
}

/// An object of a state, whole: whoever writes it back loses nothing.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SliceResource {
    /// The instance's address.
    pub address: String,
    /// `managed` or `data`.
    pub mode: String,
    /// The resource type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The resource's name.
    pub name: String,
    /// The provider, as the state has it.
    pub provider: String,
    /// The path of the module instance; empty for the root module.
    pub module_path: String,
    /// `none`, `int` or `string`.
    pub index_kind: String,
    /// The key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_value: Option<String>,
    /// The serial of the version that wrote it.
    pub create_serial: u64,
    /// The attributes, as they are stored.
    #[schema(value_type = Object)]
    pub attributes: Box<RawValue>,
    /// The paths of sensitive attributes, as they are stored.
    #[schema(value_type = Object)]
    pub sensitive_paths: Box<RawValue>,
    /// The blocks it depends on, as recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<String>,
    /// SHA-256 of the attributes, in hex.
    pub attributes_hash: String,
    /// The version of the provider's schema, as it is stored.
    #[schema(value_type = Object)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<Box<RawValue>>,
    /// What the provider keeps for itself.
    #[schema(value_type = Object)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private: Option<Box<RawValue>>,
    /// `tainted`, or absent.
    #[schema(value_type = Object)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Box<RawValue>>,
    /// The key of a deposed object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deposed: Option<String>,
    /// As it is stored.
    #[schema(value_type = Object)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create_before_destroy: Option<Box<RawValue>>,
    /// As it is stored.
    #[schema(value_type = Object)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Box<RawValue>>,
    /// As it is stored.
    #[schema(value_type = Object)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_schema_version: Option<Box<RawValue>>,
}

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
    /// The names of the root outputs, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_named_in_every_way_the_protocol_knows() {
        for (body, paths) in [
            (r#"{"state": " w/e/n "}"#, &["w/e/n"][..]),
            (r#"{"state": "  "}"#, &[]),
            (
                r#"{"state_url": "https://h:1/v1/states/w/e/n/?x=1"}"#,
                &["w/e/n"],
            ),
            (
                r#"{"workspace_id": "w", "env_public_id": "e", "state_name": "n"}"#,
                &["w/e/n"],
            ),
            (r#"{"state_name": "n"}"#, &["n"]),
            (r#"{"workspace_id": "w", "state_name": "n"}"#, &["w//n"]),
            (r#"{"state": "a", "state_name": "b"}"#, &["a", "b"]),
            (r#"{"state": null, "workspace_id": "w"}"#, &[]),
        ] {
            let identity: StateIdentity = serde_json::from_str(body).unwrap();
            assert_eq!(identity.paths(), paths, "{body}");
        }
    }

    #[test]
    fn null_is_no_list() {
        let body = r#"{"state": "n", "selectors": null, "client_context": {"config_nodes": null}}"#;
        let request: ExpandRequest = serde_json::from_str(body).unwrap();
        assert!(request.selectors.is_empty() && request.client_context.config_nodes.is_empty());
        assert_eq!(request.scope, ScopeRequest::default());
    }
}
