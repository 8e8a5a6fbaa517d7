//! Uploads of imports: which parts are missing, where to put them, and that all are there.

use blob::{PutTerms, UPLOAD_LIFE};
use futures::TryStreamExt as _;
use protocol::archives::{ImportUpload, Job, PART_BYTES, UploadPart};
use protocol::{Code, JobId, WorkspaceId};
use store::jobs::{JobKind, JobStatus};
use store::queue::{self, Task};

use super::jobs::check_managed;
use super::{asked_by, moment, no_job, now, own_job, rejected};
use crate::archive::{Archives, ImportInput, audit_job, shown, stored};
use crate::{Caller, EngineError};

/// Most parts of an upload.
pub const PART_LIMIT: usize = 10_000;
/// Addresses of parts given out at once: so many go up before the first of them expires.
const PARTS_AT_ONCE: usize = 16;

/// Whether an upload takes parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadStanding {
    Open,
    /// It was completed: a worker reads the parts.
    Complete,
    /// The import has ended, or there never was one.
    Ended,
}

impl Archives {
    /// Which parts of an import's archive are missing, with addresses for the first of them.
    pub async fn missing_parts(
        &self,
        caller: &Caller,
        id: JobId,
    ) -> Result<ImportUpload, EngineError> {
        let mut tx = self.engine.begin(caller).await?;
        let job = own_job(&mut tx, caller, id.as_uuid()).await?;
        check_managed(caller, &job)?;
        let input = uploading(&job)?;
        let missing = self.list_missing(caller, &job, &input).await?;
        let mut parts = Vec::new();
        for &number in missing.iter().take(PARTS_AT_ONCE) {
            parts.push(self.sign_part(caller, &job, &input, number).await?);
        }
        if !parts.is_empty() {
            let numbers: Vec<u32> = parts.iter().map(|part| part.number).collect();
            let after = serde_json::json!({ "job": id, "parts": numbers });
            let job = asked_by(caller, &job);
            audit_job(&mut tx, &job, "archive.upload", after).await?;
        }
        tx.commit().await?;
        Ok(ImportUpload {
            job: shown(&job)?,
            parts,
            missing: u32::try_from(missing.len()).unwrap_or(u32::MAX),
        })
    }

    async fn list_missing(
        &self,
        caller: &Caller,
        job: &store::jobs::Job,
        input: &ImportInput,
    ) -> Result<Vec<usize>, EngineError> {
        let prefix = input.prefix(caller.workspace(), job.id);
        let found: Vec<blob::Stored> = self.blobs.list(&prefix).try_collect().await?;
        let mut missing = Vec::new();
        for number in 0..input.parts.len() {
            let key = input.part_key(caller.workspace(), job.id, number)?;
            let size_bytes = part_size(input, number);
            if !found.contains(&blob::Stored { key, size_bytes }) {
                missing.push(number);
            }
        }
        Ok(missing)
    }

    async fn sign_part(
        &self,
        caller: &Caller,
        job: &store::jobs::Job,
        input: &ImportInput,
        number: usize,
    ) -> Result<UploadPart, EngineError> {
        let terms = PutTerms {
            size_bytes: part_size(input, number),
            sha256: digest(&input.parts[number]).unwrap_or_default(),
        };
        let key = input.part_key(caller.workspace(), job.id, number)?;
        let signed = self
            .blobs
            .sign_put(&key, &terms, now(), UPLOAD_LIFE)
            .await?;
        Ok(UploadPart {
            number: u32::try_from(number).unwrap_or(u32::MAX),
            size_bytes: terms.size_bytes,
            url: signed.url,
            headers: signed.headers,
            expires_at: moment(signed.expires_at),
        })
    }

    /// Hands an import over to the workers, once its archive is there.
    pub async fn complete_import(&self, caller: &Caller, id: JobId) -> Result<Job, EngineError> {
        let mut tx = self.engine.begin(caller).await?;
        check_managed(caller, &own_job(&mut tx, caller, id.as_uuid()).await?)?;
        let job = store::jobs::lock_job(&mut tx, id.as_uuid())
            .await?
            .ok_or_else(no_job)?;
        if job.kind == JobKind::Import
            && !job.status.has_ended()
            && job.status != JobStatus::Uploading
        {
            // Completed before: a repetition.
            return shown(&job);
        }
        let input = uploading(&job)?;
        let missing = self.list_missing(caller, &job, &input).await?;
        if let Some(first) = missing.first() {
            let detail = format!(
                "{} of {} parts are missing or of another size; the first is number {first}",
                missing.len(),
                input.parts.len()
            );
            return Err(rejected(Code::UploadIncomplete, detail));
        }
        store::jobs::mark_uploaded(&mut tx, job.id).await?;
        queue::enqueue(&mut tx, job.id, Task::Import, 0).await?;
        let after = serde_json::json!({ "job": id });
        audit_job(&mut tx, &asked_by(caller, &job), "archive.uploaded", after).await?;
        let job = self.get_job(&mut tx, caller, job.id).await?;
        tx.commit().await?;
        Ok(job)
    }

    /// Whether the upload at this place, which is workspace, job and upload as its parts' keys have them, takes parts. Who
    /// may put them is not asked here: a signed address is the proof.
    pub async fn upload_standing(
        &self,
        (workspace, job, upload): (&str, &str, &str),
    ) -> Result<UploadStanding, EngineError> {
        let (Ok(workspace), Ok(job)) = (workspace.parse::<WorkspaceId>(), job.parse::<JobId>())
        else {
            return Ok(UploadStanding::Ended);
        };
        let mut tx = self.engine.db.begin_read(&workspace).await?;
        let job = store::jobs::find_job(&mut tx, job.as_uuid()).await?;
        tx.commit().await?;
        let Some(job) = job.filter(|job| job.kind == JobKind::Import) else {
            return Ok(UploadStanding::Ended);
        };
        if stored::<ImportInput>(&job.input)?.upload != upload || job.status.has_ended() {
            return Ok(UploadStanding::Ended);
        }
        Ok(match job.status {
            JobStatus::Uploading if !job.cancel_asked => UploadStanding::Open,
            JobStatus::Uploading => UploadStanding::Ended,
            _ => UploadStanding::Complete,
        })
    }
}

/// What was asked of an import that waits for its archive.
fn uploading(job: &store::jobs::Job) -> Result<ImportInput, EngineError> {
    match (job.kind, job.status) {
        (JobKind::Import, JobStatus::Uploading) if !job.cancel_asked => stored(&job.input),
        (JobKind::Export, _) => Err(rejected(Code::Conflict, "an export takes no upload")),
        _ => Err(rejected(
            Code::JobEnded,
            "the upload was completed or has ended before",
        )),
    }
}

pub(in crate::archive) fn part_size(input: &ImportInput, number: usize) -> u64 {
    let before = PART_BYTES.saturating_mul(number as u64);
    input.size_bytes.saturating_sub(before).min(PART_BYTES)
}

/// A SHA-256 in lower-case hex.
pub(in crate::archive) fn digest(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    let plain = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != 64 || !text.bytes().all(plain) {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}
