//! Marks on paths whose record may differ from the real infrastructure.

use chrono::{DateTime, Utc};
use graph::claims::Path;
use uuid::Uuid;

use super::nodes::joined;
use crate::{Error, WorkspaceTx};

/// An open mark.
#[derive(Debug, Clone)]
pub struct UnsettledMark {
    pub reservation_id: Uuid,
    pub path: Path,
    pub run_id: Option<Uuid>,
    /// The holder's lock information. JSON.
    pub info: String,
    pub reason: String,
    pub since: DateTime<Utc>,
}

/// Marks these paths. One that the same reservation left before, and that was cleared since, is open again.
pub async fn mark_unsettled(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    reservation_id: Uuid,
    paths: &[Path],
    reason: &str,
) -> Result<(), Error> {
    if paths.is_empty() {
        return Ok(());
    }
    let mut paths: Vec<String> = paths.iter().map(joined).collect();
    paths.sort_unstable();
    paths.dedup();
    sqlx::query!(
        r#"
            INSERT INTO unsettled (workspace_id, state_id, reservation_id, path, reason)
            SELECT $1, $2, $3, string_to_array(u.path, E'\n'), $5
            FROM unnest($4::text[]) AS u (path)
            ON CONFLICT (workspace_id, state_id, reservation_id, path) DO UPDATE
            SET reason = excluded.reason, since = clock_timestamp(), cleared_at = NULL, cleared_by = NULL
            WHERE unsettled.cleared_at IS NOT NULL
        "#,
        tx.workspace().as_str(),
        state_id,
        reservation_id,
        &paths,
        reason,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// The open marks of a state, oldest first. There are as many as runs that went wrong left behind.
pub async fn list_unsettled(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
) -> Result<Vec<UnsettledMark>, Error> {
    let rows = sqlx::query!(
        r#"
            SELECT u.reservation_id, u.path, u.reason, u.since, r.run_id AS "run_id?", r.info
            FROM unsettled u
            CROSS JOIN LATERAL (
                SELECT run_id, info FROM reservations WHERE workspace_id = $1 AND id = u.reservation_id OFFSET 0
            ) AS r
            WHERE u.workspace_id = $1 AND u.state_id = $2 AND u.cleared_at IS NULL
            ORDER BY u.since, u.path
        "#,
        tx.workspace().as_str(),
        state_id,
    )
    .fetch_all(&mut **tx)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(UnsettledMark {
                reservation_id: row.reservation_id,
                path: Path::from_texts(&row.path)
                    .map_err(|error| Error::impossible("unsettled", error))?,
                run_id: row.run_id,
                info: row.info,
                reason: row.reason,
                since: row.since,
            })
        })
        .collect()
}

/// Clears open marks: each as it was listed.
pub async fn clear_unsettled(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    marks: &[&UnsettledMark],
    cleared_by: &str,
) -> Result<(), Error> {
    if marks.is_empty() {
        return Ok(());
    }
    let (reservations, paths): (Vec<Uuid>, Vec<String>) = marks
        .iter()
        .map(|mark| (mark.reservation_id, joined(&mark.path)))
        .unzip();
    sqlx::query!(
        r#"
            UPDATE unsettled
            SET cleared_at = clock_timestamp(), cleared_by = $5
            FROM unnest($3::uuid[], $4::text[]) AS u (reservation_id, path)
            WHERE unsettled.workspace_id = $1 AND unsettled.state_id = $2
              AND unsettled.reservation_id = u.reservation_id
              AND unsettled.path = string_to_array(u.path, E'\n') AND unsettled.cleared_at IS NULL
        "#,
        tx.workspace().as_str(),
        state_id,
        &reservations,
        &paths,
        cleared_by,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
