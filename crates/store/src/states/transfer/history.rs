//! Versions as an export reads them: oldest first, page by page.

use serde_json::Value;
use uuid::Uuid;

use crate::states::versions::{Version, VersionRow};
use crate::{Error, WorkspaceTx};

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
