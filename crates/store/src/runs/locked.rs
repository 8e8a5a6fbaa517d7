//! A run as its own client works with it: with its state and what it holds.

use protocol::{EnvironmentId, StateName, WorkspaceId};
use uuid::Uuid;

use super::standings::RunStanding;
use crate::{Db, Error, Lifecycle, Reservation, State, WorkspaceTx};

/// A run whose row is locked.
#[derive(Debug, Clone)]
pub struct LockedRun {
    pub run: RunStanding,
    pub state: State,
    /// Its newest reservation, active or ended.
    pub reservation: Option<Reservation>,
}

/// Locks the row of a run and reads what belongs to it, in one statement. `named` is the state that it must be a run of.
pub async fn lock_run_of(
    tx: &mut WorkspaceTx,
    id: Uuid,
    named: Option<(&EnvironmentId, &StateName)>,
) -> Result<Option<LockedRun>, Error> {
    let Some(found) = lock(tx, id, named).await? else {
        return Ok(None);
    };
    if found.run.reservation_id == found.reservation.as_ref().map(|held| held.id) {
        return Ok(Some(found));
    }
    // Its row was waited for and names another reservation since; what is read beside a locked row is from before the wait.
    lock(tx, id, named).await
}

/// A run as far as its client is asked before it waits for its turn.
#[derive(Debug, Clone)]
pub struct WaitingRun {
    pub state: State,
    pub principal_id: String,
    pub who: String,
    pub command: String,
    /// Whether it holds something.
    pub holds: bool,
}

/// A run of the state of this name, in one round trip and without a transaction.
pub async fn find_run_at_once(
    db: &Db,
    workspace: &WorkspaceId,
    (environment, name): (&EnvironmentId, &StateName),
    id: Uuid,
) -> Result<Option<WaitingRun>, Error> {
    let row = db
        .ask(|pool| async move {
            sqlx::query!(
                r#"
                    SELECT state_id AS "state_id!", name AS "name!", head_seq AS "head_seq!", seq_floor AS "seq_floor!",
                           lifecycle AS "lifecycle!", created_at AS "created_at!", principal_id AS "principal_id!",
                           who AS "who!", command AS "command!", holds AS "holds!"
                    FROM run_of_state($1, $2, $3, $4)
                "#,
                workspace.as_str(),
                environment.as_str(),
                name.as_str(),
                id,
            )
            .fetch_optional(&pool)
            .await
        })
        .await?;
    row.map(|row| {
        Ok(WaitingRun {
            state: State {
                id: row.state_id,
                name: row.name,
                head_seq: row.head_seq,
                seq_floor: row.seq_floor,
                lifecycle: Lifecycle::parse(&row.lifecycle)?,
                created_at: row.created_at,
            },
            principal_id: row.principal_id,
            who: row.who,
            command: row.command,
            holds: row.holds,
        })
    })
    .transpose()
}

async fn lock(
    tx: &mut WorkspaceTx,
    id: Uuid,
    named: Option<(&EnvironmentId, &StateName)>,
) -> Result<Option<LockedRun>, Error> {
    let row = sqlx::query!(
        r#"
            SELECT r.id, r.state_id, r.kind, r.status, r.command, r.who, r.principal_id, r.base_seq, r.reservation_id,
                   r.started_at, r.finished_at, r.error,
                   s.name, s.head_seq, s.seq_floor, s.lifecycle, s.created_at AS state_created_at,
                   h.id AS "held_id?", h.lane AS "lane?", h.idem_key AS "idem_key?", h.token AS "token?",
                   h.incarnation AS "incarnation?", h.granted_gen AS "granted_gen?", h.status AS "held_status?",
                   h.lease_seconds, h.expires_at, h.base_seq AS "held_base_seq?", h.end_reason, h.info AS "info?",
                   h.principal_id AS "held_principal_id?", h.created_at AS "held_created_at?",
                   h.last_active_at AS "last_active_at?", h.began_at, h.ended_at
            FROM runs r
            CROSS JOIN LATERAL (
                SELECT environment_id, name, folded_name, head_seq, seq_floor, lifecycle, created_at
                FROM states
                WHERE workspace_id = $1 AND id = r.state_id
                OFFSET 0
            ) AS s
            LEFT JOIN LATERAL (
                SELECT id, lane, idem_key, token, incarnation, granted_gen, status, lease_seconds, expires_at, base_seq,
                       end_reason, info, principal_id, created_at, last_active_at, began_at, ended_at
                FROM reservations
                WHERE workspace_id = $1 AND id = r.reservation_id
                OFFSET 0
            ) AS h ON true
            WHERE r.workspace_id = $1 AND r.id = $2
              AND (
                  $3::text IS NULL
                  OR (s.environment_id = $3 AND s.folded_name = lower($4) AND s.lifecycle <> 'deleted')
              )
            FOR UPDATE OF r
        "#,
        tx.workspace().as_str(),
        id,
        named.map(|(environment, _)| environment.as_str()),
        named.map(|(_, name)| name.as_str()),
    )
    .fetch_optional(&mut **tx)
    .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let reservation = row.held_id.map(|id| {
        let columns = || {
            Some(Reservation {
                id,
                state_id: row.state_id,
                run_id: Some(row.id),
                lane: row.lane?,
                idem_key: row.idem_key?,
                token: row.token?,
                incarnation: row.incarnation?,
                granted_gen: row.granted_gen?,
                status: row.held_status.clone()?,
                lease_seconds: row.lease_seconds,
                expires_at: row.expires_at,
                base_seq: row.held_base_seq?,
                end_reason: row.end_reason.clone(),
                info: row.info?,
                principal_id: row.held_principal_id?,
                created_at: row.held_created_at?,
                last_active_at: row.last_active_at?,
                began_at: row.began_at,
                due: false,
            })
        };
        columns().ok_or_else(|| Error::impossible("reservations", "a column is null"))
    });
    Ok(Some(LockedRun {
        run: RunStanding {
            id: row.id,
            state_id: row.state_id,
            kind: row.kind,
            status: row.status,
            command: row.command,
            who: row.who,
            principal_id: row.principal_id,
            base_seq: row.base_seq,
            reservation_id: row.reservation_id,
            started_at: row.started_at,
            finished_at: row.finished_at,
            error: row.error,
            reservation_status: row.held_status,
            reservation_end: row.end_reason,
            reservation_ended_at: row.ended_at,
        },
        state: State {
            id: row.state_id,
            name: row.name,
            head_seq: row.head_seq,
            seq_floor: row.seq_floor,
            lifecycle: Lifecycle::parse(&row.lifecycle)?,
            created_at: row.state_created_at,
        },
        reservation: reservation.transpose()?,
    }))
}
