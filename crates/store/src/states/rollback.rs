//! Making the rows of an older version the rows of a new one, at the cost of what differs.

use uuid::Uuid;

use crate::{Error, WorkspaceTx};

/// Closes what lives now but did not (or not so) at version `target`, and gives what lived there and is
/// gone or changed now a new life from `seq` on. Returns how many rows were closed or born.
///
/// A row that died and came back with the same content is left alone: it is the same row to a reader.
pub async fn restore_rows(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    target: i64,
    seq: i64,
) -> Result<u64, Error> {
    let closed = sqlx::query!(
        r#"
            UPDATE instances AS live
            SET dies_seq = $4
            WHERE workspace_id = $1 AND state_id = $2 AND dies_seq IS NULL AND born_seq > $3
              AND NOT EXISTS (
                  SELECT FROM instances past
                  WHERE past.workspace_id = $1 AND past.state_id = $2 AND past.ord = live.ord
                    AND past.born_seq <= $3 AND past.dies_seq > $3
                    AND past.body_digest = live.body_digest
              )
        "#,
        tx.workspace().as_str(),
        state_id,
        target,
        seq,
    )
    .execute(&mut **tx)
    .await?
    .rows_affected();
    let born = sqlx::query!(
        r#"
            INSERT INTO instances (
                workspace_id, state_id, born_seq, ord, kind, address, config_address, module, mode, type,
                name, index_key, deposed, provider, block, body, body_digest, dependencies
            )
            SELECT workspace_id, state_id, $4, ord, kind, address, config_address, module, mode, type,
                   name, index_key, deposed, provider, block, body, body_digest, dependencies
            FROM instances AS past
            WHERE workspace_id = $1 AND state_id = $2 AND born_seq <= $3 AND dies_seq > $3
              AND NOT EXISTS (
                  SELECT FROM instances live
                  WHERE live.workspace_id = $1 AND live.state_id = $2 AND live.ord = past.ord
                    AND live.dies_seq IS NULL
              )
        "#,
        tx.workspace().as_str(),
        state_id,
        target,
        seq,
    )
    .execute(&mut **tx)
    .await?
    .rows_affected();
    let outputs_closed = sqlx::query!(
        r#"
            UPDATE outputs AS live
            SET dies_seq = $4
            WHERE workspace_id = $1 AND state_id = $2 AND dies_seq IS NULL AND born_seq > $3
              AND NOT EXISTS (
                  SELECT FROM outputs past
                  WHERE past.workspace_id = $1 AND past.state_id = $2 AND past.name = live.name
                    AND past.born_seq <= $3 AND past.dies_seq > $3
                    AND past.body_digest = live.body_digest
              )
        "#,
        tx.workspace().as_str(),
        state_id,
        target,
        seq,
    )
    .execute(&mut **tx)
    .await?
    .rows_affected();
    let outputs_born = sqlx::query!(
        r#"
            INSERT INTO outputs (workspace_id, state_id, born_seq, name, name_token, body, body_digest)
            SELECT workspace_id, state_id, $4, name, name_token, body, body_digest
            FROM outputs AS past
            WHERE workspace_id = $1 AND state_id = $2 AND born_seq <= $3 AND dies_seq > $3
              AND NOT EXISTS (
                  SELECT FROM outputs live
                  WHERE live.workspace_id = $1 AND live.state_id = $2 AND live.name = past.name
                    AND live.dies_seq IS NULL
              )
        "#,
        tx.workspace().as_str(),
        state_id,
        target,
        seq,
    )
    .execute(&mut **tx)
    .await?
    .rows_affected();
    Ok(closed + born + outputs_closed + outputs_born)
}
