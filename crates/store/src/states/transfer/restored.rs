//! A state being restored: made out of sight, filled version by version, and made visible at once.

use chrono::{DateTime, Utc};
use protocol::EnvironmentId;
use serde_json::Value;
use uuid::Uuid;

use crate::states::identity::Lifecycle;
use crate::states::versions::Form;
use crate::{Error, WorkspaceTx, text::without_nul};

/// A version being restored, with the facts of its first life.
#[derive(Debug, Clone)]
pub struct RestoredVersion<'a> {
    pub state_id: Uuid,
    pub seq: i64,
    pub id: Uuid,
    pub serial: Option<u64>,
    pub lineage: Option<&'a str>,
    pub terraform_version: Option<&'a str>,
    pub source: &'a str,
    pub created_at: DateTime<Utc>,
    pub created_by: &'a str,
    pub principal_id: &'a str,
    pub forced: bool,
    pub unlocked: bool,
    pub form: Form,
    pub opaque_reason: Option<&'a str>,
    pub header: Option<&'a [u8]>,
    pub rows_digest: &'a [u8],
    pub sha256: &'a [u8],
    pub byte_size: i64,
    pub instance_count: i64,
    pub rows_changed: i64,
    pub provenance: Value,
}

/// Whether the workspace has a state of this id.
pub async fn state_id_is_taken(tx: &mut WorkspaceTx, id: Uuid) -> Result<bool, Error> {
    let workspace = tx.workspace().clone();
    let taken = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM states WHERE workspace_id = $1 AND id = $2) AS "taken!""#,
        workspace.as_str(),
        id,
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(taken)
}

/// Whether the workspace has a version of this id.
pub async fn version_id_is_taken(tx: &mut WorkspaceTx, id: Uuid) -> Result<bool, Error> {
    let workspace = tx.workspace().clone();
    let taken = sqlx::query_scalar!(
        r#"
            SELECT EXISTS (
                SELECT FROM state_versions WHERE workspace_id = $1 AND id = $2
            ) AS "taken!"
        "#,
        workspace.as_str(),
        id,
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(taken)
}

/// Makes a state that nobody sees yet, and that has its name all the same. A race for the name ends at the constraint
/// `states_live_name`.
pub async fn create_importing_state(
    tx: &mut WorkspaceTx,
    environment: &EnvironmentId,
    name: &str,
    id: Uuid,
) -> Result<(), Error> {
    let workspace = tx.workspace().clone();
    sqlx::query!(
        r#"
            INSERT INTO states (workspace_id, id, environment_id, name, lifecycle)
            VALUES ($1, $2, $3, $4, 'importing')
        "#,
        workspace.as_str(),
        id,
        environment.as_str(),
        name,
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        "INSERT INTO lock_heads (workspace_id, state_id) VALUES ($1, $2)",
        workspace.as_str(),
        id,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Makes a restored state visible, with its head and its name; false when it is not being restored any more.
pub async fn publish_state(
    tx: &mut WorkspaceTx,
    id: Uuid,
    name: &str,
    head_seq: i64,
    lifecycle: Lifecycle,
) -> Result<bool, Error> {
    let workspace = tx.workspace().clone();
    let published = sqlx::query!(
        r#"
            UPDATE states
            SET name = $3, head_seq = $4, lifecycle = $5
            WHERE workspace_id = $1 AND id = $2 AND lifecycle = 'importing'
        "#,
        workspace.as_str(),
        id,
        name,
        head_seq,
        lifecycle.as_str(),
    )
    .execute(&mut **tx)
    .await?
    .rows_affected();
    Ok(published == 1)
}

/// The id of each version that has been restored so far, oldest first.
pub async fn list_restored(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
) -> Result<Vec<(i64, Uuid)>, Error> {
    let workspace = tx.workspace().clone();
    let rows = sqlx::query!(
        "SELECT seq, id FROM state_versions WHERE workspace_id = $1 AND state_id = $2 ORDER BY seq",
        workspace.as_str(),
        state_id,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().map(|row| (row.seq, row.id)).collect())
}

/// Adds a version of an archive to a state that is being restored.
pub async fn insert_restored_version(
    tx: &mut WorkspaceTx,
    version: &RestoredVersion<'_>,
) -> Result<(), Error> {
    let workspace = tx.workspace().clone();
    let serial = version.serial.map(|serial| serial.to_string());
    let lineage = version.lineage.map(without_nul);
    let terraform_version = version.terraform_version.map(without_nul);
    sqlx::query!(
        r#"
            INSERT INTO state_versions (
                workspace_id, state_id, seq, id, serial, lineage, terraform_version, source, created_at,
                created_by, principal_id, incarnation, forced, unlocked, form, opaque_reason, header,
                rows_digest, sha256, byte_size, instance_count, rows_changed, provenance
            )
            SELECT $1, $2, $3, $4, $5::text::numeric, $6, $7, $8, $9, $10, $11, incarnation, $12, $13,
                   $14, $15, $16, $17, $18, $19, $20, $21, $22
            FROM lock_service
        "#,
        workspace.as_str(),
        version.state_id,
        version.seq,
        version.id,
        serial,
        lineage.as_deref(),
        terraform_version.as_deref(),
        version.source,
        version.created_at,
        &*without_nul(version.created_by),
        version.principal_id,
        version.forced,
        version.unlocked,
        version.form.as_str(),
        version.opaque_reason,
        version.header,
        version.rows_digest,
        version.sha256,
        version.byte_size,
        version.instance_count,
        version.rows_changed,
        version.provenance,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
