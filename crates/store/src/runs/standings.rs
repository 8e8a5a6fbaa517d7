//! Runs as those need them who watch a state, or who reserve and commit while others wait: what each is and how far it has
//! come, without its scope.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::lists::list_run_ids;
use crate::{Error, WorkspaceTx};

/// What a run is at the moment, from its own row and that of its newest reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunStanding {
    pub id: Uuid,
    pub state_id: Uuid,
    pub kind: String,
    pub status: String,
    pub command: String,
    pub who: String,
    pub principal_id: String,
    pub base_seq: i64,
    pub reservation_id: Option<Uuid>,
    pub started_at: DateTime<Utc>,
    pub finished_at: Option<DateTime<Utc>>,
    pub error: Option<String>,
    pub reservation_status: Option<String>,
    pub reservation_end: Option<String>,
    pub reservation_ended_at: Option<DateTime<Utc>>,
}

/// The newest runs of a state, newest first.
pub async fn list_run_standings(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    limit: i64,
) -> Result<Vec<RunStanding>, Error> {
    let ids = list_run_ids(tx, state_id, None, limit).await?;
    standings(tx, &ids).await
}

pub async fn find_run_standing(
    tx: &mut WorkspaceTx,
    id: Uuid,
) -> Result<Option<RunStanding>, Error> {
    Ok(standings(tx, &[id]).await?.pop())
}

async fn standings(tx: &mut WorkspaceTx, ids: &[Uuid]) -> Result<Vec<RunStanding>, Error> {
    let runs = sqlx::query_as!(
        RunStanding,
        r#"
            SELECT r.id, r.state_id, r.kind, r.status, r.command, r.who, r.principal_id, r.base_seq, r.reservation_id,
                   r.started_at, r.finished_at, r.error,
                   h.status AS "reservation_status?", h.end_reason AS reservation_end,
                   h.ended_at AS reservation_ended_at
            FROM unnest($2::uuid[]) AS wanted (id)
            CROSS JOIN LATERAL (
                SELECT id, state_id, kind, status, command, who, principal_id, base_seq, reservation_id, started_at,
                       finished_at, error
                FROM runs
                WHERE workspace_id = $1 AND id = wanted.id
                OFFSET 0
            ) AS r
            LEFT JOIN LATERAL (
                SELECT status, end_reason, ended_at
                FROM reservations
                WHERE workspace_id = $1 AND id = r.reservation_id
                OFFSET 0
            ) AS h ON true
            ORDER BY r.id DESC
        "#,
        tx.workspace().as_str(),
        ids,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(runs)
}
