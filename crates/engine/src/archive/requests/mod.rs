//! What callers ask for: exports, imports, their jobs, and addresses to put and to fetch bytes.

mod exports;
mod imports;
mod jobs;
mod uploads;

use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Utc};
use protocol::Code;
use protocol::archives::Job;
use store::WorkspaceTx;
use store::jobs::{JobKind, JobStatus, NewJob};
use uuid::Uuid;

pub use imports::NewImport;
pub use uploads::{PART_LIMIT, UploadStanding};
pub(super) use uploads::{digest, part_size};

use super::{Archives, shown};
use crate::{Caller, EngineError};

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
