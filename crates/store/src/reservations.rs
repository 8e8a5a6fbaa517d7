//! The ledger of reservations: rows that say who holds what of a state.
//!
//! Lock order, always: lock head, reservation, state, instances. Each is taken by a statement of its
//! own, so that what follows sees everything that was committed during the wait.

use chrono::{DateTime, Utc};
use protocol::{EnvironmentId, StateName};
use uuid::Uuid;

use crate::{Error, WorkspaceTx};

/// How long a reservation may outlive its expiry before another may end it: covers a renewal that is on
/// its way.
pub const LOCK_DELAY_SECONDS: i64 = 15;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    Terraform,
    Admin,
}

impl Lane {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Terraform => "terraform",
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
    pub lane: String,
    pub idem_key: String,
    pub token: i64,
    pub status: String,
    pub expires_at: Option<DateTime<Utc>>,
    pub base_seq: i64,
    pub end_reason: Option<String>,
    /// Terraform's LockInfo as JSON.
    pub info: String,
    pub principal_id: String,
    pub created_at: DateTime<Utc>,
    pub last_active_at: DateTime<Utc>,
    /// Whether its lease and the lock delay have run out by the database's clock.
    pub due: bool,
}

impl Reservation {
    pub fn is_active(&self) -> bool {
        self.status == "active"
    }
}

/// What a grant records.
#[derive(Debug, Clone)]
pub struct NewReservation<'a> {
    pub state_id: Uuid,
    pub lane: Lane,
    pub idem_key: &'a str,
    pub lease_seconds: Option<i64>,
    pub base_seq: i64,
    pub info: &'a str,
    pub principal_id: &'a str,
}

/// Locks the head row of a state's ledger: everything that grants or ends passes here, one at a time.
pub async fn lock_ledger(tx: &mut WorkspaceTx, state_id: Uuid) -> Result<(), Error> {
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
            SELECT id, state_id, lane, idem_key, token, status, expires_at, base_seq, end_reason, info,
                   principal_id, created_at, last_active_at,
                   coalesce(expires_at + make_interval(secs => $3::bigint::double precision)
                       < clock_timestamp(), false) AS "due!"
            FROM reservations
            WHERE workspace_id = $1 AND state_id = $2 AND status = 'active'
            ORDER BY token
        "#,
        tx.workspace().as_str(),
        state_id,
        LOCK_DELAY_SECONDS,
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
            SELECT id, state_id, lane, idem_key, token, status, expires_at, base_seq, end_reason, info,
                   principal_id, created_at, last_active_at, false AS "due!"
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
            SELECT r.id, r.state_id, r.lane, r.idem_key, r.token, r.status, r.expires_at, r.base_seq, r.end_reason,
                   r.info, r.principal_id, r.created_at, r.last_active_at, false AS "due!"
            FROM reservations r
            JOIN states s ON s.workspace_id = r.workspace_id AND s.id = r.state_id
            WHERE r.workspace_id = $1 AND r.idem_key = $4 AND r.lane = 'terraform' AND r.status <> 'active'
              AND s.environment_id = $2 AND lower(s.name) = lower($3)
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
            SELECT id, state_id, lane, idem_key, token, status, expires_at, base_seq, end_reason, info,
                   principal_id, created_at, last_active_at, false AS "due!"
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

/// Grants a claim on the whole state. The caller holds the ledger and has found no conflict.
pub async fn insert_whole_state(
    tx: &mut WorkspaceTx,
    new: &NewReservation<'_>,
) -> Result<Reservation, Error> {
    let id = Uuid::now_v7();
    let row = sqlx::query_as!(
        Reservation,
        r#"
            WITH head AS (
                UPDATE lock_heads
                SET token = token + 1, gen = gen + 1
                WHERE workspace_id = $1 AND state_id = $3
                RETURNING token, gen
            )
            INSERT INTO reservations (
                workspace_id, id, state_id, lane, idem_key, token, incarnation, lease_seconds,
                expires_at, base_seq, granted_gen, info, principal_id
            )
            SELECT $1, $2, $3, $4, $5, head.token, s.incarnation, $6::bigint,
                   clock_timestamp() + make_interval(secs => $6::bigint::double precision), $7, head.gen, $8, $9
            FROM head, lock_service s
            RETURNING id, state_id, lane, idem_key, token, status, expires_at, base_seq, end_reason, info,
                      principal_id, created_at, last_active_at, false AS "due!"
        "#,
        tx.workspace().as_str(),
        id,
        new.state_id,
        new.lane.as_str(),
        new.idem_key,
        new.lease_seconds,
        new.base_seq,
        new.info,
        new.principal_id,
    )
    .fetch_one(&mut **tx)
    .await?;
    sqlx::query!(
        "INSERT INTO claims (workspace_id, reservation_id, path, mode) VALUES ($1, $2, '{}', 'write')",
        tx.workspace().as_str(),
        id,
    )
    .execute(&mut **tx)
    .await?;
    Ok(row)
}

/// Ends an active reservation; false when it had ended already. The caller holds the ledger.
pub async fn end_reservation(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    id: Uuid,
    end: End,
    reason: &str,
) -> Result<bool, Error> {
    let ended = sqlx::query!(
        r#"
            WITH head AS (
                UPDATE lock_heads
                SET gen = gen + 1
                WHERE workspace_id = $1 AND state_id = $2
                RETURNING gen
            )
            UPDATE reservations
            SET status = $4, end_reason = $5, ended_gen = head.gen, ended_at = clock_timestamp()
            FROM head
            WHERE workspace_id = $1 AND state_id = $2 AND id = $3 AND status = 'active'
        "#,
        tx.workspace().as_str(),
        state_id,
        id,
        end.as_str(),
        reason,
    )
    .execute(&mut **tx)
    .await?
    .rows_affected();
    Ok(ended == 1)
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
    let may = sqlx::query_scalar!(
        r#"
            SELECT last_beat > clock_timestamp() - make_interval(secs => 15)
                   AND coalesce(grace_until < clock_timestamp(), true) AS "may!"
            FROM lock_service
        "#,
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(may)
}

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

/// A kept result, without its body.
#[derive(Debug, Clone)]
pub struct KeptRecord {
    pub id: Uuid,
    pub lock_id: String,
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
            SELECT k.id, r.idem_key AS lock_id, k.base_seq, k.byte_size, k.kept_at, k.kept_by, k.settled_at
            FROM kept_results k
            JOIN reservations r ON r.workspace_id = k.workspace_id AND r.id = k.reservation_id
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
