//! Asking for an archive, and for an address to download it from.

use blob::DOWNLOAD_LIFE;
use chrono::Utc;
use protocol::archives::{Download, Job};
use protocol::{Code, JobId, StateName};
use store::jobs::{JobKind, JobStatus, NewJob};
use store::queue::{self, Task};
use store::{Lifecycle, WorkspaceTx};
use uuid::Uuid;

use super::{asked_by, moment, now, own_job, rejected};
use crate::archive::{Archives, ExportInput, Exported, audit_job, json, key, stored};
use crate::lock::same_spelling;
use crate::{Caller, EngineError, audit};

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
        let object = key(&exported.key)?;
        let name = &exported.archive.file_name;
        let signed = self
            .blobs
            .sign_get(&object, name, now(), DOWNLOAD_LIFE)
            .await?;
        let after = serde_json::json!({ "job": id, "sha256": exported.archive.sha256 });
        audit_job(&mut tx, &asked_by(caller, &job), "archive.download", after).await?;
        tx.commit().await?;
        Ok(Download {
            url: signed.url,
            expires_at: moment(signed.expires_at),
            archive: exported.archive,
        })
    }
}
