//! Removing what a failed import has restored. Triggers see to it that nothing else can go.

use uuid::Uuid;

use crate::{Error, WorkspaceTx};

/// Rows taken away in one statement: few enough that none runs into its time limit.
const REMOVED_AT_ONCE: i64 = 20_000;

/// Removes instance rows of a state that is being restored; false when none is left.
pub async fn remove_restored_rows(tx: &mut WorkspaceTx, state_id: Uuid) -> Result<bool, Error> {
    let workspace = tx.workspace().clone();
    let removed = sqlx::query!(
        r#"
            DELETE FROM instances
            WHERE ctid = ANY (ARRAY (
                SELECT ctid FROM instances WHERE workspace_id = $1 AND state_id = $2 LIMIT $3
            )) AND workspace_id = $1 AND state_id = $2 AND EXISTS (
                SELECT FROM states
                WHERE workspace_id = $1 AND id = $2 AND lifecycle = 'importing'
            )
        "#,
        workspace.as_str(),
        state_id,
        REMOVED_AT_ONCE,
    )
    .execute(&mut **tx)
    .await?
    .rows_affected();
    Ok(removed > 0)
}

/// Removes all else of a state that is being restored, and with it its name.
pub async fn remove_importing_state(tx: &mut WorkspaceTx, state_id: Uuid) -> Result<(), Error> {
    let workspace = tx.workspace().clone();
    let importing = sqlx::query_scalar!(
        r#"
            SELECT id FROM states
            WHERE workspace_id = $1 AND id = $2 AND lifecycle = 'importing'
            FOR UPDATE
        "#,
        workspace.as_str(),
        state_id,
    )
    .fetch_optional(&mut **tx)
    .await?;
    if importing.is_none() {
        return Ok(());
    }
    sqlx::query!(
        "DELETE FROM outputs WHERE workspace_id = $1 AND state_id = $2",
        workspace.as_str(),
        state_id,
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        "DELETE FROM header_parts WHERE workspace_id = $1 AND state_id = $2",
        workspace.as_str(),
        state_id,
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        "DELETE FROM version_documents WHERE workspace_id = $1 AND state_id = $2",
        workspace.as_str(),
        state_id,
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        "DELETE FROM state_versions WHERE workspace_id = $1 AND state_id = $2",
        workspace.as_str(),
        state_id,
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        "DELETE FROM lock_heads WHERE workspace_id = $1 AND state_id = $2",
        workspace.as_str(),
        state_id,
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        "DELETE FROM states WHERE workspace_id = $1 AND id = $2",
        workspace.as_str(),
        state_id,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
