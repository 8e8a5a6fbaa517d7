//! Runs of clients that work out their scope themselves, what they reserve, and what they commit.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use super::or_default;

/// It was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Done {
    /// True.
    pub ok: bool,
}

/// Begins a run that reserves nothing yet.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct BeginApplyRun {
    /// The state: `workspace/environment/name`.
    #[serde(deserialize_with = "or_default")]
    pub state: String,
    /// `user@host`; the principal's name unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Chosen by the client, at most 200 characters: the same key is the same run. Idempotency-Key says the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Anything; repeated in the answer.
    #[schema(value_type = Object)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub info: Option<Value>,
}

/// A run as clients of the protocol get it, each member in both spellings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ApplyRun {
    /// Its id.
    pub id: Uuid,
    /// The state's.
    pub state_id: Uuid,
    /// The version it began on.
    pub from_version_id: Option<Uuid>,
    /// The version it ended with.
    pub to_version_id: Option<Uuid>,
    /// The serial it began on.
    pub source_serial: u64,
    /// The serial it ended with.
    pub committed_serial: Option<u64>,
    /// `user@host`.
    pub actor: String,
    /// `running`, `committed`, `failed` or `aborted`.
    pub status: String,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// The same.
    pub created_at: DateTime<Utc>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// Why it failed.
    pub error_summary: Option<String>,
    /// From the request.
    #[schema(value_type = Object)]
    pub info: Value,
}

/// How far a run has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunState {
    /// `running`, `committed`, `failed` or `aborted`.
    pub status: String,
}

/// Ends a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct FinishApplyRun {
    /// `committed`, `failed` or `aborted`.
    pub status: String,
    /// With `committed`, and only then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub committed_serial: Option<u64>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_summary: Option<String>,
}

/// Ends somebody's run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct StoppedBy {
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Reserves addresses for a run, all or none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct AcquireReservations {
    /// The state: `workspace/environment/name`.
    #[serde(deserialize_with = "or_default")]
    pub state: String,
    /// The run.
    pub apply_id: String,
    /// For how many seconds without a renewal; 900 unless given, from 10 to 900.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<i64>,
    /// What is reserved.
    #[serde(deserialize_with = "or_default")]
    pub want: Vec<WantedClaim>,
    /// The `ticket` of the 423 before: keeps the place in the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
}

/// An address to be reserved.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct WantedClaim {
    /// An instance, a resource with all its instances, a module with all beneath it, `output.NAME`, or `*`.
    #[serde(alias = "AddressGlob", alias = "address")]
    pub address_glob: String,
    /// `read` or `write`.
    #[serde(alias = "Mode")]
    pub mode: String,
}

/// Renews what a run holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Lease {
    /// Not heeded: the lease has the length that it was granted with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<i64>,
}

/// What was renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RenewedReservations {
    /// True.
    pub ok: bool,
    /// How many claims live on; 0 when what was held is lost.
    pub renewed: u64,
}

/// Asks whether plain Terraform finds the state locked by the run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct NativeLockRequest {
    /// The state: `workspace/environment/name`.
    #[serde(deserialize_with = "or_default")]
    pub state: String,
    /// The run.
    pub apply_id: String,
}

/// Plain Terraform finds the state locked while the run holds something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NativeLock {
    /// True.
    pub ok: bool,
    /// A name for it.
    pub lock_id: String,
}

/// Commits what is to stand at some addresses.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct CommitRequest {
    /// The state: `workspace/environment/name`.
    #[serde(deserialize_with = "or_default")]
    pub state: String,
    /// The run.
    pub apply_id: String,
    /// The serial of the version that the client worked from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_serial: Option<u64>,
    /// `snapshot` (unless given) or `delta`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// A state document, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_state: Option<String>,
    /// The addresses that are taken from it; all and the outputs, too, unless given.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub write_set: Vec<String>,
    /// What is written, in place of a document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta: Option<CommitDelta>,
}

/// What is written.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct CommitDelta {
    /// For the first version of a state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terraform_version: Option<String>,
    /// For the first version of a state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lineage: Option<String>,
    /// Root outputs with what they are to be.
    #[schema(value_type = Object)]
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub output_writes: BTreeMap<String, Box<RawValue>>,
    /// Root outputs that go.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub output_delete_set: Vec<String>,
    /// Resources with instances, as a state document has them.
    #[schema(value_type = Vec<Object>)]
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Box<RawValue>>,
    /// Addresses that are to hold what `resources` hold there, or nothing.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub write_set: Vec<String>,
    /// Addresses that are to hold nothing.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub delete_set: Vec<String>,
}

/// What a commit came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CommitAnswer {
    /// True.
    pub ok: bool,
    /// The serial of the version that holds it.
    pub committed_serial: u64,
    /// That version; absent where nothing was to be written to a state without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_version_id: Option<Uuid>,
    /// `delta`, `snapshot` or `snapshot-selected`.
    pub commit_mode: String,
}
