//! Native operations on single addresses of a state: forget, move, restore, patch. Each is previewed or done.
//!
//! Names and shapes follow the public state engine protocol v1 where it has them.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::RunId;
use crate::states::Version;

/// Who does something, and how a lost answer is asked for again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct OperationBy {
    /// `user@host`; the principal's name unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The command, as others see it; made up from the request unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Chosen by the client, at most 200 characters: the same key is the same operation, done once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Forgets what stands at some addresses. The infrastructure stays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct RemoveRequest {
    /// The state: `workspace/environment/name`.
    pub state: String,
    /// An instance, a resource with all its instances, or a module with all beneath it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// More of them, forgotten in the same version.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Who, and with which key.
    #[serde(flatten)]
    pub by: OperationBy,
}

/// Lets objects stand elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct MoveRequest {
    /// The state: `workspace/environment/name`.
    pub state: String,
    /// Where it stands.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// Where it is to stand.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub to: String,
    /// More of them, one after the other, in the same version.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<AddressMove>,
    /// Who, and with which key.
    #[serde(flatten)]
    pub by: OperationBy,
}

/// One move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AddressMove {
    /// Where it stands.
    pub from: String,
    /// Where it is to stand.
    pub to: String,
}

/// Lets an address hold what it held in another version.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct RestoreRequest {
    /// The state: `workspace/environment/name`.
    pub state: String,
    /// An instance, with its deposed objects.
    pub address: String,
    /// The version: `@1` for the one before the newest, an id, `seq:3`, `serial:5`, or a number where that is one version.
    pub to: String,
    /// Who, and with which key.
    #[serde(flatten)]
    pub by: OperationBy,
}

/// Changes attribute values of one object.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct PatchRequest {
    /// The state: `workspace/environment/name`.
    pub state: String,
    /// An instance.
    pub address: String,
    /// The key of a deposed object, instead of the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deposed: Option<String>,
    /// The values.
    pub values: Vec<PatchValue>,
    /// Who, and with which key.
    #[serde(flatten)]
    pub by: OperationBy,
}

/// One attribute value.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PatchValue {
    /// The way to it: names of members and numbers of elements.
    pub path: Vec<PathStep>,
    /// What stands there now; if it does not, nothing is done.
    #[schema(value_type = Object)]
    pub old: Box<RawValue>,
    /// What is to stand there.
    #[schema(value_type = Object)]
    pub new: Box<RawValue>,
}

/// A step on the way to a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum PathStep {
    /// A member of an object.
    Member(String),
    /// An element of a list, from 0.
    Element(u32),
}

/// What an operation does, or would do.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct OperationPreview {
    /// `workspace/environment/name`.
    pub state: String,
    /// `remove`, `move`, `replace`, `restore`, `patch`, or `no-op`.
    pub action: String,
    /// What it is on.
    pub address: String,
    /// Where that is to stand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_address: Option<String>,
    /// The version it is on.
    pub current: Version,
    /// The version that something is taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Version>,
    /// Whether something stands at the address.
    pub current_exists: bool,
    /// Whether something is to stand there.
    pub target_exists: bool,
    /// The attributes of the object, if it is one.
    #[schema(value_type = Object)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_attrs: Option<Box<RawValue>>,
    /// What they are to be.
    #[schema(value_type = Object)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_attrs: Option<Box<RawValue>>,
    /// The paths of sensitive ones.
    #[schema(value_type = Object)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_sensitive_paths: Option<Box<RawValue>>,
    /// As they are to be.
    #[schema(value_type = Object)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_sensitive_paths: Option<Box<RawValue>>,
    /// Every address that is written, sorted.
    pub changes: Vec<AddressChange>,
    /// The blocks it is recorded to depend on.
    pub dependencies: Vec<String>,
    /// The blocks that are recorded to depend on it.
    pub dependents: Vec<String>,
    /// What is worth knowing.
    pub warnings: Vec<String>,
}

/// What becomes of an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AddressChange {
    /// The address.
    pub address: String,
    /// What becomes of it.
    pub change: AddressChangeKind,
}

/// What becomes of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AddressChangeKind {
    /// Something comes to stand there.
    Added,
    /// It becomes another, or its dependency list follows a move.
    Changed,
    /// Nothing stands there any more.
    Removed,
}

/// The answer to a preview, and to an operation that was done.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct OperationAnswer {
    /// True.
    pub ok: bool,
    /// What it does.
    pub preview: OperationPreview,
    /// The version that was made; absent in previews, and where there was nothing to do.
    pub version: Option<Version>,
    /// The run that did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
}
