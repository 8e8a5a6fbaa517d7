//! Runs: one audited operation on a scope, from begin to finish.
//!
//! A run has an http backend of its own, which serves the slice to Terraform and takes it back as a delta.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::scope::{ClaimMode, ScopeClaim, ScopeContract, ScopeRequest};
use crate::{PrincipalId, ReservationId, RunId, StateName, VersionId};

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// Looks, reserves nothing, and can write nothing.
    Plan,
    /// Reserves its scope, and may write it.
    Apply,
    /// A native operation, such as `state rm`.
    Operation,
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Under way.
    Running,
    /// A plan was made; the run sleeps until that plan is applied, or is too old.
    Planned,
    /// Done.
    Succeeded,
    /// Ended with an error; what was built is on record.
    Failed,
    /// Ended by somebody.
    Aborted,
    /// Its lease ran out.
    Expired,
}

/// Begins a run. The same `key` again is the same run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BeginRun {
    /// The state: `workspace/environment/name`.
    pub state: String,
    /// What the run is for.
    pub kind: RunKind,
    /// Chosen by the client, at most 200 characters: an answer that was lost is asked for again with it.
    pub key: String,
    /// The command, as others see it: `kl apply -f database.tf`.
    pub command: String,
    /// `user@host`.
    pub who: String,
    /// What the run is on.
    pub scope: ScopeRequest,
    /// For how many seconds the reservation lives without a renewal; 60 if absent, from 10 to 900.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<u32>,
    /// How many seconds to wait in this request for a busy scope: 0 to 25.
    #[serde(default)]
    pub wait_seconds: u32,
    /// From an earlier refusal: keeps the place in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
}

/// A run as its client gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// The state's name.
    pub state: StateName,
    /// What it is for.
    pub kind: RunKind,
    /// How far it has come.
    pub status: RunStatus,
    /// The command.
    pub command: String,
    /// `user@host`.
    pub who: String,
    /// The principal that began it.
    pub principal: PrincipalId,
    /// The version that the slice shows; 0 where the state has none.
    pub base_seq: i64,
    /// The same version's serial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_serial: Option<u64>,
    /// What it fetches, reads, writes and claims.
    pub contract: ScopeContract,
    /// What it holds; absent for a plan, and when it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<RunReservation>,
    /// Addresses of the scope whose record may differ from the real infrastructure: refresh them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsettled: Vec<Unsettled>,
    /// Where Terraform finds the run. Only in answers to begin and reopen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<RunBackend>,
    /// The versions it wrote, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<RunVersion>,
    /// Uploads that were kept instead of committed.
    #[serde(default)]
    pub kept_count: u32,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<DateTime<Utc>>,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A version that a run wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunVersion {
    /// Its id.
    pub id: VersionId,
    /// Its number.
    pub seq: i64,
    /// Its serial.
    pub serial: u64,
    /// Addresses it created, changed or removed.
    pub changed: Vec<String>,
}

/// What a run holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunReservation {
    /// Its id.
    pub id: ReservationId,
    /// The fencing token.
    pub token: i64,
    /// For how many seconds it lives without a renewal.
    pub lease_seconds: u32,
    /// When it is due, by the database's clock.
    pub expires_at: DateTime<Utc>,
    /// Its claims.
    pub claims: Vec<ScopeClaim>,
    /// Whether the queue was not asked, so that order is not promised.
    #[serde(default)]
    pub degraded: bool,
}

/// An address whose record may differ from the real infrastructure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Unsettled {
    /// The address, or the prefix that was claimed.
    pub address: String,
    /// The run that ended without its own release; absent for a lock of plain Terraform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Whose it was: `user@host`; empty where that is not known.
    #[serde(default)]
    pub who: String,
    /// What happened.
    pub reason: String,
    /// Since when.
    pub since: DateTime<Utc>,
}

/// A run's own http backend. The token reaches nothing but this run, and ends with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunBackend {
    /// For `address`, `lock_address` and `unlock_address`.
    pub address: String,
    /// For `username`.
    pub username: String,
    /// For `password`: `klr_…`.
    pub password: String,
}

/// Renews a run's lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RenewRun {
    /// The fencing token, from [`RunReservation::token`].
    pub token: i64,
}

/// What a renewal answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Renewed {
    /// For how many seconds the reservation lives from now on.
    pub lease_seconds: u32,
    /// When it is due.
    pub expires_at: DateTime<Utc>,
    /// How many uploads were kept instead of committed: from one on, start nothing new.
    #[serde(default)]
    pub kept_count: u32,
}

/// Adds claims to a run, at once or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExtendRun {
    /// The fencing token.
    pub token: i64,
    /// What is claimed besides.
    pub claims: Vec<ScopeClaim>,
}

/// How a run's work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// A plan was made and kept in a file: the run sleeps until it is applied.
    Planned,
    /// All was done, or there was nothing to do.
    Succeeded,
    /// It was not all done.
    Failed,
}

/// Ends a run and releases what it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FinishRun {
    /// How it ended.
    pub outcome: RunOutcome,
    /// With `planned`: the SHA-256 of the plan file, in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_sha256: Option<String>,
    /// With `failed`: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether kl held the plan against the contract; else objects that changed outside the claims become unsettled.
    #[serde(default)]
    pub checked: bool,
    /// Whether Terraform looked at the real objects: false after a plan with `-refresh=false`, which settles nothing.
    #[serde(default = "yes")]
    pub refreshed: bool,
}

fn yes() -> bool {
    true
}

/// Ends somebody's run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct AbortRun {
    /// Why, for the record and for its holder.
    pub reason: String,
}

/// Wakes the run of a saved plan, to apply it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReopenRun {
    /// The state: `workspace/environment/name`.
    pub state: String,
    /// The SHA-256 of the plan file, in hex.
    pub plan_sha256: String,
    /// As in [`BeginRun::key`].
    pub key: String,
    /// The command, as others see it.
    pub command: String,
    /// `user@host`.
    pub who: String,
    /// As in [`BeginRun::lease_seconds`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<u32>,
    /// As in [`BeginRun::wait_seconds`].
    #[serde(default)]
    pub wait_seconds: u32,
    /// As in [`BeginRun::ticket`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
}

/// A page of runs, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunPage {
    /// The runs, without backend.
    pub runs: Vec<Run>,
    /// Where the next page begins; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Who stands in the way of a scope: in the member `conflicts` of a `reservation_conflict`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReservationConflict {
    /// The reservation.
    pub reservation: ReservationId,
    /// Its run; absent for a lock of plain Terraform or of an administrator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// `user@host`.
    pub who: String,
    /// What it is doing.
    pub command: String,
    /// What it claims of what was asked for.
    pub address: String,
    /// How it claims that.
    pub mode: ClaimMode,
    /// Since when it is held.
    pub since: DateTime<Utc>,
    /// When it is due if it is not renewed; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<DateTime<Utc>>,
}

/// Members of a `reservation_conflict` beside those of every problem.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Waiting {
    /// Who stands in the way.
    pub conflicts: Vec<ReservationConflict>,
    /// To be sent with the next try; keeps the place in the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
    /// How many wait in front.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u32>,
    /// About how many seconds it will take, if runs of this state take as long as they usually did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_seconds: Option<u32>,
}

/// A kept upload beside the state, address by address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeptComparison {
    /// The kept result.
    pub id: uuid::Uuid,
    /// The run it belongs to; absent for a write of plain Terraform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The addresses that its writer changed.
    pub addresses: Vec<KeptAddress>,
}

/// One address of a kept upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeptAddress {
    /// The address; `output.NAME` for an output.
    pub address: String,
    /// What its writer did to it since its base.
    pub kept: KeptChange,
    /// What has become of it in the state since then.
    pub state: KeptChange,
    /// Whether it was there all along, outside of what the writer's run was shown: the upload replaces an object that its
    /// Terraform did not know, so which of the two stays is always to be said.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outside: bool,
}

/// What became of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeptChange {
    /// Nothing: it is as it was.
    Unchanged,
    /// It came into being.
    Added,
    /// It changed.
    Changed,
    /// It is gone.
    Removed,
}

/// Takes over a kept upload, wholly or in part.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct AdoptKept {
    /// As in [`BeginRun::key`].
    pub key: String,
    /// Addresses to take from the kept upload although the state changed there, too.
    pub prefer_kept: Vec<String>,
    /// Addresses to leave as the state has them.
    pub prefer_state: Vec<String>,
}
