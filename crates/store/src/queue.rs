//! The queue of jobs, over all workspaces: who does what next, and who is still at it.
//!
//! A worker holds a task as long as its attempt token stands in the row and renews the lease meanwhile. Whoever finishes
//! something asks for the row by its token in the transaction that finishes: a worker that was given up for dead finishes
//! nothing.

use protocol::WorkspaceId;
use sqlx::Connection as _;
use sqlx::postgres::PgListener;
use uuid::Uuid;

use crate::{Db, Error, Result, WorkspaceTx};

/// What wakes idle workers. They look for themselves too, so a lost call costs seconds.
const CHANNEL: &str = "kilolock_jobs";

/// What is to be done for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    Export,
    Import,
    /// Delete what a job left, or end one whose upload never came.
    Clean,
}

impl Task {
    fn as_str(self) -> &'static str {
        match self {
            Self::Export => "export",
            Self::Import => "import",
            Self::Clean => "clean",
        }
    }
}

/// A task that is this worker's until its lease ends.
#[derive(Debug, Clone)]
pub struct Claimed {
    pub workspace: WorkspaceId,
    pub job: Uuid,
    pub task: Task,
    pub token: Uuid,
    /// Whether another worker had it and was never heard of again.
    pub abandoned: bool,
}

/// Takes the next task: of the workspace that waits longest for a turn, the one of the highest priority that waits longest.
/// At most `at_once` jobs of a workspace run at a time.
///
/// # Errors
///
/// Those of the database.
pub async fn claim(db: &Db, lease_seconds: i64, at_once: i64) -> Result<Option<Claimed>> {
    let mut connection = db.system().await?;
    let mut tx = connection.begin().await?;
    // One at a time: two that look at once would each see room for one job more of the same workspace.
    sqlx::query!("SELECT pg_advisory_xact_lock(7205931106)")
        .execute(&mut *tx)
        .await?;
    let token = Uuid::now_v7();
    let row = sqlx::query!(
        r#"
            WITH next AS (
                SELECT q.job_id, q.attempt_token IS NOT NULL AS abandoned
                FROM job_queue q
                LEFT JOIN job_turns t ON t.workspace_id = q.workspace_id
                WHERE q.not_before <= clock_timestamp()
                  AND (q.lease_until IS NULL OR q.lease_until < clock_timestamp())
                  AND (q.task = 'clean' OR (
                      SELECT count(*) FROM job_queue r
                      WHERE r.workspace_id = q.workspace_id AND r.task <> 'clean'
                        AND r.lease_until >= clock_timestamp()
                  ) < $3)
                ORDER BY q.priority DESC, t.last_turn NULLS FIRST, q.queued_at
                FOR UPDATE OF q SKIP LOCKED
                LIMIT 1
            ), turn AS (
                INSERT INTO job_turns (workspace_id, last_turn)
                SELECT workspace_id, clock_timestamp()
                FROM job_queue JOIN next USING (job_id)
                ON CONFLICT (workspace_id) DO UPDATE SET last_turn = excluded.last_turn
            )
            UPDATE job_queue q
            SET attempt_token = $1,
                lease_until = clock_timestamp() + make_interval(secs => $2::bigint::double precision)
            FROM next
            WHERE q.job_id = next.job_id
            RETURNING q.job_id, q.workspace_id, q.task, next.abandoned AS "abandoned!"
        "#,
        token,
        lease_seconds,
        at_once,
    )
    .fetch_optional(&mut *tx)
    .await?;
    tx.commit().await?;
    row.map(|row| {
        Ok(Claimed {
            workspace: row
                .workspace_id
                .parse()
                .map_err(|error| Error::impossible("job_queue", error))?,
            job: row.job_id,
            task: match row.task.as_str() {
                "export" => Task::Export,
                "import" => Task::Import,
                "clean" => Task::Clean,
                other => return Err(Error::impossible("job_queue", format!("task {other}"))),
            },
            token,
            abandoned: row.abandoned,
        })
    })
    .transpose()
}

/// Puts a task into the queue and wakes workers once the transaction commits.
///
/// # Errors
///
/// Those of the database.
pub async fn enqueue(
    tx: &mut WorkspaceTx,
    job: Uuid,
    task: Task,
    delay_seconds: i64,
) -> Result<()> {
    let workspace = tx.workspace().clone();
    sqlx::query!(
        r#"
            INSERT INTO job_queue (job_id, workspace_id, task, not_before)
            VALUES ($1, $2, $3, clock_timestamp() + make_interval(secs => $4::bigint::double precision))
            ON CONFLICT (job_id) DO UPDATE
            SET task = excluded.task, not_before = excluded.not_before, attempt_token = NULL,
                lease_until = NULL
        "#,
        job,
        workspace.as_str(),
        task.as_str(),
        delay_seconds,
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!("SELECT pg_notify($1, '')", CHANNEL)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Holds a claimed task until the transaction ends; false when it is not this worker's any more.
///
/// # Errors
///
/// Those of the database.
pub async fn hold(tx: &mut WorkspaceTx, claimed: &Claimed) -> Result<bool> {
    let held = sqlx::query_scalar!(
        "SELECT job_id FROM job_queue WHERE job_id = $1 AND attempt_token = $2 FOR UPDATE",
        claimed.job,
        claimed.token,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(held.is_some())
}

/// Keeps others from claiming the task until the transaction ends, and lets its lease be renewed meanwhile; false when it is
/// not this worker's any more.
///
/// # Errors
///
/// Those of the database.
pub async fn keep(tx: &mut WorkspaceTx, claimed: &Claimed) -> Result<bool> {
    let held = sqlx::query_scalar!(
        "SELECT job_id FROM job_queue WHERE job_id = $1 AND attempt_token = $2 FOR KEY SHARE",
        claimed.job,
        claimed.token,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(held.is_some())
}

/// Renews the lease; false when the task is not this worker's any more.
///
/// # Errors
///
/// Those of the database.
pub async fn renew(tx: &mut WorkspaceTx, claimed: &Claimed, lease_seconds: i64) -> Result<bool> {
    let renewed = sqlx::query!(
        r#"
            UPDATE job_queue
            SET lease_until = clock_timestamp() + make_interval(secs => $3::bigint::double precision)
            WHERE job_id = $1 AND attempt_token = $2
        "#,
        claimed.job,
        claimed.token,
        lease_seconds,
    )
    .execute(&mut **tx)
    .await?
    .rows_affected();
    Ok(renewed == 1)
}

/// Removes a task that has nothing left to do.
///
/// # Errors
///
/// Those of the database.
pub async fn dequeue(tx: &mut WorkspaceTx, job: Uuid) -> Result<()> {
    sqlx::query!("DELETE FROM job_queue WHERE job_id = $1", job)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// How many tasks wait, and how many are being worked on.
///
/// # Errors
///
/// Those of the database.
pub async fn depth(db: &Db) -> Result<(i64, i64)> {
    let row = sqlx::query!(
        r#"
            SELECT
                count(*) FILTER (
                    WHERE not_before <= clock_timestamp()
                      AND (lease_until IS NULL OR lease_until < clock_timestamp())
                ) AS "waiting!",
                count(*) FILTER (WHERE lease_until >= clock_timestamp()) AS "running!"
            FROM job_queue
        "#,
    )
    .fetch_one(&mut *db.system().await?)
    .await?;
    Ok((row.waiting, row.running))
}

/// Listens for new tasks.
pub struct WakeUps(PgListener);

impl WakeUps {
    /// # Errors
    ///
    /// Those of the database.
    pub async fn listen(db: &Db) -> Result<Self> {
        let mut listener = PgListener::connect_with(db.pool()).await?;
        listener.listen(CHANNEL).await?;
        Ok(Self(listener))
    }

    /// Waits for the next call.
    ///
    /// # Errors
    ///
    /// When the connection broke; a call may have been missed.
    pub async fn next(&mut self) -> Result<()> {
        self.0.recv().await?;
        Ok(())
    }
}
