//! The rows of runs.

use chrono::{DateTime, Utc};
use protocol::{EnvironmentId, WorkspaceId};
use uuid::Uuid;

use crate::{Db, Error, WorkspaceTx};

/// How long a plan in a file may be applied.
const PLAN_HOURS: i32 = 24;

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

/// A version that a run wrote, with the addresses it changed.
#[derive(Debug, Clone)]
pub struct RunVersionRow {
    pub seq: i64,
    pub id: Uuid,
    pub serial: String,
    pub changed: Vec<String>,
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

pub async fn find_run(tx: &mut WorkspaceTx, id: Uuid) -> Result<Option<RunRecord>, Error> {
    Ok(select(tx, &[id]).await?.pop())
}

/// Runs of a state before `before` (`None`: from the newest), newest first.
pub async fn list_runs(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<RunRecord>, Error> {
    let ids = list_run_ids(tx, state_id, before, limit).await?;
    select(tx, &ids).await
}

/// The same, no more than their ids.
pub(super) async fn list_run_ids(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<Uuid>, Error> {
    let ids = sqlx::query_scalar!(
        r#"
            SELECT id
            FROM runs
            WHERE workspace_id = $1 AND state_id = $2 AND id < $3
            ORDER BY id DESC
            LIMIT $4
        "#,
        tx.workspace().as_str(),
        state_id,
        before.unwrap_or(Uuid::max()),
        limit,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(ids)
}

/// These runs, newest first. What belongs to each is looked up on its own: joined as sets, the planner is free to read all
/// versions and reservations of the workspace for one run, and does so where it has no statistics yet.
async fn select(tx: &mut WorkspaceTx, ids: &[Uuid]) -> Result<Vec<RunRecord>, Error> {
    let runs = sqlx::query_as!(
        RunRecord,
        // What is kept of a state is looked through once, not once for each run.
        r#"
            WITH kept AS MATERIALIZED (
                SELECT held.run_id, count(*) AS results
                FROM kept_results k
                CROSS JOIN LATERAL (
                    SELECT run_id FROM reservations WHERE workspace_id = $1 AND id = k.reservation_id OFFSET 0
                ) AS held
                WHERE k.workspace_id = $1 AND k.state_id = ANY (
                    ARRAY (SELECT DISTINCT state_id FROM runs WHERE workspace_id = $1 AND id = ANY ($2))
                )
                GROUP BY held.run_id
            )
            SELECT r.id, r.state_id, s.name AS state_name, r.kind, r.status, r.command, r.who, r.principal_id,
                   r.scope, r.contract, r.base_seq, v.serial::text AS "base_serial?", r.reservation_id,
                   r.backend_lock, r.plan_sha256, r.refreshed, r.request_digest, r.spent_at, r.left_out, r.started_at,
                   r.finished_at, r.error,
                   coalesce(kept.results, 0) AS "kept_count!",
                   r.started_at < clock_timestamp() - make_interval(hours => $3) AS "too_old!",
                   h.status AS "reservation_status?", h.end_reason AS reservation_end,
                   h.ended_at AS reservation_ended_at
            FROM unnest($2::uuid[]) AS wanted (id)
            CROSS JOIN LATERAL (
                SELECT * FROM runs WHERE workspace_id = $1 AND id = wanted.id OFFSET 0
            ) AS r
            CROSS JOIN LATERAL (
                SELECT name FROM states WHERE workspace_id = $1 AND id = r.state_id OFFSET 0
            ) AS s
            LEFT JOIN LATERAL (
                SELECT serial
                FROM state_versions
                WHERE workspace_id = $1 AND state_id = r.state_id AND seq = r.base_seq
                OFFSET 0
            ) AS v ON true
            LEFT JOIN LATERAL (
                SELECT status, end_reason, ended_at
                FROM reservations
                WHERE workspace_id = $1 AND id = r.reservation_id
                OFFSET 0
            ) AS h ON true
            LEFT JOIN kept ON kept.run_id = r.id
            ORDER BY r.id DESC
        "#,
        tx.workspace().as_str(),
        ids,
        PLAN_HOURS,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(runs)
}

/// The versions that a run wrote, oldest first, each with the addresses whose rows were born or died with it.
pub async fn list_run_versions(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    run_id: Uuid,
) -> Result<Vec<RunVersionRow>, Error> {
    let rows = sqlx::query_as!(
        RunVersionRow,
        r#"
            SELECT v.seq, v.id, v.serial::text AS "serial!",
                   ARRAY(
                       SELECT i.address FROM instances i
                       WHERE i.workspace_id = $1 AND i.state_id = $2 AND i.born_seq = v.seq AND i.born_seq > 1
                       UNION
                       SELECT i.address FROM instances i
                       WHERE i.workspace_id = $1 AND i.state_id = $2 AND i.born_seq = 1 AND v.seq = 1
                       UNION
                       SELECT i.address FROM instances i
                       WHERE i.workspace_id = $1 AND i.state_id = $2 AND i.dies_seq = v.seq
                       UNION
                       SELECT 'output.' || o.name FROM outputs o
                       WHERE o.workspace_id = $1 AND o.state_id = $2 AND v.seq IN (o.born_seq, o.dies_seq)
                       ORDER BY 1
                   ) AS "changed!"
            FROM state_versions v
            WHERE v.workspace_id = $1 AND v.state_id = $2 AND v.run_id = $3
            ORDER BY v.seq
        "#,
        tx.workspace().as_str(),
        state_id,
        run_id,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows)
}

/// The version that changed an address last.
#[derive(Debug, Clone)]
pub struct LastChange {
    pub seq: i64,
    pub created_by: String,
    pub source: String,
    pub run_id: Option<Uuid>,
}

/// The newest version in which a row of this address was born or died.
pub async fn find_last_change(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    address: &str,
) -> Result<Option<LastChange>, Error> {
    let change = sqlx::query_as!(
        LastChange,
        r#"
            SELECT v.seq, v.created_by, v.source, v.run_id
            FROM instances i
            JOIN state_versions v
              ON v.workspace_id = i.workspace_id AND v.state_id = i.state_id
             AND v.seq = coalesce(i.dies_seq, i.born_seq)
            WHERE i.workspace_id = $1 AND i.state_id = $2 AND i.address = $3
            ORDER BY v.seq DESC
            LIMIT 1
        "#,
        tx.workspace().as_str(),
        state_id,
        address,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(change)
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
