//! Parts of a version: rows at places of the document order, and outputs by name.
//!
//! Each place is looked up on its own. Asked for as one set, the planner is free to read the whole state and filter, and
//! does so where its statistics say that states are small.

use uuid::Uuid;

use super::outputs::OutputRow;
use crate::{Error, WorkspaceTx};

/// A row of a slice.
#[derive(Debug, Clone)]
pub struct SliceRow {
    pub ord: Vec<u8>,
    pub kind: String,
    pub address: String,
    pub config_address: String,
    pub mode: String,
    pub provider: Option<String>,
    pub deposed: Option<String>,
    pub born_seq: i64,
    pub block: Vec<u8>,
    pub body: Vec<u8>,
    pub digest: Vec<u8>,
}

/// What version `seq` has at or after each of `from` and before its partner in `until`, in document order. The ranges do
/// not overlap.
pub async fn rows_in_ranges(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    seq: i64,
    from: &[Vec<u8>],
    until: &[Vec<u8>],
) -> Result<Vec<SliceRow>, Error> {
    let workspace = tx.workspace().clone();
    let rows = sqlx::query_as!(
        SliceRow,
        r#"
            SELECT i.ord, i.kind, i.address, i.config_address, i.mode, i.provider, i.deposed, i.born_seq, i.block,
                   i.body, i.body_digest AS digest
            FROM unnest($4::bytea[], $5::bytea[]) AS place (low, high)
            CROSS JOIN LATERAL (
                SELECT *
                FROM instances
                WHERE workspace_id = $1 AND state_id = $2 AND ord >= place.low AND ord < place.high
                  AND born_seq <= $3 AND (dies_seq IS NULL OR dies_seq > $3)
                OFFSET 0
            ) AS i
            ORDER BY i.ord
        "#,
        workspace.as_str(),
        state_id,
        seq,
        from,
        until,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows)
}

/// The places of the head in such ranges, each with its address, however long the history of each is.
pub async fn live_places_in_ranges(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    from: &[Vec<u8>],
    until: &[Vec<u8>],
) -> Result<Vec<(Vec<u8>, String)>, Error> {
    let rows = sqlx::query!(
        r#"
            SELECT i.ord, i.address
            FROM unnest($3::bytea[], $4::bytea[]) AS place (low, high)
            CROSS JOIN LATERAL (
                SELECT ord, address
                FROM instances
                WHERE workspace_id = $1 AND state_id = $2 AND ord >= place.low AND ord < place.high
                  AND dies_seq IS NULL
                OFFSET 0
            ) AS i
        "#,
        tx.workspace().as_str(),
        state_id,
        from,
        until,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().map(|row| (row.ord, row.address)).collect())
}

/// Those outputs of version `seq` that have one of these names, by name.
pub async fn outputs_named(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    seq: i64,
    names: &[String],
) -> Result<Vec<OutputRow>, Error> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let workspace = tx.workspace().clone();
    let rows = sqlx::query_as!(
        OutputRow,
        r#"
            SELECT o.name, o.name_token, o.body, o.body_digest AS digest
            FROM (SELECT DISTINCT unnest($4::text[]) AS name) AS wanted
            CROSS JOIN LATERAL (
                SELECT *
                FROM outputs
                WHERE workspace_id = $1 AND state_id = $2 AND name = wanted.name
                  AND born_seq <= $3 AND (dies_seq IS NULL OR dies_seq > $3)
                OFFSET 0
            ) AS o
            ORDER BY o.name
        "#,
        workspace.as_str(),
        state_id,
        seq,
        names,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows)
}

/// The serials of these versions, where they have one.
pub async fn serials_of(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    seqs: &[i64],
) -> Result<Vec<(i64, Option<String>)>, Error> {
    let workspace = tx.workspace().clone();
    let rows = sqlx::query!(
        r#"
            SELECT v.seq, v.serial::text AS serial
            FROM unnest($3::bigint[]) AS wanted (seq)
            CROSS JOIN LATERAL (
                SELECT seq, serial
                FROM state_versions
                WHERE workspace_id = $1 AND state_id = $2 AND seq = wanted.seq
                OFFSET 0
            ) AS v
        "#,
        workspace.as_str(),
        state_id,
        seqs,
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().map(|row| (row.seq, row.serial)).collect())
}
