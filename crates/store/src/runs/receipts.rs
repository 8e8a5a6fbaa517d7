//! What became of each commit of a run.

use graph::claims::ClaimSet;
use uuid::Uuid;

use crate::reservations::claims_of_columns;
use crate::{Error, WorkspaceTx};

/// By what a commit is known again: the same key is the same commit.
#[derive(Debug, Clone, Copy)]
pub struct NewReceipt<'a> {
    pub run_id: Uuid,
    pub commit_key: &'a str,
    /// What the key was used for.
    pub request_digest: &'a [u8],
}

/// The outcome of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    pub request_digest: Vec<u8>,
    pub seq: i64,
    /// Decimal digits of a u64.
    pub serial: String,
}

/// What a commit is judged by: the claims of the reservation, and the receipt of an earlier one with this key.
pub async fn find_grounds(
    tx: &mut WorkspaceTx,
    reservation: Uuid,
    run_id: Uuid,
    commit_key: &str,
) -> Result<(ClaimSet, Option<Receipt>), Error> {
    let row = sqlx::query!(
        r#"
            SELECT
                ARRAY (
                    SELECT array_to_string(path, E'\n')
                    FROM claims
                    WHERE workspace_id = $1 AND reservation_id = $2
                    ORDER BY path
                ) AS "paths!",
                ARRAY (
                    SELECT mode
                    FROM claims
                    WHERE workspace_id = $1 AND reservation_id = $2
                    ORDER BY path
                ) AS "modes!",
                receipt.request_digest AS "request_digest?", receipt.seq AS "seq?", receipt.serial AS "serial?"
            FROM (VALUES (1)) AS one
            LEFT JOIN LATERAL (
                SELECT request_digest, seq, serial::text
                FROM commit_receipts
                WHERE workspace_id = $1 AND run_id = $3 AND commit_key = $4
                OFFSET 0
            ) AS receipt ON true
        "#,
        tx.workspace().as_str(),
        reservation,
        run_id,
        commit_key,
    )
    .fetch_one(&mut **tx)
    .await?;
    let claims = claims_of_columns(&row.paths, &row.modes)?;
    let receipt = row.request_digest.zip(row.seq).zip(row.serial);
    let receipt = receipt.map(|((request_digest, seq), serial)| Receipt {
        request_digest,
        seq,
        serial,
    });
    Ok((claims, receipt))
}

/// Records the outcome of a commit that made no version.
pub async fn insert_receipt(
    tx: &mut WorkspaceTx,
    receipt: &NewReceipt<'_>,
    seq: i64,
    serial: u64,
) -> Result<(), Error> {
    sqlx::query!(
        r#"
            INSERT INTO commit_receipts (workspace_id, run_id, commit_key, request_digest, seq, serial)
            VALUES ($1, $2, $3, $4, $5, $6::text::numeric)
        "#,
        tx.workspace().as_str(),
        receipt.run_id,
        receipt.commit_key,
        receipt.request_digest,
        seq,
        serial.to_string(),
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
