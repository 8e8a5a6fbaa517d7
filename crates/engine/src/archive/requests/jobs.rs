//! Looking at jobs, and ending them.

use auth::Action;
use protocol::archives::Job;
use protocol::{Code, JobId};
use store::jobs::{JobEnd, JobKind, JobStatus};
use store::queue::{self, Task};

use super::{asked_by, no_job, own_job, rejected};
use crate::archive::{Archives, audit_job, shown};
use crate::{Caller, EngineError};

impl Archives {
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

    /// Ends a job, one's own or as one who may manage others': at once where nobody works on it, else as soon as its worker hears of it.
    pub async fn cancel(&self, caller: &Caller, id: JobId) -> Result<Job, EngineError> {
        let mut tx = self.engine.begin(caller).await?;
        check_managed(caller, &own_job(&mut tx, caller, id.as_uuid()).await?)?;
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

/// Fails unless the job is the caller's own, or the caller may manage those of others.
pub(super) fn check_managed(caller: &Caller, job: &store::jobs::Job) -> Result<(), EngineError> {
    if job.principal == *caller.principal() || caller.context().permits(Action::ManageJobs) {
        return Ok(());
    }
    let detail = "the job is another's: it takes the role maintainer";
    Err(rejected(Code::Forbidden, detail))
}
