//! Starting leases anew.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::{Error, WorkspaceTx};

/// A lease that was started anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenewedLease {
    pub id: Uuid,
    pub token: i64,
    pub lease_seconds: i64,
    pub expires_at: DateTime<Utc>,
}

/// Starts the lease anew, also of a reservation that is due: it ends only when somebody ends it. `None` when it has ended,
/// or is not the one of this token.
pub async fn renew_reservation(
    tx: &mut WorkspaceTx,
    id: Uuid,
    token: i64,
) -> Result<Option<RenewedLease>, Error> {
    let renewed = sqlx::query_as!(
        RenewedLease,
        r#"
            UPDATE reservations r
            SET last_active_at = clock_timestamp(),
                expires_at = clock_timestamp() + make_interval(secs => lease_seconds::double precision)
            FROM lock_service s
            WHERE r.workspace_id = $1 AND r.id = $2 AND r.token = $3 AND r.incarnation = s.incarnation
              AND r.status = 'active' AND r.lease_seconds IS NOT NULL
            RETURNING r.id, r.token, r.lease_seconds AS "lease_seconds!", r.expires_at AS "expires_at!"
        "#,
        tx.workspace().as_str(),
        id,
        token,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(renewed)
}

/// [`renew_reservation`] for many, each given as id and token, in one statement. Left out are those that it would refuse, and
/// those whose rows somebody works on at this moment: nobody here waits for anybody, so no two batches can wait for each
/// other.
pub async fn renew_reservations(
    tx: &mut WorkspaceTx,
    ids: &[Uuid],
    tokens: &[i64],
) -> Result<Vec<RenewedLease>, Error> {
    let renewed = sqlx::query_as!(
        RenewedLease,
        r#"
            WITH free AS (
                SELECT r.id
                FROM reservations r
                JOIN unnest($2::uuid[], $3::bigint[]) AS asked (id, token) ON asked.id = r.id AND asked.token = r.token
                WHERE r.workspace_id = $1 AND r.status = 'active' AND r.lease_seconds IS NOT NULL
                FOR UPDATE OF r SKIP LOCKED
            )
            UPDATE reservations r
            SET last_active_at = clock_timestamp(),
                expires_at = clock_timestamp() + make_interval(secs => lease_seconds::double precision)
            FROM free, lock_service s
            WHERE r.workspace_id = $1 AND r.id = free.id AND r.incarnation = s.incarnation
            RETURNING r.id, r.token, r.lease_seconds AS "lease_seconds!", r.expires_at AS "expires_at!"
        "#,
        tx.workspace().as_str(),
        ids,
        tokens,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(renewed)
}
