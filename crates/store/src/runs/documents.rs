//! The document that a run last saw.

use uuid::Uuid;

use crate::{Error, WorkspaceTx};

/// A run's document.
#[derive(Debug, Clone)]
pub struct RunDocument {
    /// Decimal digits of a u64.
    pub serial: String,
    pub sha256: Vec<u8>,
    /// Compressed and sealed.
    pub packed: Vec<u8>,
    pub byte_size: i64,
}

pub async fn find_run_document(
    tx: &mut WorkspaceTx,
    run_id: Uuid,
) -> Result<Option<RunDocument>, Error> {
    let row = sqlx::query_as!(
        RunDocument,
        r#"
            SELECT serial::text AS "serial!", sha256, body AS packed, byte_size
            FROM run_documents
            WHERE workspace_id = $1 AND run_id = $2
        "#,
        tx.workspace().as_str(),
        run_id,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(row)
}

/// Replaces what the run last saw. The caller holds the run.
pub async fn put_run_document(
    tx: &mut WorkspaceTx,
    run_id: Uuid,
    document: &RunDocument,
) -> Result<(), Error> {
    sqlx::query!(
        r#"
            INSERT INTO run_documents (workspace_id, run_id, serial, sha256, body, byte_size)
            VALUES ($1, $2, $3::text::numeric, $4, $5, $6)
            ON CONFLICT (workspace_id, run_id) DO UPDATE
            SET serial = excluded.serial, sha256 = excluded.sha256, body = excluded.body,
                byte_size = excluded.byte_size
        "#,
        tx.workspace().as_str(),
        run_id,
        document.serial,
        document.sha256,
        document.packed,
        document.byte_size,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
