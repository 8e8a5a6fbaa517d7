//! What an archive takes out of a history and puts into one: versions with all that is recorded of them, and rows by the
//! version in which they began or ended.

use chrono::{DateTime, Utc};
use protocol::EnvironmentId;
use serde_json::Value;
use uuid::Uuid;

use super::identity::Lifecycle;
use super::versions::{Form, Version, VersionRow};
use crate::{Error, WorkspaceTx, text::without_nul};

/// A version with what only archives ask for.
#[derive(Debug, Clone)]
pub struct HistoricVersion {
    pub version: Version,
    pub provenance: Option<Value>,
}

/// How much history there is up to a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistorySize {
    pub versions: i64,
    pub first_seq: i64,
    /// Of all documents together, as far as they have been rendered.
    pub document_bytes: i64,
}

/// A row that ended in a version.
#[derive(Debug, Clone)]
pub struct ClosedRow {
    pub ord: Vec<u8>,
    pub digest: Vec<u8>,
}

/// A row that began in a version.
#[derive(Debug, Clone)]
pub struct BornRow {
    pub ord: Vec<u8>,
    pub block: Vec<u8>,
    pub body: Vec<u8>,
    pub digest: Vec<u8>,
}

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

/// The size of the history of a state up to version `head`; `None` where there is none.
pub async fn history_size(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    head: i64,
) -> Result<Option<HistorySize>, Error> {
    let workspace = tx.workspace().clone();
    let row = sqlx::query!(
        r#"
            SELECT count(*) AS "versions!", min(seq) AS first_seq,
                   coalesce(sum(byte_size), 0)::bigint AS "document_bytes!"
            FROM state_versions
            WHERE workspace_id = $1 AND state_id = $2 AND seq <= $3
        "#,
        workspace.as_str(),
        state_id,
        head,
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(row.first_seq.map(|first_seq| HistorySize {
        versions: row.versions,
        first_seq,
        document_bytes: row.document_bytes,
    }))
}

/// Versions after `after` up to `head`, oldest first.
pub async fn history_page(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    after: i64,
    head: i64,
    limit: i64,
) -> Result<Vec<HistoricVersion>, Error> {
    let workspace = tx.workspace().clone();
    let rows = sqlx::query!(
        r#"
            SELECT seq, id, serial::text AS "serial", lineage, terraform_version, source, created_at,
                   created_by, forced, unlocked, form, opaque_reason, header, rows_digest, sha256,
                   byte_size, instance_count, rows_changed, run_id, provenance
            FROM state_versions
            WHERE workspace_id = $1 AND state_id = $2 AND seq > $3 AND seq <= $4
            ORDER BY seq
            LIMIT $5
        "#,
        workspace.as_str(),
        state_id,
        after,
        head,
        limit,
    )
    .fetch_all(&mut **tx)
    .await?;
    rows.into_iter()
        .map(|row| {
            let version = VersionRow {
                seq: row.seq,
                id: row.id,
                serial: row.serial,
                lineage: row.lineage,
                terraform_version: row.terraform_version,
                source: row.source,
                created_at: row.created_at,
                created_by: row.created_by,
                forced: row.forced,
                unlocked: row.unlocked,
                form: row.form,
                opaque_reason: row.opaque_reason,
                header: row.header,
                rows_digest: row.rows_digest,
                sha256: row.sha256,
                byte_size: row.byte_size,
                instance_count: row.instance_count,
                previous_instance_count: None,
                rows_changed: row.rows_changed,
                run_id: row.run_id,
                command: None,
            };
            Ok(HistoricVersion {
                version: version.try_into()?,
                provenance: row.provenance,
            })
        })
        .collect()
}

/// Versions up to `head` whose documents have never been rendered, oldest first.
pub async fn list_unrendered(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    head: i64,
) -> Result<Vec<i64>, Error> {
    let workspace = tx.workspace().clone();
    let seqs = sqlx::query_scalar!(
        r#"
            SELECT seq
            FROM state_versions
            WHERE workspace_id = $1 AND state_id = $2 AND seq <= $3
              AND (sha256 IS NULL OR byte_size IS NULL)
            ORDER BY seq
        "#,
        workspace.as_str(),
        state_id,
        head,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(seqs)
}

/// How many bytes of rows began after version `before` and live at `seq`.
pub async fn born_bytes(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    before: i64,
    seq: i64,
) -> Result<i64, Error> {
    let workspace = tx.workspace().clone();
    let bytes = sqlx::query_scalar!(
        r#"
            SELECT coalesce(sum(octet_length(body) + octet_length(block)), 0)::bigint AS "bytes!"
            FROM instances
            WHERE workspace_id = $1 AND state_id = $2 AND born_seq > $3 AND born_seq <= $4
              AND (dies_seq IS NULL OR dies_seq > $4)
        "#,
        workspace.as_str(),
        state_id,
        before,
        seq,
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(bytes)
}

/// Rows that began after version `before` and live at `seq`, in document order.
pub async fn born_rows(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    before: i64,
    seq: i64,
) -> Result<Vec<BornRow>, Error> {
    let workspace = tx.workspace().clone();
    let rows = sqlx::query_as!(
        BornRow,
        r#"
            SELECT ord, block, body, body_digest AS digest
            FROM instances
            WHERE workspace_id = $1 AND state_id = $2 AND born_seq > $3 AND born_seq <= $4
              AND (dies_seq IS NULL OR dies_seq > $4)
            ORDER BY ord
        "#,
        workspace.as_str(),
        state_id,
        before,
        seq,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows)
}

/// Rows that lived at version `before` and do not at `seq`, in document order.
pub async fn closed_rows(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    before: i64,
    seq: i64,
) -> Result<Vec<ClosedRow>, Error> {
    let workspace = tx.workspace().clone();
    let rows = sqlx::query_as!(
        ClosedRow,
        r#"
            SELECT ord, body_digest AS digest
            FROM instances
            WHERE workspace_id = $1 AND state_id = $2 AND dies_seq > $3 AND dies_seq <= $4
              AND born_seq <= $3
            ORDER BY ord
        "#,
        workspace.as_str(),
        state_id,
        before,
        seq,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows)
}

/// Outputs that began after version `before` and live at `seq`, by name.
pub async fn born_outputs(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    before: i64,
    seq: i64,
) -> Result<Vec<super::OutputRow>, Error> {
    let workspace = tx.workspace().clone();
    let rows = sqlx::query_as!(
        super::OutputRow,
        r#"
            SELECT name, name_token, body, body_digest AS digest
            FROM outputs
            WHERE workspace_id = $1 AND state_id = $2 AND born_seq > $3 AND born_seq <= $4
              AND (dies_seq IS NULL OR dies_seq > $4)
            ORDER BY name
        "#,
        workspace.as_str(),
        state_id,
        before,
        seq,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows)
}

/// Name and digest of the outputs that lived at version `before` and do not at `seq`, by name.
pub async fn closed_outputs(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    before: i64,
    seq: i64,
) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let workspace = tx.workspace().clone();
    let rows = sqlx::query!(
        r#"
            SELECT name, body_digest
            FROM outputs
            WHERE workspace_id = $1 AND state_id = $2 AND dies_seq > $3 AND dies_seq <= $4
              AND born_seq <= $3
            ORDER BY name
        "#,
        workspace.as_str(),
        state_id,
        before,
        seq,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (row.name, row.body_digest))
        .collect())
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
