//! Bodies that came too late: stored before they are refused, until somebody has dealt with them.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::{Error, WorkspaceTx};

/// Stores a body that came too late, before it is refused. The same body is stored once.
#[derive(Debug, Clone)]
pub struct KeptResult<'a> {
    pub state_id: Uuid,
    pub reservation_id: Uuid,
    pub base_seq: i64,
    pub digest: &'a [u8],
    /// Compressed and sealed.
    pub packed: &'a [u8],
    pub byte_size: i64,
    pub kept_by: &'a str,
}

pub async fn keep_result(tx: &mut WorkspaceTx, kept: &KeptResult<'_>) -> Result<(), Error> {
    sqlx::query!(
        r#"
            INSERT INTO kept_results (
                workspace_id, id, state_id, reservation_id, base_seq, digest, body, byte_size, kept_by
            )
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
            ON CONFLICT (workspace_id, reservation_id, digest) DO NOTHING
        "#,
        tx.workspace().as_str(),
        Uuid::now_v7(),
        kept.state_id,
        kept.reservation_id,
        kept.base_seq,
        kept.digest,
        kept.packed,
        kept.byte_size,
        kept.kept_by,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Keeps an upload to a run's own backend, the newest of each lock there: it holds those before it.
pub async fn keep_upload(
    tx: &mut WorkspaceTx,
    kept: &KeptResult<'_>,
    lock_id: &str,
) -> Result<(), Error> {
    let replaced = sqlx::query!(
        r#"
            UPDATE kept_results
            SET base_seq = $4, digest = $5, body = $6, byte_size = $7, kept_by = $8, kept_at = clock_timestamp()
            WHERE workspace_id = $1 AND reservation_id = $2 AND lock_id = $3 AND settled_at IS NULL
        "#,
        tx.workspace().as_str(),
        kept.reservation_id,
        lock_id,
        kept.base_seq,
        kept.digest,
        kept.packed,
        kept.byte_size,
        kept.kept_by,
    )
    .execute(&mut **tx)
    .await?
    .rows_affected();
    if replaced > 0 {
        return Ok(());
    }
    sqlx::query!(
        r#"
            INSERT INTO kept_results (
                workspace_id, id, state_id, reservation_id, base_seq, digest, body, byte_size, kept_by, lock_id
            )
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
            ON CONFLICT (workspace_id, reservation_id, digest) DO NOTHING
        "#,
        tx.workspace().as_str(),
        Uuid::now_v7(),
        kept.state_id,
        kept.reservation_id,
        kept.base_seq,
        kept.digest,
        kept.packed,
        kept.byte_size,
        kept.kept_by,
        lock_id,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// A kept result, without its body.
#[derive(Debug, Clone)]
pub struct KeptRecord {
    pub id: Uuid,
    pub lock_id: String,
    pub run_id: Option<Uuid>,
    pub base_seq: i64,
    pub byte_size: i64,
    pub kept_at: DateTime<Utc>,
    pub kept_by: String,
    pub settled_at: Option<DateTime<Utc>>,
}

/// What is kept of a state, newest first.
pub async fn list_kept(tx: &mut WorkspaceTx, state_id: Uuid) -> Result<Vec<KeptRecord>, Error> {
    let rows = sqlx::query_as!(
        KeptRecord,
        r#"
            SELECT k.id, coalesce(k.lock_id, r.idem_key) AS "lock_id!", r.run_id, k.base_seq, k.byte_size, k.kept_at, k.kept_by, k.settled_at
            FROM kept_results k
            CROSS JOIN LATERAL (
                SELECT idem_key, run_id FROM reservations WHERE workspace_id = $1 AND id = k.reservation_id OFFSET 0
            ) AS r
            WHERE k.workspace_id = $1 AND k.state_id = $2
            ORDER BY k.id DESC
            LIMIT 100
        "#,
        tx.workspace().as_str(),
        state_id,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows)
}

/// A kept result with its body.
#[derive(Debug, Clone)]
pub struct KeptBody {
    pub id: Uuid,
    pub state_id: Uuid,
    pub reservation_id: Uuid,
    /// Absent for a write of plain Terraform.
    pub run_id: Option<Uuid>,
    pub base_seq: i64,
    /// Compressed and sealed.
    pub packed: Vec<u8>,
    pub byte_size: i64,
    pub settled: bool,
}

pub async fn find_kept_body(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    id: Uuid,
) -> Result<Option<KeptBody>, Error> {
    let row = sqlx::query_as!(
        KeptBody,
        r#"
            SELECT k.id, k.state_id, k.reservation_id, r.run_id, k.base_seq, k.body AS packed, k.byte_size,
                   k.settled_at IS NOT NULL AS "settled!"
            FROM kept_results k
            CROSS JOIN LATERAL (
                SELECT run_id FROM reservations WHERE workspace_id = $1 AND id = k.reservation_id OFFSET 0
            ) AS r
            WHERE k.workspace_id = $1 AND k.state_id = $2 AND k.id = $3
        "#,
        tx.workspace().as_str(),
        state_id,
        id,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(row)
}

/// Notes that somebody has dealt with a kept result.
pub async fn settle_kept(tx: &mut WorkspaceTx, id: Uuid) -> Result<(), Error> {
    sqlx::query!(
        r#"
            UPDATE kept_results
            SET settled_at = clock_timestamp()
            WHERE workspace_id = $1 AND id = $2 AND settled_at IS NULL
        "#,
        tx.workspace().as_str(),
        id,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// How many kept results of a reservation nobody has dealt with.
pub async fn count_open_kept(tx: &mut WorkspaceTx, reservation_id: Uuid) -> Result<i64, Error> {
    let count = sqlx::query_scalar!(
        r#"
            SELECT count(*) AS "count!"
            FROM kept_results
            WHERE workspace_id = $1 AND reservation_id = $2 AND settled_at IS NULL
        "#,
        tx.workspace().as_str(),
        reservation_id,
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(count)
}

/// The packed body of a kept result with its base and plain size.
pub async fn find_kept(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    id: Uuid,
) -> Result<Option<(Vec<u8>, i64, i64)>, Error> {
    let row = sqlx::query!(
        r#"
            SELECT body, base_seq, byte_size
            FROM kept_results
            WHERE workspace_id = $1 AND state_id = $2 AND id = $3
        "#,
        tx.workspace().as_str(),
        state_id,
        id,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(row.map(|row| (row.body, row.base_seq, row.byte_size)))
}
