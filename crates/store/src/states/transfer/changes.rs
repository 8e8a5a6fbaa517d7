//! What one version changed against another: rows and outputs that began or ended in between.

use uuid::Uuid;

use crate::states::OutputRow;
use crate::{Error, WorkspaceTx};

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
) -> Result<Vec<OutputRow>, Error> {
    let workspace = tx.workspace().clone();
    let rows = sqlx::query_as!(
        OutputRow,
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
