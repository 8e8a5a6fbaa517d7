//! Who holds a state: heads, and reservations as they are found, kept alive and ended.

use chrono::{DateTime, Utc};
use locking::times::{BEAT_GAP, LEASE, LOCK_DELAY};
use locking::{Rule, holds};
use protocol::{EnvironmentId, StateName};
use uuid::Uuid;

use super::changes::LedgerEvent;
use crate::turns::Row;
use crate::{Error, WorkspaceTx};

/// After which part of a lease beyond its end a reservation is due, in seconds.
fn lock_delay() -> f64 {
    if holds(Rule::LockDelay) {
        LOCK_DELAY.as_seconds()
    } else {
        // Before anybody was told that it could be.
        -LEASE.as_seconds() / 2.0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    Terraform,
    Native,
    Admin,
}

impl Lane {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Terraform => "terraform",
            Self::Native => "native",
            Self::Admin => "admin",
        }
    }
}

/// How a reservation ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Released,
    Expired,
    Broken,
}

impl End {
    fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Broken => "broken",
        }
    }
}

/// A reservation as recorded, active or ended.
#[derive(Debug, Clone)]
pub struct Reservation {
    pub id: Uuid,
    pub state_id: Uuid,
    pub run_id: Option<Uuid>,
    pub lane: String,
    pub idem_key: String,
    pub token: i64,
    pub incarnation: i64,
    /// The ledger's gen at which it was granted.
    pub granted_gen: i64,
    pub status: String,
    pub lease_seconds: Option<i64>,
    pub expires_at: Option<DateTime<Utc>>,
    pub base_seq: i64,
    pub end_reason: Option<String>,
    /// Terraform's LockInfo as JSON.
    pub info: String,
    pub principal_id: String,
    pub created_at: DateTime<Utc>,
    pub last_active_at: DateTime<Utc>,
    /// When the holder began to change real infrastructure.
    pub began_at: Option<DateTime<Utc>>,
    /// Whether its lease and the lock delay have run out by the database's clock.
    pub due: bool,
}

impl Reservation {
    pub fn is_active(&self) -> bool {
        self.status == "active"
    }

    pub fn is_native(&self) -> bool {
        self.lane == Lane::Native.as_str()
    }
}

/// Locks the head row of a state's ledger: everything that grants or ends passes here, one at a time.
pub async fn lock_ledger(tx: &mut WorkspaceTx, state_id: Uuid) -> Result<(), Error> {
    tx.take_turn(Row::Ledger(state_id)).await;
    sqlx::query_scalar!(
        r#"
            SELECT token
            FROM lock_heads
            WHERE workspace_id = $1 AND state_id = $2
            FOR UPDATE
        "#,
        tx.workspace().as_str(),
        state_id,
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(())
}

/// Every active reservation of a state, oldest first.
pub async fn list_active(tx: &mut WorkspaceTx, state_id: Uuid) -> Result<Vec<Reservation>, Error> {
    let rows = sqlx::query_as!(
        Reservation,
        r#"
            SELECT id, state_id, run_id, lane, idem_key, token, incarnation, granted_gen, status, lease_seconds,
                   expires_at,
                   base_seq, end_reason, info, principal_id, created_at, last_active_at, began_at,
                   coalesce(expires_at + make_interval(secs => $3)
                       < clock_timestamp(), false) AS "due!"
            FROM reservations
            WHERE workspace_id = $1 AND state_id = $2 AND status = 'active'
            ORDER BY token
        "#,
        tx.workspace().as_str(),
        state_id,
        lock_delay(),
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows)
}

/// The reservation made with this key, active or ended.
pub async fn find_by_key(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    idem_key: &str,
) -> Result<Option<Reservation>, Error> {
    let row = sqlx::query_as!(
        Reservation,
        r#"
            SELECT id, state_id, run_id, lane, idem_key, token, incarnation, granted_gen, status, lease_seconds,
                   expires_at,
                   base_seq, end_reason, info, principal_id, created_at, last_active_at, began_at, false AS "due!"
            FROM reservations
            WHERE workspace_id = $1 AND state_id = $2 AND idem_key = $3
        "#,
        tx.workspace().as_str(),
        state_id,
        idem_key,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(row)
}

/// The ended Terraform lock with this ID on any state that bears or bore the name: deleting a state gives its name to
/// another, and a late client knows only the name.
pub async fn find_ended_by_name(
    tx: &mut WorkspaceTx,
    environment: &EnvironmentId,
    name: &StateName,
    idem_key: &str,
) -> Result<Option<Reservation>, Error> {
    let workspace = tx.workspace().clone();
    let row = sqlx::query_as!(
        Reservation,
        r#"
            SELECT r.id, r.state_id, r.run_id, r.lane, r.idem_key, r.token, r.incarnation, r.granted_gen, r.status,
                   r.lease_seconds, r.expires_at, r.base_seq, r.end_reason, r.info, r.principal_id, r.created_at,
                   r.last_active_at, r.began_at, false AS "due!"
            FROM reservations r
            JOIN states s ON s.workspace_id = r.workspace_id AND s.id = r.state_id
            WHERE r.workspace_id = $1 AND r.idem_key = $4 AND r.lane = 'terraform' AND r.status <> 'active'
              AND s.environment_id = $2 AND s.folded_name = lower($3)
            ORDER BY r.created_at DESC
            LIMIT 1
        "#,
        workspace.as_str(),
        environment.as_str(),
        name.as_str(),
        idem_key,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(row)
}

/// Locks the row of a reservation that is still active; `None` when it has ended.
pub async fn lock_active(tx: &mut WorkspaceTx, id: Uuid) -> Result<Option<Reservation>, Error> {
    let row = sqlx::query_as!(
        Reservation,
        r#"
            SELECT id, state_id, run_id, lane, idem_key, token, incarnation, granted_gen, status, lease_seconds,
                   expires_at,
                   base_seq, end_reason, info, principal_id, created_at, last_active_at, began_at, false AS "due!"
            FROM reservations
            WHERE workspace_id = $1 AND id = $2 AND status = 'active'
            FOR UPDATE
        "#,
        tx.workspace().as_str(),
        id,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(row)
}

/// The same for the holder of this token, as long as the database is the one that gave it out.
pub async fn lock_held(
    tx: &mut WorkspaceTx,
    id: Uuid,
    token: i64,
) -> Result<Option<Reservation>, Error> {
    let row = sqlx::query_as!(
        Reservation,
        r#"
            SELECT id, state_id, run_id, lane, idem_key, token, incarnation, granted_gen, status, lease_seconds,
                   expires_at,
                   base_seq, end_reason, info, principal_id, created_at, last_active_at, began_at, false AS "due!"
            FROM reservations
            WHERE workspace_id = $1 AND id = $2 AND status = 'active' AND token = $3
              AND incarnation = (SELECT incarnation FROM lock_service)
            FOR UPDATE
        "#,
        tx.workspace().as_str(),
        id,
        token,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(row)
}

/// Ends an active reservation. False when it had ended already, which whoever does not hold the ledger answers with a
/// rollback: the end of another may have been waited for in the middle of it.
///
/// The caller holds the ledger, or the row of the run that the reservation is of: nobody adds to its claims meanwhile, whose
/// nodes are deleted as they were when the statement began. The row of the ledger is locked before that of the reservation.
pub async fn end_reservation(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    id: Uuid,
    end: End,
    reason: &str,
) -> Result<bool, Error> {
    tx.take_turn(Row::Ledger(state_id)).await;
    let ended = sqlx::query!(
        r#"
            WITH head AS (
                UPDATE lock_heads
                SET gen = gen + 1
                WHERE workspace_id = $1 AND state_id = $2 AND EXISTS (
                    SELECT FROM reservations
                    WHERE workspace_id = $1 AND state_id = $2 AND id = $3 AND status = 'active'
                )
                RETURNING gen
            ),
            no_longer_found AS (
                DELETE FROM reservation_nodes WHERE workspace_id = $1 AND reservation_id = $3
            )
            UPDATE reservations
            SET status = $4, end_reason = $5, ended_gen = head.gen, ended_at = clock_timestamp()
            FROM head
            WHERE workspace_id = $1 AND state_id = $2 AND id = $3 AND status = 'active'
            RETURNING incarnation, ended_gen AS "ended_gen!"
        "#,
        tx.workspace().as_str(),
        state_id,
        id,
        end.as_str(),
        reason,
    )
    .fetch_optional(&mut **tx)
    .await?;
    let Some(ended) = ended else {
        return Ok(false);
    };
    tx.note(
        state_id,
        ended.incarnation,
        LedgerEvent::Ended {
            id,
            ended_gen: ended.ended_gen,
        },
    );
    Ok(true)
}

/// The reservation of this id, active or ended.
pub async fn find_reservation(
    tx: &mut WorkspaceTx,
    id: Uuid,
) -> Result<Option<Reservation>, Error> {
    let row = sqlx::query_as!(
        Reservation,
        r#"
            SELECT id, state_id, run_id, lane, idem_key, token, incarnation, granted_gen, status, lease_seconds,
                   expires_at,
                   base_seq, end_reason, info, principal_id, created_at, last_active_at, began_at,
                   coalesce(expires_at + make_interval(secs => $3)
                       < clock_timestamp(), false) AS "due!"
            FROM reservations
            WHERE workspace_id = $1 AND id = $2
        "#,
        tx.workspace().as_str(),
        id,
        lock_delay(),
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(row)
}

/// Notes that the holder of an active reservation begins to change real infrastructure.
pub async fn record_beginning(tx: &mut WorkspaceTx, id: Uuid) -> Result<(), Error> {
    sqlx::query!(
        r#"
            UPDATE reservations
            SET began_at = clock_timestamp()
            WHERE workspace_id = $1 AND id = $2 AND status = 'active' AND began_at IS NULL
        "#,
        tx.workspace().as_str(),
        id,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// The incarnation of the database: another one means that it was restored from a backup since.
pub async fn incarnation(tx: &mut WorkspaceTx) -> Result<i64, Error> {
    let incarnation =
        sqlx::query_scalar!(r#"SELECT incarnation::bigint AS "incarnation!" FROM lock_service"#)
            .fetch_one(&mut **tx)
            .await?;
    Ok(incarnation)
}

/// Records that the holder acted: its base moves to what it wrote, and its lease, if it has one, starts
/// anew. The caller holds the reservation's row.
pub async fn record_activity(tx: &mut WorkspaceTx, id: Uuid, base_seq: i64) -> Result<(), Error> {
    sqlx::query!(
        r#"
            UPDATE reservations
            SET base_seq = $3, last_active_at = clock_timestamp(),
                expires_at = clock_timestamp()
                    + make_interval(secs => lease_seconds::double precision)
            WHERE workspace_id = $1 AND id = $2 AND status = 'active'
        "#,
        tx.workspace().as_str(),
        id,
        base_seq,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Whether leases may be ended now: the service has been seen alive without a gap, and the grace period
/// after the last gap is over. After an outage nobody loses a lease that could not be renewed.
pub async fn may_expire(tx: &mut WorkspaceTx) -> Result<bool, Error> {
    if !holds(Rule::Grace) {
        return Ok(true);
    }
    let may = sqlx::query_scalar!(
        r#"
            SELECT last_beat > clock_timestamp() - make_interval(secs => $1)
                   AND coalesce(grace_until < clock_timestamp(), true) AS "may!"
            FROM lock_service
        "#,
        BEAT_GAP.as_seconds(),
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(may)
}

/// The gen of a state's ledger: it grows with every grant, widening and end.
pub async fn ledger_gen(tx: &mut WorkspaceTx, state_id: Uuid) -> Result<i64, Error> {
    let r#gen = sqlx::query_scalar!(
        "SELECT gen FROM lock_heads WHERE workspace_id = $1 AND state_id = $2",
        tx.workspace().as_str(),
        state_id,
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(r#gen)
}

/// The gens of the ledgers of these states, with the states' ids; those of states that are gone are left out.
pub async fn ledger_gens(tx: &mut WorkspaceTx, states: &[Uuid]) -> Result<Vec<(Uuid, i64)>, Error> {
    let rows = sqlx::query!(
        "SELECT state_id, gen FROM lock_heads WHERE workspace_id = $1 AND state_id = ANY ($2)",
        tx.workspace().as_str(),
        states,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (row.state_id, row.r#gen))
        .collect())
}

/// For how many seconds a run of this state usually holds its scope: the median of the last twenty that began to apply and
/// released it. `None` before the first one.
pub async fn usual_hold_seconds(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
) -> Result<Option<f64>, Error> {
    let seconds = sqlx::query_scalar!(
        r#"
            SELECT percentile_cont(0.5) WITHIN GROUP (
                ORDER BY extract(epoch FROM last.ended_at - last.created_at)::double precision
            )
            FROM (
                SELECT created_at, ended_at
                FROM reservations
                WHERE workspace_id = $1 AND state_id = $2 AND lane = 'native' AND status = 'released'
                  AND began_at IS NOT NULL
                ORDER BY incarnation DESC, token DESC
                LIMIT 20
            ) AS last
        "#,
        tx.workspace().as_str(),
        state_id,
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(seconds)
}
