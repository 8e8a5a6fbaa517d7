//! Removing what a job leaves: objects that have expired, what was restored by an import that failed, and imports whose
//! archive never came.

use serde_json::json;
use store::jobs::{Job, JobEnd, JobKind, JobStatus};
use store::queue::{self, Claimed, Task};

use super::attempt::{StopSign, begin_held};
use super::import::CLEAN_AFTER_SECONDS;
use super::outcome::Failure;
use super::{Archives, audit_job, prefix};

/// How a job ends that is not done.
pub(super) struct Unhappy<'a> {
    pub(super) status: JobStatus,
    /// Code and reason of a failure.
    pub(super) error: Option<(&'a str, &'a str)>,
}

impl Archives {
    /// Removes an unfinished object of an earlier attempt, and finished ones that nobody refers to. Stops at the sign:
    /// once the lease is lost, an object may be one of the next worker's.
    pub(super) async fn clean_leftovers(
        &self,
        claimed: &Claimed,
        job: &Job,
        stop: &StopSign,
    ) -> Result<(), Failure> {
        self.abort_unfinished(job).await?;
        let below = prefix(&claimed.workspace, job.id);
        let parts = format!("{below}q/");
        let found: Vec<blob::Stored> =
            futures::TryStreamExt::try_collect(self.blobs.list(&below)).await?;
        for object in found {
            stop.check()?;
            if !object.key.as_str().starts_with(&parts) {
                self.blobs.delete(&object.key).await?;
            }
        }
        Ok(())
    }

    async fn abort_unfinished(&self, job: &Job) -> Result<(), Failure> {
        let Some(note) = &job.unfinished else {
            return Ok(());
        };
        let (key, trace) = (note["key"].as_str(), note["trace"].as_str());
        if let (Some(key), Some(trace)) = (key, trace) {
            self.blobs.abort(&super::key(key)?, trace).await?;
        }
        Ok(())
    }

    /// Ends a job that came to nothing: everything it wrote is removed, and its state's name is free again.
    pub(super) async fn end_unhappily(
        &self,
        claimed: &Claimed,
        job: &Job,
        how: &Unhappy<'_>,
    ) -> Result<(), Failure> {
        self.abort_unfinished(job).await?;
        self.blobs
            .delete_below(&prefix(&claimed.workspace, job.id))
            .await?;
        if job.kind == JobKind::Import {
            loop {
                let mut tx = begin_held(self, claimed).await?;
                let more = store::remove_restored_rows(&mut tx, job.state_id).await?;
                tx.commit().await?;
                if !more {
                    break;
                }
            }
        }
        let mut tx = begin_held(self, claimed).await?;
        if job.kind == JobKind::Import {
            store::remove_importing_state(&mut tx, job.state_id).await?;
        }
        let end = JobEnd {
            status: how.status,
            result: None,
            error: how.error,
            keep_seconds: 0,
        };
        store::jobs::note_unfinished(&mut tx, job.id, None).await?;
        store::jobs::end_job(&mut tx, job.id, &end).await?;
        // Addresses that are still good can bring objects back.
        queue::enqueue(&mut tx, job.id, Task::Clean, CLEAN_AFTER_SECONDS).await?;
        let action = match (job.kind, how.status) {
            (JobKind::Export, JobStatus::Cancelled) => "archive.export_cancelled",
            (JobKind::Import, JobStatus::Cancelled) => "archive.import_cancelled",
            (JobKind::Export, _) => "archive.export_failed",
            (JobKind::Import, _) => "archive.import_failed",
        };
        let after = json!({
            "job": protocol::JobId::from_uuid(job.id),
            "code": how.error.map(|(code, _)| code),
        });
        audit_job(&mut tx, job, action, after).await?;
        Ok(tx.commit().await?)
    }

    /// A clean-up that has come due.
    pub(super) async fn clean(&self, claimed: &Claimed, job: &Job) -> Result<(), Failure> {
        if !job.status.has_ended() {
            let how = if job.cancel_asked {
                Unhappy {
                    status: JobStatus::Cancelled,
                    error: None,
                }
            } else {
                Unhappy {
                    status: JobStatus::Failed,
                    error: Some((
                        "upload_abandoned",
                        "the upload was not completed within a day",
                    )),
                }
            };
            return self.end_unhappily(claimed, job, &how).await;
        }
        self.abort_unfinished(job).await?;
        self.blobs
            .delete_below(&prefix(&claimed.workspace, job.id))
            .await?;
        let mut tx = begin_held(self, claimed).await?;
        queue::dequeue(&mut tx, job.id).await?;
        Ok(tx.commit().await?)
    }
}
