//! Tags, and the jobs that move states with their whole history.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{EnvironmentId, JobId, StateId, StateName};

/// A name for a version of a state. It travels in archives, and the version it names is never pruned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tag {
    /// The name: a letter, then letters, digits, `.`, `_`, `-`; at most 128 characters.
    pub name: String,
    /// The number of the version it names.
    pub seq: i64,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Who set it: the principal's name at the time.
    pub created_by: String,
    /// When it was set.
    pub created_at: DateTime<Utc>,
}

/// The tags of a state, by name.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TagList {
    /// The tags.
    pub tags: Vec<Tag>,
}

/// Sets a tag.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetTag {
    /// The version it is to name: its number or id, another tag, `head`, or `@1` for the one before the head.
    #[serde(default = "head")]
    pub version: String,
    /// What it is for; 1 to 1000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether a tag that names another version is moved. Otherwise it is refused.
    #[serde(default)]
    pub r#move: bool,
}

fn head() -> String {
    "head".to_owned()
}

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Writes a state with its history into an archive.
    Export,
    /// Restores one from an archive.
    Import,
}

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// It waits for its archive.
    Uploading,
    /// It waits for a worker.
    Queued,
    /// A worker is at it.
    Running,
    /// It is done.
    Done,
    /// It failed; `error` says why. Nothing of it remains.
    Failed,
    /// It was cancelled. Nothing of it remains.
    Cancelled,
}

impl JobStatus {
    /// Whether nothing more will happen.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

/// How much of a job is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct JobProgress {
    /// Versions written or restored.
    pub versions_done: u64,
    /// Versions there are; 0 while that is not known.
    pub versions_total: u64,
    /// Bytes of documents written or restored, or of an archive read.
    pub bytes_done: u64,
    /// Bytes there are; 0 while that is not known.
    pub bytes_total: u64,
}

/// Why a job failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobError {
    /// A stable code: that of the rule an archive broke, or of what went wrong.
    pub code: String,
    /// What was found, and where.
    pub detail: String,
}

/// The archive that an export made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExportedArchive {
    /// A name for the file.
    pub file_name: String,
    /// Its size.
    pub size_bytes: u64,
    /// Its SHA-256, in hex.
    pub sha256: String,
    /// How many versions it holds.
    pub versions: u64,
    /// The number of the newest.
    pub head_seq: i64,
    /// The key that signed it.
    pub key_id: String,
    /// That key, in base64, for `kl archive verify --key`.
    pub public_key: String,
}

/// An id that was taken and got another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Remapped {
    /// In the archive.
    pub from: String,
    /// Here.
    pub to: String,
}

/// The state that an import made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImportedState {
    /// Its id.
    pub state_id: StateId,
    /// How many versions were restored.
    pub versions: u64,
    /// How many tags.
    pub tags: u64,
    /// The number of the newest version.
    pub head_seq: i64,
    /// Who vouches for the archive: `trusted`, `foreign` or `unsigned`. It stays with every version.
    pub origin: String,
    /// SHA-256 over the history; the same for every archive of it, whatever ids it has there.
    pub content_sha256: String,
    /// Ids of the archive that are in use here, and those that stand for them. All others were kept.
    pub remapped: Vec<Remapped>,
    /// The state that had the name before and was deleted for this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<StateId>,
}

/// An export or an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// What it does.
    pub kind: JobKind,
    /// How far it is.
    pub status: JobStatus,
    /// The environment of the state.
    pub environment: EnvironmentId,
    /// The state that is exported, or that is to be made.
    pub state: StateName,
    /// When it was asked for.
    pub created_at: DateTime<Utc>,
    /// By whom.
    pub created_by: String,
    /// When a worker began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<DateTime<Utc>>,
    /// When its archive is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<DateTime<Utc>>,
    /// How often a worker has begun.
    pub attempt: i32,
    /// Whether it is to stop.
    pub cancel_asked: bool,
    /// How much is done.
    pub progress: JobProgress,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<JobError>,
    /// What an export made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<ExportedArchive>,
    /// What an import made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<ImportedState>,
}

/// A page of jobs, newest first.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// Where the next page begins; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Asks for an export.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExportRequest {}

/// Asks for an import, before anything is uploaded.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportRequest {
    /// The name that the state is to have.
    pub name: StateName,
    /// The archive's size.
    pub size_bytes: u64,
    /// The SHA-256 of each part of it, in hex. A part has [`PART_BYTES`] bytes, the last one what is left.
    pub parts: Vec<String>,
    /// The id that the state has in the archive: kept where it is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_id: Option<StateId>,
    /// Whether the state is to be a read-only copy.
    #[serde(default)]
    pub archived: bool,
    /// The name once more, to delete the state that has it now and put this one in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overwrite: Option<StateName>,
    /// Whether an archive is taken that nobody here vouches for. Takes the role admin.
    #[serde(default)]
    pub allow_foreign: bool,
}

/// The size of a part of an upload.
pub const PART_BYTES: u64 = 64 << 20;

/// Where a part of an archive is to be put.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UploadPart {
    /// Its number, from 0.
    pub number: u32,
    /// Its size.
    pub size_bytes: u64,
    /// Where to put it: a whole URL, or a path of this server. A secret while it lives.
    pub url: String,
    /// Headers that must go with it.
    pub headers: BTreeMap<String, String>,
    /// Until when.
    pub expires_at: DateTime<Utc>,
}

/// An import that waits for its archive.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ImportUpload {
    /// The job.
    pub job: Job,
    /// Parts that are missing: the first few of them. None: the upload can be completed.
    pub parts: Vec<UploadPart>,
    /// How many parts are missing in all.
    pub missing: u32,
}

/// Where an archive can be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Download {
    /// A whole URL, or a path of this server. Good for this one file, and a secret while it lives.
    pub url: String,
    /// Until when.
    pub expires_at: DateTime<Utc>,
    /// The archive.
    pub archive: ExportedArchive,
}

/// The keys of this deployment.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ArchiveKeys {
    /// The key that signs its archives, in base64.
    pub signing: String,
    /// Keys whose archives it takes without asking, in base64; its own is the first.
    pub trusted: Vec<String>,
}
