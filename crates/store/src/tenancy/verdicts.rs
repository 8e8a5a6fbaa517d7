//! From a token's id to the principal with everything a decision needs.

use std::collections::BTreeSet;

use auth::{CallerKind, Principal, TokenId, TokenMac};
use chrono::{DateTime, Utc};
use protocol::tenancy::WorkspaceLifecycle;
use protocol::{RunId, WorkspaceId};

use super::credentials::parse_scope;
use super::members::parse_grants;
use super::workspaces::parse_lifecycle;
use crate::{Db, Error, Result};

/// What is known of a token whose secret is right.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// When it ends.
    pub expires_at: DateTime<Utc>,
    /// Whether it has ended, by the database's clock.
    pub expired: bool,
    /// Whether it was revoked.
    pub revoked: bool,
    /// Who it stands for.
    pub principal: Principal,
}

/// Looks a token up by its public id and compares what proves it. `None` when the id is not known or the secret is
/// wrong: after the same one statement either way, so that neither the answer nor its timing tells which.
///
/// # Errors
///
/// Those of the database.
pub async fn find_verdict(db: &Db, token_id: &TokenId, mac: &TokenMac) -> Result<Option<Verdict>> {
    let row = sqlx::query!(
        r#"
            SELECT
                c.workspace_id,
                c.principal_id,
                c.kind,
                c.operator_display,
                c.run_id,
                c.mac,
                c.scope_role,
                c.scope_environment_id,
                c.expires_at,
                c.expires_at <= now() AS "expired!",
                c.revoked_at IS NOT NULL AS "revoked!",
                w.lifecycle AS "lifecycle?"
            FROM credentials c
            LEFT JOIN workspaces w ON w.id = c.workspace_id
            WHERE c.token_id = $1
        "#,
        token_id.as_str(),
    )
    .fetch_optional(&mut *db.system().await?)
    .await?;
    let Some(row) = row else { return Ok(None) };

    let impossible = |reason: &dyn std::fmt::Display| Error::impossible("credentials", reason);
    if TokenMac::from_slice(&row.mac).map_err(|error| impossible(&error))? != *mac {
        return Ok(None);
    }
    let mut principal = Principal {
        id: row
            .principal_id
            .parse()
            .map_err(|error| impossible(&error))?,
        display: row.operator_display.unwrap_or_default(),
        kind: match row.kind.as_str() {
            "person" => CallerKind::Person,
            // A run's token acts for a member, whose own kind decides nothing here.
            "service" | "run" => CallerKind::Service,
            "operator" => CallerKind::Operator,
            other => return Err(impossible(&format!("kind {other}"))),
        },
        token_id: token_id.clone(),
        run: row.run_id.map(RunId::from_uuid),
        scope: parse_scope(
            row.scope_role.as_deref(),
            row.scope_environment_id.as_deref(),
        )?,
        workspace: None,
        suspended: false,
        grants: Vec::new(),
        environments: BTreeSet::new(),
    };
    if let Some(workspace) = row.workspace_id {
        let workspace = workspace.parse().map_err(|error| impossible(&error))?;
        let lifecycle = parse_lifecycle(&row.lifecycle.unwrap_or_default())?;
        principal.suspended = lifecycle == WorkspaceLifecycle::Suspended;
        load_membership(db, &workspace, &mut principal).await?;
        principal.workspace = Some(workspace);
    }
    Ok(Some(Verdict {
        expires_at: row.expires_at,
        expired: row.expired,
        revoked: row.revoked,
        principal,
    }))
}

/// Fills in what the workspace knows of the principal, and which environments it has.
async fn load_membership(
    db: &Db,
    workspace: &WorkspaceId,
    principal: &mut Principal,
) -> Result<()> {
    let mut tx = db.begin_read(workspace).await?;
    let row = sqlx::query!(
        r#"
            SELECT
                p.display,
                ARRAY(
                    SELECT g.role FROM grants g
                    WHERE g.workspace_id = p.workspace_id AND g.principal_id = p.id
                    ORDER BY g.environment_id, g.role
                ) AS "roles!",
                ARRAY(
                    SELECT coalesce(g.environment_id, '') FROM grants g
                    WHERE g.workspace_id = p.workspace_id AND g.principal_id = p.id
                    ORDER BY g.environment_id, g.role
                ) AS "granted!",
                ARRAY(
                    SELECT e.id FROM environments e
                    WHERE e.workspace_id = p.workspace_id
                ) AS "environments!"
            FROM principals p
            WHERE p.workspace_id = $1 AND p.id = $2
        "#,
        workspace.as_str(),
        principal.id.as_str(),
    )
    .fetch_optional(&mut *tx)
    .await?
    .ok_or_else(|| Error::impossible("credentials", "the principal does not exist"))?;
    tx.commit().await?;

    principal.display = row.display;
    principal.grants = parse_grants(&row.roles, &row.granted)?;
    principal.environments = row
        .environments
        .iter()
        .map(|id| {
            id.parse()
                .map_err(|error| Error::impossible("environments", error))
        })
        .collect::<Result<_>>()?;
    Ok(())
}
