//! What became of each commit of a run.

use uuid::Uuid;

use crate::{Error, WorkspaceTx};

/// The outcome of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    pub request_digest: Vec<u8>,
    pub seq: i64,
    /// Decimal digits of a u64.
    pub serial: String,
}

pub async fn find_receipt(
    tx: &mut WorkspaceTx,
    run_id: Uuid,
    commit_key: &str,
) -> Result<Option<Receipt>, Error> {
    let row = sqlx::query_as!(
        Receipt,
        r#"
            SELECT request_digest, seq, serial::text AS "serial!"
            FROM commit_receipts
            WHERE workspace_id = $1 AND run_id = $2 AND commit_key = $3
        "#,
        tx.workspace().as_str(),
        run_id,
        commit_key,
    )
    .fetch_optional(&mut **tx)
    .await?;
    Ok(row)
}

pub async fn insert_receipt(
    tx: &mut WorkspaceTx,
    run_id: Uuid,
    commit_key: &str,
    receipt: &Receipt,
) -> Result<(), Error> {
    sqlx::query!(
        r#"
            INSERT INTO commit_receipts (workspace_id, run_id, commit_key, request_digest, seq, serial)
            VALUES ($1, $2, $3, $4, $5, $6::text::numeric)
        "#,
        tx.workspace().as_str(),
        run_id,
        commit_key,
        receipt.request_digest,
        receipt.seq,
        receipt.serial,
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
