//! Idempotency keys: a repeated request gets the first one's answer and does nothing again.

use protocol::PrincipalId;
use serde_json::Value;

use crate::{Error, Result, WorkspaceTx};

/// How long an answer is kept. A client that has not heard by then will not ask again.
const KEPT_HOURS: i32 = 24;

/// What a key stands for.
#[derive(Debug)]
pub enum Claim {
    /// Nothing yet: do the work, then [`answer`] in the same transaction.
    New,
    /// The same request was answered before, with this.
    Answered(Value),
    /// Another request came under this key before.
    Mismatch,
}

/// Claims a key for the transaction. While it runs, another request with the key waits.
///
/// `request_digest` is the SHA-256 of everything that makes the request what it is.
///
/// # Errors
///
/// Those of the database.
pub async fn claim(
    tx: &mut WorkspaceTx,
    principal: &PrincipalId,
    key: &str,
    request_digest: &[u8; 32],
) -> Result<Claim> {
    let workspace = tx.workspace().clone();
    let claimed = sqlx::query!(
        r#"
            INSERT INTO idempotency_keys (workspace_id, principal_id, key, request_digest, expires_at)
            VALUES ($1, $2, $3, $4, now() + make_interval(hours => $5))
            ON CONFLICT (workspace_id, principal_id, key) DO UPDATE
            SET request_digest = excluded.request_digest,
                answer = NULL,
                expires_at = excluded.expires_at
            WHERE idempotency_keys.expires_at < now()
        "#,
        workspace.as_str(),
        principal.as_str(),
        key,
        request_digest.as_slice(),
        KEPT_HOURS,
    )
    .execute(&mut **tx)
    .await?
    .rows_affected();
    if claimed == 1 {
        return Ok(Claim::New);
    }
    find_answer(tx, principal, key, request_digest)
        .await?
        .ok_or_else(|| Error::impossible("idempotency_keys", "the key vanished"))
}

/// What a key stands for, without claiming it. `None` when it is not known.
///
/// # Errors
///
/// Those of the database.
pub async fn find_answer(
    tx: &mut WorkspaceTx,
    principal: &PrincipalId,
    key: &str,
    request_digest: &[u8; 32],
) -> Result<Option<Claim>> {
    let workspace = tx.workspace().clone();
    let row = sqlx::query!(
        r#"
            SELECT request_digest, answer
            FROM idempotency_keys
            WHERE workspace_id = $1 AND principal_id = $2 AND key = $3
        "#,
        workspace.as_str(),
        principal.as_str(),
        key,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(match row {
        None => None,
        Some(row) if row.request_digest != request_digest => Some(Claim::Mismatch),
        Some(row) => Some(Claim::Answered(row.answer.ok_or_else(|| {
            Error::impossible("idempotency_keys", "committed without an answer")
        })?)),
    })
}

/// Keeps the answer of a claimed key. It must hold no secret.
///
/// # Errors
///
/// Those of the database.
pub async fn answer(
    tx: &mut WorkspaceTx,
    principal: &PrincipalId,
    key: &str,
    answer: &Value,
) -> Result<()> {
    let workspace = tx.workspace().clone();
    sqlx::query!(
        r#"
            UPDATE idempotency_keys
            SET answer = $4
            WHERE workspace_id = $1 AND principal_id = $2 AND key = $3
        "#,
        workspace.as_str(),
        principal.as_str(),
        key,
        answer,
    )
    .execute(&mut **tx)
    .await?;
    // The principal's old keys go when it makes a new one, so no sweeper is needed for them.
    sqlx::query!(
        r#"
            DELETE FROM idempotency_keys
            WHERE workspace_id = $1 AND principal_id = $2 AND expires_at < now()
        "#,
        workspace.as_str(),
        principal.as_str(),
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
