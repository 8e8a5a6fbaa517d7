//! States as the JSON routes show them: lists, status, versions, resources, outputs.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::runs::Unsettled;
use crate::{PrincipalId, ReservationId, RunId, StateId, StateName, VersionId};

/// Whether a state may be read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StateLifecycle {
    /// In use.
    Active,
    /// Being restored from an archive; not visible yet.
    Importing,
    /// Kept for reading only.
    Archived,
    /// Deleted; its history is kept until it is purged.
    Deleted,
}

/// A state in a list.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StateSummary {
    /// Its id.
    pub id: StateId,
    /// Its name.
    pub name: StateName,
    /// Whether it may be used.
    pub lifecycle: StateLifecycle,
    /// The newest version's number; absent before the first write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_seq: Option<i64>,
    /// The newest version's serial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<u64>,
    /// How many instances the newest version has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_count: Option<i64>,
    /// The newest version's size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<i64>,
    /// When the newest version was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<DateTime<Utc>>,
    /// When it was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<DateTime<Utc>>,
    /// Whether anybody holds it.
    pub locked: bool,
}

/// A page of states.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StatePage {
    /// The states, by name.
    pub states: Vec<StateSummary>,
    /// Where the next page begins; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A state with its newest version and its lock.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StateStatus {
    /// Its id.
    pub id: StateId,
    /// Its name.
    pub name: StateName,
    /// Whether it may be used.
    pub lifecycle: StateLifecycle,
    /// When its first version was written.
    pub created_at: DateTime<Utc>,
    /// The newest version; absent before the first write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Version>,
    /// How many versions are kept.
    pub version_count: i64,
    /// Who holds the state; empty when nobody does.
    pub holders: Vec<LockHolder>,
    /// Who waits for a part of it, in the order in which they will be served.
    #[serde(default)]
    pub waiting: Vec<WaitingClient>,
    /// For how many seconds a run usually holds its scope: the median of the last twenty. Absent before the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual_hold_seconds: Option<u32>,
    /// Documents that were written too late, and kept instead of lost; newest first.
    #[serde(default)]
    pub kept: Vec<KeptResult>,
    /// Addresses whose record may differ from the real infrastructure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsettled: Vec<Unsettled>,
}

/// A document whose lock had ended when it was written. It may describe real infrastructure that the state does not.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct KeptResult {
    /// Its id.
    pub id: uuid::Uuid,
    /// The lock under which it was written.
    pub lock_id: String,
    /// The run that it was uploaded to; absent for a write of plain Terraform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The version that its writer started from.
    pub base_seq: i64,
    /// Its size in bytes.
    pub size_bytes: i64,
    /// When it was kept.
    pub kept_at: DateTime<Utc>,
    /// Whose it is.
    pub kept_by: String,
    /// Whether somebody has dealt with it.
    pub settled: bool,
}

/// Somebody who waits for a part of a state.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct WaitingClient {
    /// Who, and what for.
    #[serde(flatten)]
    pub about: About,
    /// Since when.
    pub since: DateTime<Utc>,
}

/// Who asks for a part of a state.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct About {
    /// `user@host`.
    pub who: String,
    /// What it wants to do.
    pub command: String,
    /// In which way: `terraform` or `native`.
    pub lane: String,
}

/// In which way a state is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LockLane {
    /// A lock of plain Terraform on the whole state.
    Terraform,
    /// A reservation of a `kl` run.
    Native,
    /// An administrative lock, made by hand with a message.
    Admin,
}

/// Who holds a state, for how long, and whether they still show signs of life.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LockHolder {
    /// The reservation's id.
    pub id: ReservationId,
    /// In which way.
    pub lane: LockLane,
    /// The id that the holder itself uses: Terraform's lock id.
    pub lock_id: String,
    /// `user@host`, or the principal's name.
    pub who: String,
    /// What the holder is doing.
    pub operation: String,
    /// Anything more the holder said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub info: String,
    /// The principal that took it.
    pub principal: PrincipalId,
    /// Since when.
    pub created_at: DateTime<Utc>,
    /// For how many seconds, by the database's clock.
    pub age_seconds: i64,
    /// When the holder was last heard of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_activity_at: Option<DateTime<Utc>>,
    /// When it ends by itself; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<DateTime<Utc>>,
}

/// How a version came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VersionSource {
    /// Written by plain Terraform.
    Terraform,
    /// Committed by a `kl` run.
    Native,
    /// An old version made current again.
    Rollback,
    /// Brought in as a document.
    Import,
    /// Restored from an archive.
    Archive,
}

/// One version of a state.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// Its id.
    pub id: VersionId,
    /// Its number in the state's history: 1, 2, 3 …, never repeated.
    pub seq: i64,
    /// Terraform's serial; absent where the document has none, as an encrypted one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<u64>,
    /// Terraform's lineage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<String>,
    /// The Terraform version that wrote the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terraform_version: Option<String>,
    /// How it came to be.
    pub source: VersionSource,
    /// When it was written.
    pub created_at: DateTime<Utc>,
    /// Who wrote it: the principal's name at the time.
    pub created_by: String,
    /// How many instances it has.
    pub instance_count: i64,
    /// How many instances the version before it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_instance_count: Option<i64>,
    /// How many rows were closed or opened for it.
    pub rows_changed: i64,
    /// Its size in bytes; absent where the document has not been rendered yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<i64>,
    /// The document's SHA-256 in hex; absent where it has not been needed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Whether its serial or lineage did not follow from the version before it (`state push -force`).
    pub forced: bool,
    /// Whether it was written without a lock.
    pub unlocked: bool,
    /// The run that wrote it; absent for what plain Terraform wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The command of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// A page of versions, newest first.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct VersionPage {
    /// The versions.
    pub versions: Vec<Version>,
    /// Where the next page begins; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// One instance of a state, without its values.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ResourceSummary {
    /// Its address, as `terraform state list` prints it.
    pub address: String,
    /// `managed` or `data`.
    pub mode: String,
    /// The resource type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The resource name.
    pub name: String,
    /// The provider, as the state names it.
    pub provider: String,
    /// The key of a deposed object; absent for the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deposed: Option<String>,
    /// The version in which it last changed.
    pub since_seq: i64,
}

/// A page of instances in the order of the document.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ResourcePage {
    /// The version shown.
    pub seq: i64,
    /// The instances.
    pub resources: Vec<ResourceSummary>,
    /// Where the next page begins; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// One instance with what the caller may see of its values.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ResourceDetail {
    /// Address, type, provider.
    #[serde(flatten)]
    pub summary: ResourceSummary,
    /// The version shown.
    pub seq: i64,
    /// Whether the instance is marked for replacement.
    pub tainted: bool,
    /// The configuration addresses it depends on.
    pub dependencies: Vec<String>,
    /// The attributes; absent for a viewer. Sensitive ones are masked unless asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub attributes: Option<Box<RawValue>>,
    /// Whether sensitive values are masked in `attributes`.
    pub masked: bool,
}

/// One root output.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Output {
    /// The value; absent where it is sensitive and the caller may not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub value: Option<Box<RawValue>>,
    /// The value's type, as Terraform writes it.
    #[serde(rename = "type")]
    #[schema(value_type = Value)]
    pub kind: Box<RawValue>,
    /// Whether the configuration marks it sensitive.
    pub sensitive: bool,
}

/// The root outputs of a state's newest version.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Outputs {
    /// The version shown.
    pub seq: i64,
    /// The outputs by name.
    pub outputs: BTreeMap<String, Output>,
}

/// Makes an old version current again, as a new version on top.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackRequest {
    /// The version to go back to: its number or id.
    pub to: String,
}

/// Takes an administrative lock.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdminLockRequest {
    /// Why, for those who will meet the lock.
    pub message: String,
}

/// Breaks a lock.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForceUnlockRequest {
    /// Break only the lock of this id; absent: whichever holds the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_id: Option<String>,
}

/// Brings a deleted state back.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UndeleteRequest {
    /// Which one, where several states of the name were deleted; absent: the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_id: Option<StateId>,
}

/// What a rollback did.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RollbackAnswer {
    /// The new version's number.
    pub seq: i64,
    /// The new version's serial.
    pub serial: u64,
    /// How many rows were closed or opened.
    pub rows_changed: u64,
    /// The version that was current before.
    pub from: Version,
    /// The version whose content is current again.
    pub to: Version,
    /// Who did it.
    pub by: String,
}

/// What an import did.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ImportAnswer {
    /// The number of the version that holds the document.
    pub seq: i64,
    /// False when the document was the newest version already.
    pub changed: bool,
}

/// What a forced unlock did.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ForceUnlockAnswer {
    /// The lock that was broken; absent when nothing was held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<LockHolder>,
}

/// Which state was brought back.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct UndeleteAnswer {
    /// Its id.
    pub state_id: StateId,
}

/// What a resource depends on and what depends on it. Blocks of the configuration, without keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GraphNeighbours {
    /// The version.
    pub seq: i64,
    /// The block.
    pub address: String,
    /// Its instances in the state.
    pub instances: Vec<String>,
    /// What it depends on.
    pub dependencies: Vec<String>,
    /// What depends on it.
    pub dependents: Vec<String>,
    /// Whether dependencies were followed to their end.
    pub transitive: bool,
}
