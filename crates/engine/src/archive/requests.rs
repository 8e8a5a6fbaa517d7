//! What callers ask for: exports, imports, their jobs, and addresses to put and to fetch bytes.

use std::time::{SystemTime, UNIX_EPOCH};

use blob::PutTerms;
use chrono::{DateTime, Utc};
use futures::TryStreamExt as _;
use protocol::archives::{Download, ImportUpload, Job, PART_BYTES, UploadPart};
use protocol::{Code, JobId, StateName};
use store::jobs::{JobEnd, JobKind, JobStatus, NewJob};
use store::queue::{self, Task};
use store::{Lifecycle, WorkspaceTx};
use uuid::Uuid;

use super::{Archives, ExportInput, Exported, ImportInput, audit_job, json, shown, stored};
use crate::lock::same_spelling;
use crate::{Caller, EngineError, audit};

/// Most parts of an upload.
pub const PART_LIMIT: usize = 10_000;
/// Addresses of parts given out at once: so many go up before the first of them expires.
const PARTS_AT_ONCE: usize = 16;
/// An upload that does not come within a day never will.
const UPLOAD_PATIENCE_SECONDS: i64 = 24 * 3600;

/// An import that is asked for.
#[derive(Debug, Clone)]
pub struct NewImport<'a> {
    pub name: &'a StateName,
    pub size_bytes: u64,
    pub parts: &'a [String],
    pub state_id: Option<Uuid>,
    pub archived: bool,
    pub overwrite: bool,
    pub allow_foreign: bool,
}

fn rejected(code: Code, detail: impl Into<String>) -> EngineError {
    EngineError::Rejected(code, detail.into())
}

fn now() -> u64 {
    // A clock before 1970 makes addresses that are not valid, which is right.
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

fn moment(seconds: u64) -> DateTime<Utc> {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    DateTime::from_timestamp(seconds, 0).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

impl Archives {
    /// Asks for an archive of a state up to its newest version. Part of the caller's transaction, so that what makes the
    /// request repeatable is decided with it.
    pub async fn request_export(
        &self,
        tx: &mut WorkspaceTx,
        caller: &Caller,
        name: &StateName,
    ) -> Result<Job, EngineError> {
        let state = store::find_state(tx, caller.environment(), name)
            .await?
            .ok_or(EngineError::NoState)?;
        same_spelling(&state, name)?;
        if state.lifecycle == Lifecycle::Importing {
            return Err(EngineError::NotWritable("being imported"));
        }
        if state.head_seq == 0 {
            return Err(EngineError::NoVersion);
        }
        if store::jobs::count_recent_exports(tx).await? >= self.limits.exports_per_day {
            let most = self.limits.exports_per_day;
            let detail = format!("a workspace exports at most {most} archives a day");
            return Err(rejected(Code::RateLimited, detail));
        }
        let id = Uuid::now_v7();
        let head_seq = state.head_seq;
        let new = NewJob {
            id,
            kind: JobKind::Export,
            status: JobStatus::Queued,
            input: json(&ExportInput { head_seq }),
            ..self.new_job(caller, state.id, &state.name)
        };
        store::jobs::insert_job(tx, &new).await?;
        queue::enqueue(tx, id, Task::Export, 0).await?;
        let what = audit::What::ExportAsked {
            job: JobId::from_uuid(id),
            head_seq,
        };
        audit::record(tx, caller, state.id, &state.name, what).await?;
        self.get_job(tx, caller, id).await
    }

    /// Asks for an import: reserves the name, and makes the job that waits for the archive.
    pub async fn request_import(
        &self,
        tx: &mut WorkspaceTx,
        caller: &Caller,
        import: &NewImport<'_>,
    ) -> Result<Job, EngineError> {
        self.check_upload(import)?;
        let hidden = format!("{}~import", import.name);
        self.clear_name(tx, caller, import).await?;
        let state_id = match import.state_id {
            Some(id) if !store::state_id_is_taken(tx, id).await? => id,
            _ => Uuid::now_v7(),
        };
        // In place of a state that lives on until the end, the new one waits under a name that no address can hold.
        let reserved = if import.overwrite {
            hidden.as_str()
        } else {
            import.name.as_str()
        };
        let created =
            store::create_importing_state(tx, caller.environment(), reserved, state_id).await;
        match created {
            Err(error) if error.is_constraint("states_live_name") => {
                return Err(rejected(Code::StateExists, "the name is taken"));
            }
            outcome => outcome?,
        }
        let id = Uuid::now_v7();
        let input = ImportInput {
            size_bytes: import.size_bytes,
            parts: import.parts.to_vec(),
            upload: Uuid::new_v4().simple().to_string(),
            archived: import.archived,
            overwrite: import.overwrite,
            allow_foreign: import.allow_foreign,
        };
        let new = NewJob {
            id,
            kind: JobKind::Import,
            status: JobStatus::Uploading,
            input: json(&input),
            ..self.new_job(caller, state_id, import.name.as_str())
        };
        store::jobs::insert_job(tx, &new).await?;
        queue::enqueue(tx, id, Task::Clean, UPLOAD_PATIENCE_SECONDS).await?;
        let what = audit::What::ImportAsked {
            job: JobId::from_uuid(id),
            size_bytes: import.size_bytes,
            overwrite: import.overwrite,
            allow_foreign: import.allow_foreign,
        };
        audit::record(tx, caller, state_id, import.name.as_str(), what).await?;
        self.get_job(tx, caller, id).await
    }

    fn check_upload(&self, import: &NewImport<'_>) -> Result<(), EngineError> {
        let wrong = |detail: String| Err(rejected(Code::InvalidRequest, detail));
        if import.size_bytes == 0 {
            return wrong("an archive is not empty".to_owned());
        }
        if import.size_bytes > self.limits.archive_bytes {
            let detail = format!(
                "an archive has at most {} bytes here",
                self.limits.archive_bytes
            );
            return Err(rejected(Code::BodyTooLarge, detail));
        }
        let wanted = import.size_bytes.div_ceil(PART_BYTES);
        if import.parts.len() as u64 != wanted || import.parts.len() > PART_LIMIT {
            return wrong(format!(
                "{} bytes are {wanted} parts of {PART_BYTES} bytes, not {}",
                import.size_bytes,
                import.parts.len()
            ));
        }
        match import.parts.iter().find(|part| digest(part).is_none()) {
            Some(part) => wrong(format!("`{part}` is no SHA-256 in lower-case hex")),
            None => Ok(()),
        }
    }

    /// Sees to it that the name is free, or is one that may be replaced. A name that was only planned against gives way.
    async fn clear_name(
        &self,
        tx: &mut WorkspaceTx,
        caller: &Caller,
        import: &NewImport<'_>,
    ) -> Result<(), EngineError> {
        let Some(state) = store::find_state(tx, caller.environment(), import.name).await? else {
            return Ok(());
        };
        store::lock_ledger(tx, state.id).await?;
        let active = store::list_active(tx, state.id).await?;
        let state = store::lock_state(tx, state.id).await?;
        if state.lifecycle == Lifecycle::Importing {
            let detail = "another import is making a state of this name";
            return Err(rejected(Code::StateExists, detail));
        }
        if import.overwrite {
            return same_spelling(&state, import.name);
        }
        if state.head_seq == 0 && active.is_empty() {
            return Ok(store::delete_state(tx, state.id).await?);
        }
        Err(rejected(
            Code::StateExists,
            format!("a state `{}` exists", state.name),
        ))
    }

    fn new_job<'a>(&self, caller: &'a Caller, state_id: Uuid, name: &'a str) -> NewJob<'a> {
        NewJob {
            id: Uuid::nil(),
            kind: JobKind::Export,
            status: JobStatus::Queued,
            environment: caller.environment(),
            state_id,
            state_name: name,
            principal: caller.principal(),
            display: caller.display(),
            token_id: Some(caller.context().token_id().as_str()),
            request_id: caller.context().request_id(),
            input: serde_json::Value::Null,
        }
    }

    async fn get_job(
        &self,
        tx: &mut WorkspaceTx,
        caller: &Caller,
        id: Uuid,
    ) -> Result<Job, EngineError> {
        shown(&own_job(tx, caller, id).await?)
    }

    /// One job of the caller's environment.
    pub async fn job(&self, caller: &Caller, id: JobId) -> Result<Job, EngineError> {
        let mut tx = self.engine.begin_read(caller).await?;
        let job = self.get_job(&mut tx, caller, id.as_uuid()).await?;
        tx.commit().await?;
        Ok(job)
    }

    /// The jobs of the caller's environment, newest first.
    pub async fn jobs(
        &self,
        caller: &Caller,
        before: Option<JobId>,
        limit: i64,
    ) -> Result<Vec<Job>, EngineError> {
        let mut tx = self.engine.begin_read(caller).await?;
        let before = before.map(|id| id.as_uuid());
        let jobs = store::jobs::list_jobs(&mut tx, caller.environment(), before, limit).await?;
        tx.commit().await?;
        jobs.iter().map(shown).collect()
    }

    /// Which parts of an import's archive are missing, with addresses for the first of them.
    pub async fn missing_parts(
        &self,
        caller: &Caller,
        id: JobId,
    ) -> Result<ImportUpload, EngineError> {
        let mut tx = self.engine.begin(caller).await?;
        let job = own_job(&mut tx, caller, id.as_uuid()).await?;
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
        let signed = self.blobs.sign_put(&key, &terms, now()).await?;
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
        own_job(&mut tx, caller, id.as_uuid()).await?;
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

    /// An address to download an export's archive from.
    pub async fn download(&self, caller: &Caller, id: JobId) -> Result<Download, EngineError> {
        let mut tx = self.engine.begin(caller).await?;
        let job = own_job(&mut tx, caller, id.as_uuid()).await?;
        let result = match (&job.result, job.kind, job.status) {
            (Some(result), JobKind::Export, JobStatus::Done) => result,
            (_, JobKind::Export, JobStatus::Queued | JobStatus::Running) => {
                return Err(rejected(
                    Code::JobNotReady,
                    "the archive is not written yet",
                ));
            }
            _ => {
                let detail = "there is no archive: the job made none, or it has expired";
                return Err(rejected(Code::JobEnded, detail));
            }
        };
        if job
            .expires_at
            .is_some_and(|expires_at| expires_at <= Utc::now())
        {
            return Err(rejected(Code::JobEnded, "the archive has expired"));
        }
        let exported: Exported = stored(result)?;
        let object = super::key(&exported.key)?;
        let name = &exported.archive.file_name;
        let signed = self.blobs.sign_get(&object, name, now()).await?;
        let after = serde_json::json!({ "job": id, "sha256": exported.archive.sha256 });
        audit_job(&mut tx, &asked_by(caller, &job), "archive.download", after).await?;
        tx.commit().await?;
        Ok(Download {
            url: signed.url,
            expires_at: moment(signed.expires_at),
            archive: exported.archive,
        })
    }

    /// Ends a job: at once where nobody works on it, else as soon as its worker hears of it.
    pub async fn cancel(&self, caller: &Caller, id: JobId) -> Result<Job, EngineError> {
        let mut tx = self.engine.begin(caller).await?;
        own_job(&mut tx, caller, id.as_uuid()).await?;
        let job = store::jobs::lock_job(&mut tx, id.as_uuid())
            .await?
            .ok_or_else(no_job)?;
        if job.status.has_ended() {
            return Err(rejected(Code::JobEnded, "the job has ended before"));
        }
        store::jobs::ask_to_cancel(&mut tx, job.id).await?;
        let after = serde_json::json!({ "job": id, "status": job.status.as_str() });
        audit_job(&mut tx, &asked_by(caller, &job), "job.cancel", after).await?;
        if job.status != JobStatus::Running {
            // What it may have written is a worker's to remove; the name of a state is free once that is done.
            if job.kind == JobKind::Export {
                let end = JobEnd {
                    status: JobStatus::Cancelled,
                    result: None,
                    error: None,
                    keep_seconds: 0,
                };
                store::jobs::end_job(&mut tx, job.id, &end).await?;
            }
            queue::enqueue(&mut tx, job.id, Task::Clean, 0).await?;
        }
        let job = self.get_job(&mut tx, caller, job.id).await?;
        tx.commit().await?;
        Ok(job)
    }
}

fn no_job() -> EngineError {
    rejected(Code::NotFound, "there is no such job")
}

/// A job of the caller's environment; any other is not there.
async fn own_job(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    id: Uuid,
) -> Result<store::jobs::Job, EngineError> {
    let job = store::jobs::find_job(tx, id).await?;
    job.filter(|job| job.environment == *caller.environment())
        .ok_or_else(no_job)
}

/// The job as if this caller had asked for it: whose act an audit entry records.
fn asked_by(caller: &Caller, job: &store::jobs::Job) -> store::jobs::Job {
    store::jobs::Job {
        principal: caller.principal().clone(),
        display: caller.display().to_owned(),
        token_id: Some(caller.context().token_id().as_str().to_owned()),
        request_id: caller.context().request_id().to_owned(),
        ..job.clone()
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

pub(super) fn part_size(input: &ImportInput, number: usize) -> u64 {
    let before = PART_BYTES.saturating_mul(number as u64);
    input.size_bytes.saturating_sub(before).min(PART_BYTES)
}

/// A SHA-256 in lower-case hex.
pub(super) fn digest(text: &str) -> Option<[u8; 32]> {
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
