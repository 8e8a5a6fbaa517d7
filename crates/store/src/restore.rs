//! Finishing the restore of a database from a backup.
//!
//! The backup may be older than what clients were told: reservations, tokens and versions that it does not have. After
//! this no token and no seq is ever given away twice, and nobody goes on under a reservation of before.

use locking::times::GRACE;

use crate::{Db, Error, WorkspaceTx};

/// How far tokens leap: further than there can be grants between a backup and its restore.
const TOKENS: i64 = 1_000_000;
/// How far seqs leap.
const SEQS: i64 = 1_000;

/// What was done in one workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Restored {
    pub states: u64,
    pub reservations: u64,
}

/// Ends what was held in the workspace and leaps over what may have been given away.
pub async fn restore_workspace(tx: &mut WorkspaceTx) -> Result<Restored, Error> {
    let workspace = tx.workspace().clone();
    let states = sqlx::query!(
        "UPDATE lock_heads SET token = token + $2, gen = gen + 1 WHERE workspace_id = $1",
        workspace.as_str(),
        TOKENS,
    )
    .execute(&mut **tx)
    .await?
    .rows_affected();
    // What was begun may have changed real infrastructure; so may have what the backup does not know to be begun.
    sqlx::query!(
        r#"
            INSERT INTO unsettled (workspace_id, state_id, reservation_id, path, reason)
            SELECT r.workspace_id, r.state_id, r.id, c.path, 'the database was restored from a backup'
            FROM reservations r
            JOIN claims c ON c.workspace_id = r.workspace_id AND c.reservation_id = r.id AND c.mode = 'write'
            WHERE r.workspace_id = $1 AND r.status = 'active'
              AND (r.lane = 'native' OR r.lane = 'terraform' AND r.info LIKE '%"Operation":"OperationTypeApply"%')
            ON CONFLICT (workspace_id, state_id, reservation_id, path) DO UPDATE
            SET reason = excluded.reason, since = clock_timestamp(), cleared_at = NULL, cleared_by = NULL
            WHERE unsettled.cleared_at IS NOT NULL
        "#,
        workspace.as_str(),
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        "DELETE FROM reservation_nodes WHERE workspace_id = $1",
        workspace.as_str(),
    )
    .execute(&mut **tx)
    .await?;
    let reservations = sqlx::query!(
        r#"
            UPDATE reservations r
            SET status = 'restored', end_reason = 'the database was restored from a backup', ended_gen = h.gen,
                ended_at = clock_timestamp()
            FROM lock_heads h
            WHERE r.workspace_id = $1 AND r.status = 'active'
              AND h.workspace_id = r.workspace_id AND h.state_id = r.state_id
        "#,
        workspace.as_str(),
    )
    .execute(&mut **tx)
    .await?
    .rows_affected();
    sqlx::query!(
        "UPDATE states SET seq_floor = greatest(head_seq, seq_floor) + $2 WHERE workspace_id = $1",
        workspace.as_str(),
        SEQS,
    )
    .execute(&mut **tx)
    .await?;
    Ok(Restored {
        states,
        reservations,
    })
}

/// Begins the database's next life, once every workspace is restored: replicas that stopped go on. Answers its number.
pub async fn begin_incarnation(db: &Db) -> Result<i64, Error> {
    let incarnation = sqlx::query_scalar!(
        r#"
            UPDATE lock_service
            SET incarnation = incarnation + 1, beat_no = greatest(beat_no, 0) + 1, last_beat = clock_timestamp(),
                grace_until = clock_timestamp() + make_interval(secs => $1)
            RETURNING incarnation::bigint AS "incarnation!"
        "#,
        GRACE.as_seconds(),
    )
    .fetch_one(&mut *db.system().await?)
    .await?;
    Ok(incarnation)
}
