//! Finding runs: single ones and lists of them, and what they wrote.

use uuid::Uuid;

use super::records::RunRecord;
use crate::{Error, WorkspaceTx};

/// How long a plan in a file may be applied.
const PLAN_HOURS: i32 = 24;

/// A version that a run wrote, with the addresses it changed.
#[derive(Debug, Clone)]
pub struct RunVersionRow {
    pub seq: i64,
    pub id: Uuid,
    pub serial: String,
    pub changed: Vec<String>,
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
                    ARRAY (
                        SELECT DISTINCT (SELECT state_id FROM runs WHERE workspace_id = $1 AND id = wanted.id)
                        FROM unnest($2::uuid[]) AS wanted (id)
                    )
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
