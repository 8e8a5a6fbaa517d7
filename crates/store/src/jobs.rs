//! Jobs: what was asked for, how far it is, and how it ended. One workspace's rows; who does what next over all workspaces
//! is in `queue`.

use chrono::{DateTime, Utc};
use protocol::{EnvironmentId, PrincipalId};
use serde_json::Value;
use uuid::Uuid;

use crate::{Error, WorkspaceTx, text::without_nul};

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobKind {
    Export,
    Import,
}

impl JobKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Export => "export",
            Self::Import => "import",
        }
    }
}

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStatus {
    /// Waits for its archive.
    Uploading,
    Queued,
    Running,
    Done,
    Failed,
    Cancelled,
}

impl JobStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Uploading => "uploading",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing more happens.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

/// A job as it is recorded.
#[derive(Debug, Clone)]
pub struct Job {
    pub id: Uuid,
    pub kind: JobKind,
    pub status: JobStatus,
    pub environment: EnvironmentId,
    pub state_id: Uuid,
    pub state_name: String,
    pub principal: PrincipalId,
    pub display: String,
    pub token_id: Option<String>,
    pub request_id: String,
    pub input: Value,
    pub attempt: i32,
    pub failures: i32,
    pub abandoned: i32,
    pub cancel_asked: bool,
    pub unfinished: Option<Value>,
    pub progress: Value,
    pub result: Option<Value>,
    pub error_code: Option<String>,
    pub error_detail: Option<String>,
    pub created_at: DateTime<Utc>,
    pub started_at: Option<DateTime<Utc>>,
    pub finished_at: Option<DateTime<Utc>>,
    pub expires_at: Option<DateTime<Utc>>,
}

/// What is recorded of a new job.
#[derive(Debug, Clone)]
pub struct NewJob<'a> {
    pub id: Uuid,
    pub kind: JobKind,
    pub status: JobStatus,
    pub environment: &'a EnvironmentId,
    pub state_id: Uuid,
    pub state_name: &'a str,
    pub principal: &'a PrincipalId,
    pub display: &'a str,
    pub token_id: Option<&'a str>,
    pub request_id: &'a str,
    pub input: Value,
}

/// How a job ends.
#[derive(Debug, Clone)]
pub struct JobEnd<'a> {
    pub status: JobStatus,
    pub result: Option<Value>,
    /// Code and reason of a failure.
    pub error: Option<(&'a str, &'a str)>,
    /// How long its objects are kept, in seconds.
    pub keep_seconds: i64,
}

struct Row {
    id: Uuid,
    kind: String,
    status: String,
    environment_id: String,
    state_id: Uuid,
    state_name: String,
    principal_id: String,
    display: String,
    token_id: Option<String>,
    request_id: String,
    input: Value,
    attempt: i32,
    failures: i32,
    abandoned: i32,
    cancel_asked: bool,
    unfinished: Option<Value>,
    progress: Value,
    result: Option<Value>,
    error_code: Option<String>,
    error_detail: Option<String>,
    created_at: DateTime<Utc>,
    started_at: Option<DateTime<Utc>>,
    finished_at: Option<DateTime<Utc>>,
    expires_at: Option<DateTime<Utc>>,
}

impl TryFrom<Row> for Job {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self, Error> {
        let impossible = |what: &dyn std::fmt::Display| Error::impossible("jobs", what.to_string());
        Ok(Self {
            id: row.id,
            kind: match row.kind.as_str() {
                "export" => JobKind::Export,
                "import" => JobKind::Import,
                other => return Err(impossible(&format!("kind {other}"))),
            },
            status: match row.status.as_str() {
                "uploading" => JobStatus::Uploading,
                "queued" => JobStatus::Queued,
                "running" => JobStatus::Running,
                "done" => JobStatus::Done,
                "failed" => JobStatus::Failed,
                "cancelled" => JobStatus::Cancelled,
                other => return Err(impossible(&format!("status {other}"))),
            },
            environment: row
                .environment_id
                .parse()
                .map_err(|error: protocol::InvalidId| impossible(&error))?,
            state_id: row.state_id,
            state_name: row.state_name,
            principal: row
                .principal_id
                .parse()
                .map_err(|error: protocol::InvalidId| impossible(&error))?,
            display: row.display,
            token_id: row.token_id,
            request_id: row.request_id,
            input: row.input,
            attempt: row.attempt,
            failures: row.failures,
            abandoned: row.abandoned,
            cancel_asked: row.cancel_asked,
            unfinished: row.unfinished,
            progress: row.progress,
            result: row.result,
            error_code: row.error_code,
            error_detail: row.error_detail,
            created_at: row.created_at,
            started_at: row.started_at,
            finished_at: row.finished_at,
            expires_at: row.expires_at,
        })
    }
}

pub async fn insert_job(tx: &mut WorkspaceTx, job: &NewJob<'_>) -> Result<(), Error> {
    let workspace = tx.workspace().clone();
    sqlx::query!(
        r#"
            INSERT INTO jobs (
                workspace_id, id, kind, status, environment_id, state_id, state_name, principal_id,
                display, token_id, request_id, input
            )
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
        "#,
        workspace.as_str(),
        job.id,
        job.kind.as_str(),
        job.status.as_str(),
        job.environment.as_str(),
        job.state_id,
        job.state_name,
        job.principal.as_str(),
        job.display,
        job.token_id,
        job.request_id,
        job.input,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

pub async fn find_job(tx: &mut WorkspaceTx, id: Uuid) -> Result<Option<Job>, Error> {
    let workspace = tx.workspace().clone();
    let row = sqlx::query_as!(
        Row,
        r#"
            SELECT id, kind, status, environment_id, state_id, state_name, principal_id, display,
                   token_id, request_id, input, attempt, failures, abandoned, cancel_asked, unfinished,
                   progress, result, error_code, error_detail, created_at, started_at, finished_at,
                   expires_at
            FROM jobs
            WHERE workspace_id = $1 AND id = $2
        "#,
        workspace.as_str(),
        id,
    )
    .fetch_optional(&mut **tx)
    .await?;
    row.map(Job::try_from).transpose()
}

/// Locks a job's row until the transaction ends, and reads it as it is then.
pub async fn lock_job(tx: &mut WorkspaceTx, id: Uuid) -> Result<Option<Job>, Error> {
    let workspace = tx.workspace().clone();
    sqlx::query_scalar!(
        "SELECT id FROM jobs WHERE workspace_id = $1 AND id = $2 FOR UPDATE",
        workspace.as_str(),
        id,
    )
    .fetch_optional(&mut **tx)
    .await?;
    find_job(tx, id).await
}

/// Jobs of an environment before `before`, newest first.
pub async fn list_jobs(
    tx: &mut WorkspaceTx,
    environment: &EnvironmentId,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Job>, Error> {
    let workspace = tx.workspace().clone();
    let rows = sqlx::query_as!(
        Row,
        r#"
            SELECT id, kind, status, environment_id, state_id, state_name, principal_id, display,
                   token_id, request_id, input, attempt, failures, abandoned, cancel_asked, unfinished,
                   progress, result, error_code, error_detail, created_at, started_at, finished_at,
                   expires_at
            FROM jobs
            WHERE workspace_id = $1 AND environment_id = $2 AND id < $3
            ORDER BY id DESC
            LIMIT $4
        "#,
        workspace.as_str(),
        environment.as_str(),
        before.unwrap_or(Uuid::max()),
        limit,
    )
    .fetch_all(&mut **tx)
    .await?;
    rows.into_iter().map(Job::try_from).collect()
}

/// How many exports the workspace asked for in the last day.
pub async fn count_recent_exports(tx: &mut WorkspaceTx) -> Result<i64, Error> {
    let workspace = tx.workspace().clone();
    let count = sqlx::query_scalar!(
        r#"
            SELECT count(*) AS "count!"
            FROM jobs
            WHERE workspace_id = $1 AND kind = 'export'
              AND created_at > clock_timestamp() - interval '1 day'
        "#,
        workspace.as_str(),
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(count)
}

/// How many imports of the workspace have not ended.
pub async fn count_open_imports(tx: &mut WorkspaceTx) -> Result<i64, Error> {
    let workspace = tx.workspace().clone();
    let count = sqlx::query_scalar!(
        r#"
            SELECT count(*) AS "count!"
            FROM jobs
            WHERE workspace_id = $1 AND kind = 'import' AND finished_at IS NULL
        "#,
        workspace.as_str(),
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(count)
}

/// An import's archive has arrived: it may be worked on.
pub async fn mark_uploaded(tx: &mut WorkspaceTx, id: Uuid) -> Result<(), Error> {
    let workspace = tx.workspace().clone();
    sqlx::query!(
        "UPDATE jobs SET status = 'queued' WHERE workspace_id = $1 AND id = $2 AND status = 'uploading'",
        workspace.as_str(),
        id,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Asks whoever works on the job to stop.
pub async fn ask_to_cancel(tx: &mut WorkspaceTx, id: Uuid) -> Result<(), Error> {
    let workspace = tx.workspace().clone();
    sqlx::query!(
        "UPDATE jobs SET cancel_asked = true WHERE workspace_id = $1 AND id = $2",
        workspace.as_str(),
        id,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Records that an attempt begins. `abandoned`: the one before it was never heard of again.
pub async fn begin_attempt(tx: &mut WorkspaceTx, id: Uuid, abandoned: bool) -> Result<(), Error> {
    let workspace = tx.workspace().clone();
    sqlx::query!(
        r#"
            UPDATE jobs
            SET status = 'running', attempt = attempt + 1, abandoned = abandoned + $3,
                started_at = coalesce(started_at, clock_timestamp())
            WHERE workspace_id = $1 AND id = $2
        "#,
        workspace.as_str(),
        id,
        i32::from(abandoned),
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Records that an attempt ended in an error after which another follows.
pub async fn fail_attempt(tx: &mut WorkspaceTx, id: Uuid, counts: bool) -> Result<(), Error> {
    let workspace = tx.workspace().clone();
    sqlx::query!(
        r#"
            UPDATE jobs
            SET status = 'queued', failures = failures + $3
            WHERE workspace_id = $1 AND id = $2
        "#,
        workspace.as_str(),
        id,
        i32::from(counts),
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Records how far the job is; answers whether it is to stop.
pub async fn record_progress(
    tx: &mut WorkspaceTx,
    id: Uuid,
    progress: &Value,
) -> Result<bool, Error> {
    let workspace = tx.workspace().clone();
    let cancelled = sqlx::query_scalar!(
        "UPDATE jobs SET progress = $3 WHERE workspace_id = $1 AND id = $2 RETURNING cancel_asked",
        workspace.as_str(),
        id,
        progress,
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(cancelled)
}

/// Notes the object that is being written, or that none is.
pub async fn note_unfinished(
    tx: &mut WorkspaceTx,
    id: Uuid,
    unfinished: Option<&Value>,
) -> Result<(), Error> {
    let workspace = tx.workspace().clone();
    sqlx::query!(
        "UPDATE jobs SET unfinished = $3 WHERE workspace_id = $1 AND id = $2",
        workspace.as_str(),
        id,
        unfinished,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Ends a job.
pub async fn end_job(tx: &mut WorkspaceTx, id: Uuid, end: &JobEnd<'_>) -> Result<(), Error> {
    let workspace = tx.workspace().clone();
    let detail = end.error.map(|(_, detail)| without_nul(detail));
    sqlx::query!(
        r#"
            UPDATE jobs
            SET status = $3, result = $4, error_code = $5, error_detail = $6,
                finished_at = clock_timestamp(),
                expires_at = clock_timestamp() + make_interval(secs => $7::bigint::double precision)
            WHERE workspace_id = $1 AND id = $2
        "#,
        workspace.as_str(),
        id,
        end.status.as_str(),
        end.result,
        end.error.map(|(code, _)| code),
        detail.as_deref(),
        end.keep_seconds,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
