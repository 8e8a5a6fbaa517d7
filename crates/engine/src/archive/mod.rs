//! Archives: a state with its whole history, out through a job and in through another.
//!
//! [`Archives`] is what both services use: `kld` takes requests and hands out addresses ([`requests`]), a worker does the
//! work ([`work`]). The format is the crate `archive`'s, the bytes are kept by the crate `blob`.

mod assemble;
mod attempt;
mod clean;
mod export;
mod import;
mod outcome;
mod requests;
mod restore;
mod work;

use std::sync::Arc;

pub use archive::PublicKey;
use archive::Signer;
use blob::Blobs;
use hmac::{Hmac, KeyInit as _, Mac as _};
use protocol::archives::{Job, JobError, JobKind, JobProgress, JobStatus};
use protocol::{JobId, StateId, WorkspaceId};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use uuid::Uuid;

pub use requests::{NewImport, PART_LIMIT, UploadStanding};
pub use work::{Ending, WorkSettings};

use crate::{Engine, EngineError};

/// What archives may take of a deployment; for each workspace the same.
#[derive(Debug, Clone, Copy)]
pub struct ArchiveLimits {
    /// The largest archive that is taken in or written.
    pub archive_bytes: u64,
    /// The most it may unpack to.
    pub unpacked_bytes: u64,
    /// The most versions of one; never more than the format allows.
    pub versions: u64,
    /// Memory for reading one.
    pub memory_bytes: u64,
    /// How long a worker may be at a job; CPU time is less, since an attempt is one thread's.
    pub attempt_seconds: u64,
    /// Jobs of a workspace that run at once.
    pub jobs_at_once: i64,
    /// Imports of a workspace that have not ended: each keeps a name, and what was uploaded for it.
    pub imports_at_once: i64,
    /// Exports of a workspace in a day.
    pub exports_per_day: i64,
    /// How long an archive can be downloaded.
    pub keep_seconds: i64,
}

impl Default for ArchiveLimits {
    fn default() -> Self {
        Self {
            archive_bytes: 64 << 30,
            unpacked_bytes: 1 << 40,
            versions: archive::MAX_VERSIONS,
            memory_bytes: archive::DEFAULT_MEMORY_BYTES,
            attempt_seconds: 12 * 3600,
            jobs_at_once: 2,
            imports_at_once: 20,
            exports_per_day: 100,
            keep_seconds: 7 * 24 * 3600,
        }
    }
}

/// The use cases of archives. Cheap to clone.
#[derive(Clone)]
pub struct Archives(Arc<Inner>);

pub struct Inner {
    engine: Engine,
    blobs: Blobs,
    signer: Signer,
    /// Keys whose archives are taken without asking; our own is the first.
    trusted: Vec<PublicKey>,
    limits: ArchiveLimits,
}

impl std::ops::Deref for Archives {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// A key for one purpose, drawn from the deployment's.
#[must_use]
pub fn derive_key(deployment_key: &[u8; 32], purpose: &str) -> [u8; 32] {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(deployment_key).expect("HMAC takes a key of any length");
    mac.update(format!("kilolock/1/{purpose}").as_bytes());
    mac.finalize().into_bytes().into()
}

impl Archives {
    /// Archives of this engine's states, kept there. `others`: keys of further deployments that are trusted.
    #[must_use]
    pub fn new(
        engine: Engine,
        blobs: Blobs,
        deployment_key: &[u8; 32],
        others: &[PublicKey],
        limits: ArchiveLimits,
    ) -> Self {
        let signer = Signer::from_seed(&derive_key(deployment_key, "archive-signing"));
        let mut trusted = vec![signer.public_key()];
        trusted.extend(others);
        Self(Arc::new(Inner {
            engine,
            blobs,
            signer,
            trusted,
            limits,
        }))
    }

    /// Where the objects are.
    #[must_use]
    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// The keys whose archives are taken without asking, in base64; the first is the one that signs.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.trusted.iter().map(|key| key.to_base64()).collect()
    }
}

/// The key that signs addresses of a local folder.
#[must_use]
pub fn object_signing_key(deployment_key: &[u8; 32]) -> [u8; 32] {
    derive_key(deployment_key, "object-addresses")
}

/// What an export was asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct ExportInput {
    head_seq: i64,
}

/// What an import was asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct ImportInput {
    size_bytes: u64,
    /// SHA-256 of each part in hex.
    parts: Vec<String>,
    /// The random segment of the parts' keys.
    upload: String,
    archived: bool,
    overwrite: bool,
    allow_foreign: bool,
}

impl ImportInput {
    /// Where part `number` is put.
    fn part_key(
        &self,
        workspace: &WorkspaceId,
        job: Uuid,
        number: usize,
    ) -> Result<blob::ObjectKey, EngineError> {
        let prefix = self.prefix(workspace, job);
        key(&format!("{prefix}{number}"))
    }

    fn prefix(&self, workspace: &WorkspaceId, job: Uuid) -> String {
        format!("{}q/{}/", prefix(workspace, job), self.upload)
    }
}

/// What an export left: the archive and where it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Exported {
    archive: protocol::archives::ExportedArchive,
    key: String,
}

/// Where all objects of a job are.
fn prefix(workspace: &WorkspaceId, job: Uuid) -> String {
    format!("w/{workspace}/{}/", JobId::from_uuid(job))
}

fn key(text: &str) -> Result<blob::ObjectKey, EngineError> {
    text.parse()
        .map_err(|_| EngineError::Blob(blob::BlobError::Damaged("its key is none of ours")))
}

/// Stored data of a job in the form it was stored in.
fn stored<T: serde::de::DeserializeOwned>(value: &serde_json::Value) -> Result<T, EngineError> {
    T::deserialize(value)
        .map_err(|_| EngineError::Blob(blob::BlobError::Damaged("a job's record cannot be read")))
}

fn json(value: &impl Serialize) -> serde_json::Value {
    // Plain data of texts and numbers always serialises.
    serde_json::to_value(value).unwrap_or_default()
}

/// A job as the API shows it.
fn shown(job: &store::jobs::Job) -> Result<Job, EngineError> {
    let status = match job.status {
        store::jobs::JobStatus::Uploading => JobStatus::Uploading,
        store::jobs::JobStatus::Queued => JobStatus::Queued,
        store::jobs::JobStatus::Running => JobStatus::Running,
        store::jobs::JobStatus::Done => JobStatus::Done,
        store::jobs::JobStatus::Failed => JobStatus::Failed,
        store::jobs::JobStatus::Cancelled => JobStatus::Cancelled,
    };
    let (kind, archive, imported) = match (job.kind, &job.result) {
        (store::jobs::JobKind::Export, None) => (JobKind::Export, None, None),
        (store::jobs::JobKind::Import, None) => (JobKind::Import, None, None),
        (store::jobs::JobKind::Export, Some(result)) => {
            let archive = stored::<Exported>(result)?.archive;
            (JobKind::Export, Some(archive), None)
        }
        (store::jobs::JobKind::Import, Some(result)) => {
            (JobKind::Import, None, Some(stored(result)?))
        }
    };
    let error = job.error_code.as_ref().map(|code| JobError {
        code: code.clone(),
        detail: job.error_detail.clone().unwrap_or_default(),
    });
    Ok(Job {
        id: JobId::from_uuid(job.id),
        kind,
        status,
        environment: job.environment.clone(),
        state: job.state_name.parse().map_err(|_| {
            EngineError::Blob(blob::BlobError::Damaged("a job's state has no name"))
        })?,
        created_at: job.created_at,
        created_by: job.display.clone(),
        started_at: job.started_at,
        finished_at: job.finished_at,
        expires_at: job.expires_at,
        attempt: job.attempt,
        cancel_asked: job.cancel_asked,
        progress: stored::<JobProgress>(&job.progress)?,
        error,
        archive,
        imported,
    })
}

/// Who asked for a job, as the audit log names them.
fn actor(job: &store::jobs::Job) -> store::tenancy::audit::Actor<'_> {
    store::tenancy::audit::Actor {
        principal: &job.principal,
        display: &job.display,
        token_id: job.token_id.as_deref(),
        request_id: &job.request_id,
    }
}

/// Records what became of a job, under the name of who asked for it.
async fn audit_job(
    tx: &mut store::WorkspaceTx,
    job: &store::jobs::Job,
    action: &str,
    after: serde_json::Value,
) -> Result<(), store::Error> {
    store::tenancy::audit::record(
        tx,
        actor(job),
        store::tenancy::audit::NewEntry {
            action,
            target: &job.state_name,
            environment: Some(&job.environment),
            state: Some(StateId::from_uuid(job.state_id)),
            after: Some(after),
            ..Default::default()
        },
    )
    .await
}
