//! The audit log: a plain insert in the transaction of what it records.

use protocol::{EnvironmentId, PrincipalId};
use serde_json::Value;
use uuid::Uuid;

use crate::{Error, WorkspaceTx};

/// One thing that was changed or revealed.
#[derive(Debug, Clone)]
pub struct NewAuditEntry<'a> {
    pub principal: &'a PrincipalId,
    pub display: &'a str,
    pub token_id: Option<&'a str>,
    /// What was done, as `state.write`.
    pub action: &'a str,
    /// To what, for people.
    pub target: &'a str,
    pub environment: Option<&'a EnvironmentId>,
    pub state_id: Option<Uuid>,
    pub request_id: &'a str,
    /// Settings, counts and digests; never a value of a state.
    pub before: Option<Value>,
    pub after: Option<Value>,
}

pub async fn record_audit(tx: &mut WorkspaceTx, entry: &NewAuditEntry<'_>) -> Result<(), Error> {
    let workspace = tx.workspace().clone();
    sqlx::query!(
        r#"
            INSERT INTO audit_entries (
                workspace_id, id, principal_id, display, token_id, action, target, environment_id, state_id,
                request_id, before, after, result
            )
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 'done')
        "#,
        workspace.as_str(),
        Uuid::now_v7(),
        entry.principal.as_str(),
        entry.display,
        entry.token_id,
        entry.action,
        entry.target,
        entry.environment.map(EnvironmentId::as_str),
        entry.state_id,
        entry.request_id,
        entry.before,
        entry.after,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
