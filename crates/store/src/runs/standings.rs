//! Runs as those see them who watch a state: what each is and how far it has come, without its scope.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::{Error, WorkspaceTx};

/// What a run is at the moment, from its own row and that of its newest reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunStanding {
    pub id: Uuid,
    pub kind: String,
    pub status: String,
    pub command: String,
    pub who: String,
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
    standings(tx, Some(state_id), None, limit).await
}

/// The state that a run is of, and what the run is.
pub async fn find_run_standing(
    tx: &mut WorkspaceTx,
    id: Uuid,
) -> Result<Option<(Uuid, RunStanding)>, Error> {
    let state_id = sqlx::query_scalar!(
        "SELECT state_id FROM runs WHERE workspace_id = $1 AND id = $2",
        tx.workspace().as_str(),
        id,
    )
    .fetch_optional(&mut **tx)
    .await?;
    let standing = standings(tx, None, Some(id), 1).await?.pop();
    Ok(state_id.zip(standing))
}

async fn standings(
    tx: &mut WorkspaceTx,
    state_id: Option<Uuid>,
    id: Option<Uuid>,
    limit: i64,
) -> Result<Vec<RunStanding>, Error> {
    let runs = sqlx::query_as!(
        RunStanding,
        r#"
            SELECT r.id, r.kind, r.status, r.command, r.who, r.started_at, r.finished_at, r.error,
                   h.status AS "reservation_status?", h.end_reason AS reservation_end,
                   h.ended_at AS reservation_ended_at
            FROM runs r
            LEFT JOIN reservations h ON h.workspace_id = r.workspace_id AND h.id = r.reservation_id
            WHERE r.workspace_id = $1 AND ($2::uuid IS NULL OR r.state_id = $2) AND ($3::uuid IS NULL OR r.id = $3)
            ORDER BY r.id DESC
            LIMIT $4
        "#,
        tx.workspace().as_str(),
        state_id,
        id,
        limit,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(runs)
}
