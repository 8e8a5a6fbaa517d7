//! Tokens that reach nothing but one run.

use auth::{TokenId, TokenMac};
use uuid::Uuid;

use crate::{Error, WorkspaceTx};

/// How long a run's token works at most: longer than a plan in a file is good for, and than any apply takes. The run ends it
/// earlier.
const LIFETIME_DAYS: i32 = 3;

/// A token to be stored.
#[derive(Debug)]
pub struct NewRunToken<'a> {
    pub id: &'a TokenId,
    pub mac: &'a TokenMac,
    pub run_id: Uuid,
    /// The token that asks for it: no run reaches further than who began it.
    pub asked_with: &'a TokenId,
}

pub async fn create_run_token(tx: &mut WorkspaceTx, new: &NewRunToken<'_>) -> Result<(), Error> {
    sqlx::query!(
        r#"
            INSERT INTO credentials (
                token_id, workspace_id, principal_id, kind, mac, run_id, scope_role, scope_environment_id,
                created_by, expires_at
            )
            SELECT $1, $2, principal_id, 'run', $4, $5, scope_role, scope_environment_id, principal_id,
                   now() + make_interval(days => $6)
            FROM credentials
            WHERE workspace_id = $2 AND token_id = $3
        "#,
        new.id.as_str(),
        tx.workspace().as_str(),
        new.asked_with.as_str(),
        new.mac.as_bytes().as_slice(),
        new.run_id,
        LIFETIME_DAYS,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Makes the tokens of a run that sleeps those of whoever wakes it: a plan in a file carries one.
pub async fn hand_run_tokens_to(
    tx: &mut WorkspaceTx,
    run_id: Uuid,
    asked_with: &TokenId,
) -> Result<(), Error> {
    sqlx::query!(
        r#"
            UPDATE credentials c
            SET principal_id = own.principal_id, scope_role = own.scope_role,
                scope_environment_id = own.scope_environment_id,
                expires_at = now() + make_interval(days => $4)
            FROM credentials own
            WHERE c.workspace_id = $1 AND c.run_id = $2 AND c.revoked_at IS NULL
              AND own.workspace_id = $1 AND own.token_id = $3
        "#,
        tx.workspace().as_str(),
        run_id,
        asked_with.as_str(),
        LIFETIME_DAYS,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Ends the tokens of a run that is over.
pub async fn revoke_run_tokens(tx: &mut WorkspaceTx, run_id: Uuid) -> Result<(), Error> {
    sqlx::query!(
        r#"
            UPDATE credentials
            SET revoked_at = now()
            WHERE workspace_id = $1 AND run_id = $2 AND revoked_at IS NULL
        "#,
        tx.workspace().as_str(),
        run_id,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
