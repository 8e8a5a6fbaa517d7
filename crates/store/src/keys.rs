//! The wrapped data key of a workspace, and the settings of an environment that writes obey.

use protocol::EnvironmentId;

use crate::{Error, WorkspaceTx};

/// The workspace's data key as the deployment key wrapped it; `None` until something is sealed.
pub async fn wrapped_key(tx: &mut WorkspaceTx) -> Result<Option<Vec<u8>>, Error> {
    let workspace = tx.workspace().clone();
    let key = sqlx::query_scalar!(
        "SELECT wrapped_key FROM workspaces WHERE id = $1",
        workspace.as_str()
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(key)
}

/// Gives the workspace this wrapped key unless it has one; returns the one it has then.
pub async fn adopt_wrapped_key(tx: &mut WorkspaceTx, wrapped: &[u8]) -> Result<Vec<u8>, Error> {
    let workspace = tx.workspace().clone();
    let key = sqlx::query_scalar!(
        r#"
            UPDATE workspaces
            SET wrapped_key = coalesce(wrapped_key, $2)
            WHERE id = $1
            RETURNING wrapped_key AS "wrapped_key!"
        "#,
        workspace.as_str(),
        wrapped,
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(key)
}

/// What an environment demands of writes and locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockPolicy {
    pub require_locks: bool,
    pub terraform_lock_ttl_seconds: Option<i64>,
}

pub async fn lock_policy(
    tx: &mut WorkspaceTx,
    environment: &EnvironmentId,
) -> Result<LockPolicy, Error> {
    let workspace = tx.workspace().clone();
    let row = sqlx::query!(
        r#"
            SELECT require_locks, terraform_lock_ttl_seconds
            FROM environments
            WHERE workspace_id = $1 AND id = $2
        "#,
        workspace.as_str(),
        environment.as_str(),
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(LockPolicy {
        require_locks: row.require_locks,
        terraform_lock_ttl_seconds: row.terraform_lock_ttl_seconds.map(i64::from),
    })
}
