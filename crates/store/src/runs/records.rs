//! The rows of runs.

use chrono::{DateTime, Utc};
use protocol::{EnvironmentId, WorkspaceId};
use uuid::Uuid;

use crate::{Db, Error, WorkspaceTx};

/// A run as recorded. Its status is what its own client made of it; what others did to it is in its reservation.
#[derive(Debug, Clone)]
pub struct RunRecord {
    pub id: Uuid,
    pub state_id: Uuid,
    pub state_name: String,
    pub kind: String,
    pub status: String,
    pub command: String,
    pub who: String,
    pub principal_id: String,
    /// JSON.
    pub scope: String,
    /// JSON.
    pub contract: String,
    pub base_seq: i64,
    pub base_serial: Option<String>,
    pub reservation_id: Option<Uuid>,
    pub backend_lock: Option<String>,
    pub plan_sha256: Option<Vec<u8>>,
    /// Whether its plan looked at the real objects.
    pub refreshed: Option<bool>,
    pub request_digest: Option<Vec<u8>>,
    pub spent_at: Option<DateTime<Utc>>,
    /// JSON: addresses outside the claims that changed in uploads.
    pub left_out: String,
    pub started_at: DateTime<Utc>,
    pub finished_at: Option<DateTime<Utc>>,
    pub error: Option<String>,
    pub kept_count: i64,
    /// Whether its plan is too old to be applied, by the database's clock.
    pub too_old: bool,
    /// Of its newest reservation.
    pub reservation_status: Option<String>,
    pub reservation_end: Option<String>,
    pub reservation_ended_at: Option<DateTime<Utc>>,
}

/// What a new run records.
#[derive(Debug, Clone)]
pub struct NewRun<'a> {
    pub id: Uuid,
    pub state_id: Uuid,
    pub kind: &'a str,
    pub idem_key: &'a str,
    pub command: &'a str,
    pub who: &'a str,
    pub principal_id: &'a str,
    pub scope: &'a str,
    pub contract: &'a str,
    pub base_seq: i64,
    pub reservation_id: Option<Uuid>,
    /// SHA-256 of the request: the same key with another one is refused.
    pub request_digest: &'a [u8; 32],
}

/// How a saved plan's run is woken.
#[derive(Debug, Clone)]
pub struct Reopening<'a> {
    pub kind: &'a str,
    pub command: &'a str,
    pub who: &'a str,
    pub principal_id: &'a str,
    pub contract: &'a str,
    pub base_seq: i64,
    pub reservation_id: Uuid,
}

/// The environment of a run's state: never another one, so it may be remembered.
pub async fn environment_of_run(
    db: &Db,
    workspace: &WorkspaceId,
    id: Uuid,
) -> Result<Option<EnvironmentId>, Error> {
    let mut tx = db.begin_read(workspace).await?;
    let found = sqlx::query_scalar!(
        r#"
            SELECT environment_id
            FROM states
            WHERE workspace_id = $1
              AND id = (SELECT state_id FROM runs WHERE workspace_id = $1 AND id = $2)
        "#,
        workspace.as_str(),
        id,
    )
    .fetch_optional(&mut *tx)
    .await?;
    tx.commit().await?;
    found
        .map(|id| {
            id.parse()
                .map_err(|error| Error::impossible("states", error))
        })
        .transpose()
}

pub async fn insert_run(tx: &mut WorkspaceTx, new: &NewRun<'_>) -> Result<(), Error> {
    sqlx::query!(
        r#"
            INSERT INTO runs (
                workspace_id, id, state_id, kind, idem_key, command, who, principal_id, scope, contract, base_seq,
                reservation_id, request_digest
            )
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
        "#,
        tx.workspace().as_str(),
        new.id,
        new.state_id,
        new.kind,
        new.idem_key,
        new.command,
        new.who,
        new.principal_id,
        new.scope,
        new.contract,
        new.base_seq,
        new.reservation_id,
        &new.request_digest[..],
    )
    .execute(&mut **tx)
    .await?;
    tx.note_seen(new.state_id);
    Ok(())
}

/// The run that this principal began on the state with this key.
pub async fn find_run_by_key(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    principal_id: &str,
    idem_key: &str,
) -> Result<Option<Uuid>, Error> {
    let id = sqlx::query_scalar!(
        r#"
            SELECT id
            FROM runs
            WHERE workspace_id = $1 AND state_id = $2 AND principal_id = $3 AND idem_key = $4
        "#,
        tx.workspace().as_str(),
        state_id,
        principal_id,
        idem_key,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(id)
}

/// The newest run whose plan is in a file with this digest.
pub async fn find_run_by_plan(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    plan_sha256: &[u8],
) -> Result<Option<Uuid>, Error> {
    let id = sqlx::query_scalar!(
        r#"
            SELECT id
            FROM runs
            WHERE workspace_id = $1 AND state_id = $2 AND plan_sha256 = $3
            ORDER BY id DESC
            LIMIT 1
        "#,
        tx.workspace().as_str(),
        state_id,
        plan_sha256,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(id)
}

/// Locks a run's row until the transaction ends; false when there is none.
pub async fn lock_run(tx: &mut WorkspaceTx, id: Uuid) -> Result<bool, Error> {
    let found = sqlx::query_scalar!(
        "SELECT id FROM runs WHERE workspace_id = $1 AND id = $2 FOR UPDATE",
        tx.workspace().as_str(),
        id,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(found.is_some())
}

/// Notes which Terraform holds the lock of the run's own backend. The caller holds the run.
pub async fn set_backend_lock(
    tx: &mut WorkspaceTx,
    id: Uuid,
    lock: Option<&str>,
) -> Result<(), Error> {
    sqlx::query!(
        "UPDATE runs SET backend_lock = $3 WHERE workspace_id = $1 AND id = $2",
        tx.workspace().as_str(),
        id,
        lock,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Notes what Terraform changed outside the claims. The caller holds the run.
pub async fn set_left_out(tx: &mut WorkspaceTx, id: Uuid, left_out: &str) -> Result<(), Error> {
    sqlx::query!(
        "UPDATE runs SET left_out = $3 WHERE workspace_id = $1 AND id = $2",
        tx.workspace().as_str(),
        id,
        left_out,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// What a run left out of its commits, without waiting for whoever holds the run. JSON.
pub async fn find_left_out(tx: &mut WorkspaceTx, id: Uuid) -> Result<Option<String>, Error> {
    let left_out = sqlx::query_scalar!(
        "SELECT left_out FROM runs WHERE workspace_id = $1 AND id = $2",
        tx.workspace().as_str(),
        id,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(left_out)
}

/// Notes that the apply of a saved plan begins. The caller holds the run.
pub async fn spend_plan(tx: &mut WorkspaceTx, id: Uuid) -> Result<(), Error> {
    sqlx::query!(
        r#"
            UPDATE runs
            SET spent_at = clock_timestamp()
            WHERE workspace_id = $1 AND id = $2 AND plan_sha256 IS NOT NULL AND spent_at IS NULL
        "#,
        tx.workspace().as_str(),
        id,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Notes whether the plan of a run looked at the real objects. The caller holds the run.
pub async fn set_refreshed(tx: &mut WorkspaceTx, id: Uuid, refreshed: bool) -> Result<(), Error> {
    sqlx::query!(
        "UPDATE runs SET refreshed = $3 WHERE workspace_id = $1 AND id = $2",
        tx.workspace().as_str(),
        id,
        refreshed,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Ends a run, or puts it to sleep over its plan. The caller holds the run.
pub async fn end_run(
    tx: &mut WorkspaceTx,
    id: Uuid,
    status: &str,
    error: Option<&str>,
    plan_sha256: Option<&[u8]>,
) -> Result<(), Error> {
    let state_id = sqlx::query_scalar!(
        r#"
            UPDATE runs
            SET status = $3, error = $4, plan_sha256 = coalesce($5, plan_sha256), backend_lock = NULL,
                finished_at = CASE WHEN $3 = 'planned' THEN NULL ELSE clock_timestamp() END
            WHERE workspace_id = $1 AND id = $2
            RETURNING state_id
        "#,
        tx.workspace().as_str(),
        id,
        status,
        error,
        plan_sha256,
    )
    .fetch_optional(&mut **tx)
    .await?;
    if let Some(state_id) = state_id {
        tx.note_seen(state_id);
    }
    Ok(())
}

/// Wakes the run of a saved plan. The caller holds the run.
pub async fn reopen_run(tx: &mut WorkspaceTx, id: Uuid, new: &Reopening<'_>) -> Result<(), Error> {
    sqlx::query!(
        r#"
            UPDATE runs
            SET kind = $3, status = 'running', command = $4, who = $5, principal_id = $6, contract = $7,
                base_seq = $8, reservation_id = $9, backend_lock = NULL, finished_at = NULL, error = NULL
            WHERE workspace_id = $1 AND id = $2
        "#,
        tx.workspace().as_str(),
        id,
        new.kind,
        new.command,
        new.who,
        new.principal_id,
        new.contract,
        new.base_seq,
        new.reservation_id,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Notes which reservation a run has now, and on which version it was granted. The caller holds the run.
pub async fn set_run_reservation(
    tx: &mut WorkspaceTx,
    id: Uuid,
    reservation_id: Option<Uuid>,
    base_seq: i64,
) -> Result<(), Error> {
    sqlx::query!(
        "UPDATE runs SET reservation_id = $3, base_seq = $4 WHERE workspace_id = $1 AND id = $2",
        tx.workspace().as_str(),
        id,
        reservation_id,
        base_seq,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
